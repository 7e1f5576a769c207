"""The synthetic model's sizes that a manifest tells and no trace does."""

from __future__ import annotations

from typing import Any

from tests.synth.describe import Run

VOCABULARY = 1_000
PARAMETERS = 10_000_000
WEIGHT_BYTES = 20_000_512
KV_BYTES_PER_TOKEN = 1_536
HEADS = 4
EXPERT_MATRICES = 3
CAPACITY = 1.0


def experts(run: Run) -> int:
    """Experts of a layer: one a device of the axis ep, of which a token chooses one."""
    return run.size("ep") if run.size("ep") > 1 else 0


def config(run: Run) -> dict[str, Any]:
    """The configuration, as transformers names its fields."""
    found: dict[str, Any] = {"vocab_size": VOCABULARY, "num_attention_heads": HEADS}
    if experts(run):
        found |= {"n_routed_experts": experts(run), "num_experts_per_tok": 1}
        found["moe_intermediate_size"] = 2 * run.hidden
    return found


def active_parameters(run: Run) -> int:
    """Those that a token meets: of a layer's experts, one."""
    if not experts(run):
        return PARAMETERS
    expert = EXPERT_MATRICES * run.hidden * 2 * run.hidden
    return PARAMETERS - run.layers * (experts(run) - 1) * expert
