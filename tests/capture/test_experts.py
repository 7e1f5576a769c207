"""Dispatch and combine: equal to transformers' batched_mm, and what a full expert drops."""

from __future__ import annotations

import pytest

from tests.later import Later, needs
from xlahouse.capture.models.experts import (
    assign_places,
    dispatch_and_combine,
    expert_capacity,
)

torch = Later("torch")
pytestmark = [needs("torch"), pytest.mark.xdist_group("capture")]
EXPERTS, HIDDEN, WIDTH, TOKENS, CHOSEN = 4, 8, 6, 5, 2


def experts_module():
    from transformers import DeepseekV3Config
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Experts

    config = DeepseekV3Config(
        n_routed_experts=EXPERTS, hidden_size=HIDDEN, moe_intermediate_size=WIDTH
    )
    module = DeepseekV3Experts(config)
    generator = torch.Generator().manual_seed(0)
    for weight in module.parameters():
        weight.data = torch.randn(weight.shape, generator=generator)
    return module


def routing():
    generator = torch.Generator().manual_seed(1)
    hidden = torch.randn(TOKENS, HIDDEN, generator=generator)
    chosen = torch.rand(TOKENS, EXPERTS, generator=generator).topk(CHOSEN).indices
    return hidden, chosen, torch.rand(TOKENS, CHOSEN, generator=generator)


def test_without_drops_it_equals_batched_mm():
    from transformers.integrations.moe import batched_mm_experts_forward

    module, (hidden, chosen, weights) = experts_module(), routing()
    with torch.no_grad():
        got = dispatch_and_combine(module, hidden, chosen, weights, None, None)
        want = batched_mm_experts_forward(module, hidden, chosen, weights)
    torch.testing.assert_close(got, want)


def test_places_are_first_come_first_served():
    # Expert 1 is chosen by all three tokens and has two places.
    place, kept = assign_places(torch.tensor([[1, 0], [1, 2], [0, 1]]), experts=3, capacity=2)
    assert place.tolist() == [[2, 0], [3, 4], [1, 6]]
    assert kept.tolist() == [[True, True], [True, True], [True, False]]


def test_a_dropped_choice_adds_nothing():
    """Both tokens choose expert 0 alone, which has one place: the second token gets nothing."""
    module = experts_module()
    hidden, chosen = routing()[0][:2], torch.zeros(2, 1, dtype=torch.int64)
    weights = torch.ones(2, 1)
    with torch.no_grad():
        # 2 tokens x 1 choice / 4 experts, times 2: one place each.
        dropped = dispatch_and_combine(module, hidden, chosen, weights, None, 2.0)
        whole = dispatch_and_combine(module, hidden, chosen, weights, None, None)
    torch.testing.assert_close(dropped[0], whole[0])
    assert dropped[1].abs().max() == 0 < whole[1].abs().max()


@pytest.mark.parametrize(
    ("factor", "capacity"),
    [(None, 64), (1.0, 16), (1.25, 20), (100.0, 64)],  # 64 tokens x 2 of 8 experts: 16 each
)
def test_capacity_is_a_multiple_of_the_fair_share(factor, capacity):
    assert expert_capacity(64, 2, 8, factor) == capacity
