"""A server's programs, run eagerly on the host: each request's tokens are those of its own run alone."""

from __future__ import annotations

import random

import msgspec
import pytest

from tests.later import Later, needs
from xlahouse.capture.models.cache import StaticCache
from xlahouse.capture.models.collectives import MeshCollectives
from xlahouse.capture.models.server import NO_SLOT, Server
from xlahouse.capture.models.sharded import ShardedModel
from xlahouse.capture.models.sharding import Layout
from xlahouse.capture.plan import Experiment
from xlahouse.capture.run.reference import generate_unsharded
from xlahouse.capture.run.schedule import MIXED, PREFILL_FIRST, Scheduler

torch = Later("torch")
pytestmark = [needs("torch", "torch_xla", "transformers"), pytest.mark.xdist_group("capture")]

QWEN = {
    "vocab_size": 64,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
EXPERTS = {
    **{name: QWEN[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers")},
    "intermediate_size": 64,
    "moe_intermediate_size": 16,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
}
MODELS = {
    "qwen2.5-32b": QWEN,
    "qwen3-32b": QWEN | {"head_dim": 8},
    "deepseek-v2-lite": EXPERTS,
    "deepseek-v3.1-base": EXPERTS
    | {"first_k_dense_replace": 1, "q_lora_rank": 16, "n_group": 2, "topk_group": 1},
}
SLOTS, PROMPT, OUTPUT = 3, 9, 5
BUCKETS = (4, 9)


class HostLayout(Layout):
    """A single device, the host's."""

    own_devices = None

    @property
    def device(self):
        return torch.device("cpu")

    def place(self, tensor, spec):
        return tensor


class HostServer(Server):
    """Runs each step as it is written, without a program."""

    def _launch(self, length, more):
        with torch.no_grad():
            self.state = self.step_of(length)(*self.state, *more)
        return self.state[0]


def experiment(preset):
    fields = {
        "name": "x",
        "model": {"name": "m", "preset": preset, "config": MODELS[preset]},
        "mesh": {"tp": 1},
        "batch_size": SLOTS,
        "prompt_tokens": PROMPT,
        "output_tokens": OUTPUT,
    }
    return msgspec.convert(fields, type=Experiment)


# `make test` runs one model; the others share its programs, and differ in what they store.
OTHERS = [pytest.param(name, marks=pytest.mark.verify) for name in MODELS if name != "qwen3-32b"]


@pytest.fixture(scope="module", params=["qwen3-32b", *OTHERS])
def served(request):
    """(a server, the same model without changes)."""
    from xlahouse.capture.models.weights import fill_on_host
    from xlahouse.capture.run.sources import open_weights

    opened = open_weights(experiment(request.param))
    sharded = ShardedModel(opened.blueprint, opened.source, MeshCollectives(HostLayout({"tp": 1})))
    return HostServer(sharded, SLOTS), fill_on_host(opened.skeleton(), opened.source, "float32")


@pytest.mark.parametrize("policy", [MIXED, pytest.param(PREFILL_FIRST, marks=pytest.mark.verify)])
def test_requests_that_share_steps_get_the_tokens_that_they_get_alone(served, policy):
    """Drawn prompts and outputs of 8 requests over 3 slots, so that slots are used again."""
    server, model = served
    drawn, generator = random.Random(policy), torch.Generator().manual_seed(7)
    lengths = [drawn.randint(1, PROMPT) for _ in range(8)]
    outputs = [drawn.randint(1, OUTPUT) for _ in lengths]
    prompts = [torch.randint(64, (length,), generator=generator) for length in lengths]
    scheduler, got = Scheduler(SLOTS, 1, policy), [[] for _ in lengths]
    for request, tokens in enumerate(outputs):
        scheduler.arrive(request, tokens)
    shared = 0
    while (step := scheduler.step()) is not None:
        shared += len(step.turns) > 1
        if step.decodes:
            read(server.decode(), step.decodes, got)
        if step.prefills:
            chosen = {turn.slot: prompts[turn.request] for turn in step.prefills}
            (longest,) = (len(prompt) for prompt in chosen.values())
            padded = next(size for size in BUCKETS if size >= longest)
            read(server.prefill(padded, chosen), step.prefills, got)
    assert shared > 3
    for prompt, tokens, count in zip(prompts, got, outputs, strict=True):
        assert tokens == generate_unsharded(model, prompt[None], count)[0].tolist()
    assert len({token for tokens in got for token in tokens}) > 5  # not a constant


def read(tokens, turns, got):
    for turn in turns:
        got[turn.request].append(int(tokens[0, turn.slot, 0]))


def cache(slots=6):
    """Keys of one layer, 3 sequences, 2 heads of 4; every element another number."""
    from types import SimpleNamespace

    config = SimpleNamespace(head_dim=4, num_key_value_heads=2)
    made = StaticCache("qwen3", config, {0: 1}, (3, slots), torch.float32)
    made.held[0, "key"] = torch.arange(3 * 2 * slots * 4, dtype=torch.float32).reshape(
        3, 2, slots, 4
    )
    return made


def test_a_decode_step_stores_each_sequence_at_its_own_place_and_changes_nothing_else():
    made, new = cache(), -1 - torch.arange(24, dtype=torch.float32).reshape(3, 2, 1, 4)
    want = made.held[0, "key"].clone()
    made.places = torch.tensor([5, 0, 2])
    for sequence, place in enumerate((5, 0, 2)):
        want[sequence, :, place] = new[sequence, :, 0]
    assert torch.equal(made.store(0, "key", new), want)
    assert torch.equal(made.held[0, "key"], want)


@pytest.mark.parametrize("slot", [0, 2, NO_SLOT])
def test_a_prefill_stores_its_prompt_in_its_slot_and_changes_nothing_else(slot):
    made, new = cache(), -1 - torch.arange(24, dtype=torch.float32).reshape(1, 2, 3, 4)
    want = made.held[0, "key"].clone()
    made.positions, made.into = torch.arange(3), torch.tensor([slot])
    if slot != NO_SLOT:
        want[slot, :, :3] = new[0]
    assert torch.equal(made.store(0, "key", new), new)  # the prompt attends to itself
    assert torch.equal(made.held[0, "key"], want)


def test_masks_of_a_servers_steps():
    """A decode step sees slots up to each sequence's place; a prefill what stands before in the prompt."""
    low = float("-inf")
    made = cache(slots=4)
    made.places = torch.tensor([0, 2, 3])
    assert made.mask().tolist() == [
        [[[0, low, low, low]]],
        [[[0, 0, 0, low]]],
        [[[0, 0, 0, 0]]],
    ]
    made.places, made.positions, made.into = None, torch.arange(2), torch.tensor([1])
    assert made.mask().tolist() == [[[[0, low], [0, 0]]]]
