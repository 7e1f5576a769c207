"""Experts: dispatches each token to its experts, multiplies, and combines the answers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.collectives import MeshCollectives
    from xlahouse.capture.models.modules import ExpertsModule

EXPERTS = "xlahouse_dispatch"  # its name in transformers


def register_experts(collectives: MeshCollectives | None, capacity_factor: float | None) -> None:
    """Register the dispatch over `ep` with transformers, for all models of this process.

    Args:
        collectives: of the mesh; None: of a single device.
        capacity_factor: places of an expert, as a multiple of its fair share of tokens; tokens
            beyond are dropped. None: places for all tokens.
    """
    from transformers.integrations.moe import ALL_EXPERTS_FUNCTIONS

    def forward(
        module: ExpertsModule, hidden: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        return dispatch_and_combine(module, hidden, chosen, weights, collectives, capacity_factor)

    ALL_EXPERTS_FUNCTIONS.register(EXPERTS, forward)


def dispatch_and_combine(
    module: ExpertsModule,
    hidden: torch.Tensor,
    chosen: torch.Tensor,
    weights: torch.Tensor,
    collectives: MeshCollectives | None,
    capacity_factor: float | None,
) -> torch.Tensor:
    """The experts' answer for each token; under `tp` a partial sum over the intermediate dimension.

    Each device fills [experts, capacity] places with its own tokens, an all-to-all over `ep` sends
    each expert's places to its device, and another returns the answers.

    Shapes: hidden [tokens, hidden], chosen and weights [tokens, experts a token].
    """
    import torch

    tokens, width = hidden.shape
    experts = module.num_experts
    capacity = expert_capacity(tokens, chosen.shape[1], experts, capacity_factor)
    place, kept = assign_places(chosen, experts, capacity)
    source = torch.full((experts * capacity + 1,), tokens, device=hidden.device)
    token_of = torch.arange(tokens, device=hidden.device)[:, None].expand_as(place)
    source = source.scatter(0, place.reshape(-1), token_of.reshape(-1))[:-1]
    padded = torch.cat([hidden, hidden.new_zeros(1, width)])  # the row of zeros fills empty places
    sent = padded.index_select(0, source).reshape(experts, capacity, width)
    if collectives is not None:
        # [own experts, all places, hidden]
        sent = collectives.all_to_all(sent, "ep", split=0, join=1)
    gated = module._apply_gate(torch.einsum("ech,eih->eci", sent, module.gate_up_proj))
    answers = torch.einsum("eci,ehi->ech", gated, module.down_proj)
    if collectives is not None:
        answers = collectives.all_to_all(answers, "ep", split=1, join=0)
    flat = torch.cat([answers.reshape(-1, width), answers.new_zeros(1, width)])
    mine = flat.index_select(0, place.reshape(-1)).reshape(*place.shape, width)
    share = (weights * kept).to(mine.dtype)
    return (mine * share[..., None]).sum(1).to(hidden.dtype)


def expert_capacity(tokens: int, chosen: int, experts: int, factor: float | None) -> int:
    """Places of an expert for one device's tokens; a token takes at most one."""
    if factor is None:
        return tokens
    return min(tokens, math.ceil(tokens * chosen / experts * factor))


def assign_places(
    chosen: torch.Tensor, experts: int, capacity: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The place of each choice in [experts x capacity], first come first served.

    Returns:
        places, [tokens, chosen], experts x capacity where the expert is full; and whether each is kept.
    """
    import torch

    flat = chosen.reshape(-1)
    hits = (flat[:, None] == torch.arange(experts, device=flat.device)).to(torch.int32)
    before = hits.cumsum(0) - hits  # earlier choices of the same expert
    rank = (before * hits).sum(1)
    kept = rank < capacity
    place = torch.where(kept, flat * capacity + rank, experts * capacity)
    return place.reshape(chosen.shape), kept.reshape(chosen.shape)
