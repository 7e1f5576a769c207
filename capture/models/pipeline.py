"""A pipeline in one program: stages stacked over `pp` pass microbatches to one another.

Every device runs its own stage's layers at every tick. At tick t stage s computes microbatch t - s;
outside 0..m-1 its result is discarded (masked), which is the pipeline's bubble. A tick ends with a
collective-permute of [sequences of a microbatch, tokens, hidden] to the next stage, and from the last to
the first, so the last stage's results return to stage 0. All devices run embedding, leading dense layers
and head; only stage 0's results of these are used.
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


MASKED_POINTS = 0.05  # difference of measured and ideal share that needs no warning
TICK = f"{MARKER_PREFIX}tick"  # scope of a tick, with its number after a dot


def schedule(stages: int, microbatches: int) -> list[list[int | None]]:
    """[tick][stage] -> its microbatch; None: masked."""
    return [
        [tick - stage if 0 <= tick - stage < microbatches else None for stage in range(stages)]
        for tick in range(microbatches + stages - 1)
    ]


def masked_shares(
    stage: float, outside: float, stages: int, microbatches: int
) -> tuple[float, float]:
    """Masked share of the ticks, (p-1)/(m+p-1), and an estimate of a whole step's.

    The estimate takes compute as proportional to the weights that are read: `stage`, bytes of one
    stage, at every tick; `outside`, bytes of dense layers and head, once, and never masked.
    """
    ticks = microbatches + stages - 1
    ideal = (stages - 1) / ticks
    return ideal, ideal * ticks * stage / (ticks * stage + outside)


def masked_note(placed: Placed, stages: Stages, microbatches: int, virtual: bool) -> str | None:
    """Why the masked share of a step will not be (p-1)/(m+p-1); None if it will."""
    read = {
        id(tensor): (name in placed.stacked, tensor.numel() * tensor.element_size())
        for name, tensor in placed.tensors.items()
        if not name.endswith("embed_tokens.weight")  # a step reads a few of its rows
    }
    stacked = sum(size for is_stacked, size in read.values() if is_stacked)
    outside = sum(size for is_stacked, size in read.values() if not is_stacked)
    ideal, step = masked_shares(stacked / stages.count, outside, stages.count, microbatches)
    if ideal - step <= MASKED_POINTS and not virtual:
        return None
    apart = f"{stages.dense} dense layers and the head run" if stages.dense else "the head runs"
    cores = "; virtual devices share cores, so a single device deviates further" if virtual else ""
    return (
        f"pipeline: {apart} outside the ticks, so about {step:.0%} of a step's compute "
        f"is masked, not (p-1)/(m+p-1) = {ideal:.0%}, which is the share within the ticks{cores}"
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
    """Logits of the last position, [batch, 1, vocab]; only stage 0's are valid.

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
        "query_positions": positions,
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
    """Select this tick's sequences in the cache; `turn` [1], the microbatch, may be out of range."""
    import torch

    cache.valid = (turn >= 0) & (turn < microbatches)
    first = turn.clamp(0, microbatches - 1) * size
    cache.rows = first + torch.arange(size, device=turn.device)
