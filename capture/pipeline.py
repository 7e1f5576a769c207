"""A pipeline in one program: stages stacked over `pp`, microbatches passed from each to the next.

Every device runs its own stage's layers at every tick. Tick t is stage s's turn at microbatch t - s;
outside 0..m-1 it computes on data that nobody reads, which is the pipeline's bubble. A tick ends with a
collective-permute of [sequences of a microbatch, tokens, hidden] to the next stage, and from the last to
the first: so the last stage's results come back to stage 0, which owns embedding, leading dense layers
and head. All devices run those three, and only stage 0's outcome counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlahouse.capture.manifest import MARKER_PREFIX

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.cache import StaticCache
    from xlahouse.capture.collectives import Collectives
    from xlahouse.capture.placing import Stages


TICK = f"{MARKER_PREFIX}tick"  # scope of a tick, with its number after a dot


def schedule(stages: int, microbatches: int) -> list[list[int | None]]:
    """[tick][stage] -> the microbatch that it computes; None: masked."""
    return [
        [tick - stage if 0 <= tick - stage < microbatches else None for stage in range(stages)]
        for tick in range(microbatches + stages - 1)
    ]


def run_pipeline(
    model: Any,
    tokens: torch.Tensor,
    positions: torch.Tensor,
    cache: StaticCache,
    stage: torch.Tensor,
    collectives: Collectives,
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
