"""A pipeline in one program: stages stacked over `pp`, microbatches passed from each to the next.

Every device runs its own stage's layers at every tick. Tick t is stage s's turn at microbatch t - s;
outside 0..m-1 it computes on data that nobody reads, which is the pipeline's bubble. A tick ends with a
collective-permute of [sequences of a microbatch, tokens, hidden] to the next stage, and from the last to
the first: so the last stage's results come back to stage 0, which owns embedding, leading dense layers
and head. All devices run those three, and only stage 0's outcome counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlahouse.capture.manifest import MARKER_PREFIX

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.cache import StaticCache
    from xlahouse.capture.models.collectives import MeshCollectives
    from xlahouse.capture.models.modules import CausalModel
    from xlahouse.capture.models.placing import Placed, Stages


MASKED_POINTS = 0.05  # by which measured and ideal share may differ without a word
TICK = f"{MARKER_PREFIX}tick"  # scope of a tick, with its number after a dot


def schedule(stages: int, microbatches: int) -> list[list[int | None]]:
    """[tick][stage] -> the microbatch that it computes; None: masked."""
    return [
        [tick - stage if 0 <= tick - stage < microbatches else None for stage in range(stages)]
        for tick in range(microbatches + stages - 1)
    ]


def masked_shares(
    stage: float, outside: float, stages: int, microbatches: int
) -> tuple[float, float]:
    """Masked share of the ticks, (p-1)/(m+p-1), and about that of a whole step.

    The step's compute goes by the weights that it reads: `stage`, bytes of one stage, at every tick;
    `outside`, bytes of dense layers and head, once, and never masked.
    """
    ticks = microbatches + stages - 1
    ideal = (stages - 1) / ticks
    return ideal, ideal * ticks * stage / (ticks * stage + outside)


def masked_note(placed: Placed, stages: Stages, microbatches: int, virtual: bool) -> str | None:
    """Why the measured masked share of a step will not be (p-1)/(m+p-1), if so."""
    read = {
        id(tensor): (name in placed.stacked, tensor.numel() * tensor.element_size())
        for name, tensor in placed.tensors.items()
        if not name.endswith("embed_tokens.weight")  # of which a step reads some rows
    }
    stacked = sum(size for is_stacked, size in read.values() if is_stacked)
    outside = sum(size for is_stacked, size in read.values() if not is_stacked)
    ideal, step = masked_shares(stacked / stages.count, outside, stages.count, microbatches)
    if ideal - step <= MASKED_POINTS and not virtual:
        return None
    apart = f"{stages.dense} dense layers and the head run" if stages.dense else "the head runs"
    cores = "; virtual devices share cores, so a single one strays further" if virtual else ""
    return (
        f"pipeline: {apart} outside the ticks, so about {step:.0%} of a step's compute "
        f"is masked and not (p-1)/(m+p-1) = {ideal:.0%}, which holds within the ticks{cores}"
    )


def run_pipeline(
    model: CausalModel,
    tokens: torch.Tensor,
    positions: torch.Tensor,
    cache: StaticCache,
    stage: torch.Tensor,
    collectives: MeshCollectives,
    stages: Stages,
    microbatches: int,
) -> torch.Tensor:
    """Logits of the last position, [batch, 1, vocab]; stage 0's are the model's.

    Shapes: tokens [batch, tokens], positions [tokens], stage [1] (the device's own).
    """
    import torch

    base = model.model
    hidden = base.embed_tokens(tokens)
    shared = {
        "attention_mask": cache.mask(),
        "position_ids": positions[None],
        "position_embeddings": base.rotary_emb(hidden, positions[None]),
        "cache": cache,
        "use_cache": True,
    }
    for layer in base.layers[: stages.dense]:
        hidden = layer(hidden, **shared)
    inputs = hidden.chunk(microbatches)
    arriving, finished = torch.zeros_like(inputs[0]), []
    for tick in range(microbatches + stages.count - 1):
        with collectives.layout.scope(f"{TICK}.{tick}"):
            entering = inputs[min(tick, microbatches - 1)]
            passing = torch.where(stage == 0, entering, arriving)
            _choose_rows(cache, tick - stage, microbatches, inputs[0].shape[0])
            for layer in base.layers[stages.dense : stages.dense + stages.per_stage]:
                passing = layer(passing, **shared)
            arriving = collectives.shift(passing, "pp")
        if tick >= stages.count - 1:
            finished.append(arriving)
    last = base.norm(torch.cat(finished))[:, -1:]
    logits: torch.Tensor = model.lm_head(last)
    return logits


def _choose_rows(cache: StaticCache, turn: torch.Tensor, microbatches: int, size: int) -> None:
    """Point the cache at the sequences of this tick's microbatch; `turn` [1] may be outside."""
    import torch

    cache.valid = (turn >= 0) & (turn < microbatches)
    first = turn.clamp(0, microbatches - 1) * size
    cache.rows = first + torch.arange(size, device=turn.device)
