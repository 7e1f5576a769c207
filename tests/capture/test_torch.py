"""What needs torch: attention, the comparison of tokens, and a capture that must fail."""

from __future__ import annotations

import pytest

from tests.conftest import DEMO_PLAN
from tests.later import Later, needs
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.manifest import decode_manifest, manifest_path
from xlahouse.capture.models.attention import LONG_MASK, grouped_attention, keys_at_once
from xlahouse.capture.plan import read_plan
from xlahouse.capture.run import process
from xlahouse.capture.run.reference import compare_tokens, draw_prompts, logits_difference
from xlahouse.capture.run.runner import run_plan

torch = Later("torch")
pytestmark = [needs("torch"), pytest.mark.xdist_group("capture")]


def test_grouped_attention_equals_torchs_own():
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(shape, generator=generator)

    query, key, value = draw(2, 8, 5, 16), draw(2, 4, 7, 16), draw(2, 4, 7, 16)
    mask = torch.where(draw(1, 1, 5, 7) > -1, 0.0, float("-inf"))
    got, weights = grouped_attention(None, query, key, value, mask, 0.25)
    want = torch.nn.functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, scale=0.25, enable_gqa=True
    )
    assert weights is None
    torch.testing.assert_close(got, want.transpose(1, 2))


@pytest.mark.parametrize("block", [1, 3, 7, 8])
@pytest.mark.parametrize("sink", [None, 1.5])
def test_attention_in_blocks_of_keys_is_that_over_all(block, sink):
    """Also for queries that see nothing in the first blocks, and with a sink in each head."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(shape, generator=generator)

    query, key, value = draw(2, 8, 5, 16), draw(2, 4, 7, 16), draw(2, 4, 7, 12)
    mask = torch.zeros(1, 1, 5, 7)
    mask[..., 3, :4] = mask[..., 4, 1:] = float("-inf")
    sinks = None if sink is None else torch.full((8,), sink)
    # float64 softmax over all keys, and over the sink as one more key whose value is 0
    scores = torch.einsum("bhtd,bhsd->bhts", query, key.repeat_interleave(2, 1)).double() * 0.25
    scores = scores + mask
    if sink is not None:
        scores = torch.cat([scores, torch.full((2, 8, 5, 1), sink)], -1)
    weights = scores.softmax(-1)[..., :7]
    want = torch.einsum("bhts,bhsd->bthd", weights, value.repeat_interleave(2, 1).double())
    got, _ = grouped_attention(None, query, key, value, mask, 0.25, sinks, key_block=block)
    torch.testing.assert_close(got, want.float())


def test_a_long_prompts_mask_is_made_for_each_block():
    """Positions 2, 3, 4 of 7 slots: the same as with the whole mask."""
    generator = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(1, 2, size, 4, generator=generator) for size in (3, 7, 7))
    positions = torch.tensor([2, 3, 4])
    whole = torch.tensor(
        [[0.0 if slot <= place else -torch.inf for slot in range(7)] for place in (2, 3, 4)]
    )
    want, _ = grouped_attention(None, query, key, value, whole[None, None], 0.5)
    long = torch.zeros(1, 1, 1, LONG_MASK)
    for block in (2, 7):
        got, _ = grouped_attention(
            None, query, key, value, long, 0.5, query_positions=positions, key_block=block
        )
        torch.testing.assert_close(got, want)


def test_a_block_has_at_most_a_gibibyte_of_scores():
    """Qwen3-32B under tp8: 8 heads of 32,768 queries are 2^18 rows, so 2^10 keys; of 512, all slots."""
    assert keys_at_once(8 * 32768) == 1024
    assert keys_at_once(8 * 512) == 65536
    assert keys_at_once(2**30) == 128


def test_prompts_are_seeded_and_differ_by_request():
    experiment = read_plan(DEMO_PLAN).experiments[0]
    first, second = draw_prompts(experiment)
    assert first.shape == (4, 64)
    assert torch.equal(first, draw_prompts(experiment)[0])
    assert not torch.equal(first, second)


def test_tokens_that_differ_are_refused_in_float32_and_told_in_bfloat16():
    same, other = torch.tensor([[1, 2], [3, 4]]), torch.tensor([[1, 2], [3, 5]])
    assert compare_tokens([same, same], [same, same], exact=True) == []
    message = "request 1, sequence 1, step 1: the sharded model gives token 5, the unsharded one 4"
    with pytest.raises(CaptureError, match=message):
        compare_tokens([same, other], [same, same], exact=True)
    assert compare_tokens([same, other], [same, same], exact=False) == [message]


@pytest.mark.verify
def test_a_compilation_while_profiling_fails_the_capture(tmp_path):
    """With no warm-up at all the profiled request compiles: the empty cache, and the prefill."""
    pytest.importorskip("torch_xla", reason="install xlahouse[capture]")
    plan = tmp_path / "cold.yaml"
    plan.write_text(
        "name: cold\n"
        "experiments:\n"
        "  - name: cold\n"
        "    model: {name: tiny, preset: qwen3-demo, config: {num_hidden_layers: 1, vocab_size: 64}}\n"
        "    mesh: {tp: 2}\n"
        "    batch_size: 1\n"
        "    prompt_tokens: 4\n"
        "    output_tokens: 1\n"
        "    warmup_requests: 0\n"
        "    requests: 1\n"
    )
    with pytest.raises(CaptureError, match=r"experiment cold: .*compiled 2 times.*warmup_requests"):
        run_plan(plan, tmp_path, device="cpu")
    assert list(tmp_path.rglob("*trace_*.trace*")) == []
    assert list(tmp_path.rglob("metadata_*")) == []


def test_logits_are_held_to_their_tolerance_in_standard_deviations():
    want = torch.tensor([[1.0, -1.0, 1.0, -1.0]] * 3)
    scale = float(want.std())
    near = want + 0.05 * scale
    assert logits_difference(near, want) == pytest.approx(0.05)
    near[2] = want[2] + scale  # one sequence is off: rounding chose another expert, or not
    assert logits_difference(near, want, experts=True) == pytest.approx(0.05)
    with pytest.raises(CaptureError, match="1 standard deviations"):
        logits_difference(near, want)
    near[1] = want[1] + scale
    with pytest.raises(CaptureError, match="1 standard deviations"):
        logits_difference(near, want, experts=True)


class Shard:
    def __init__(self, indices, data):
        self.indices, self.data = indices, torch.tensor(data)


def test_a_host_fetches_what_its_own_devices_have():
    """[2 stages, 4 sequences, 1 token] over pp x dp; this host has the second half of stage 0."""
    from xlahouse.capture.models.decode import ELSEWHERE, join_shards

    every = slice(None)
    shards = [
        Shard([slice(0, 1), slice(2, 4), every], [[[7], [8]]]),
        Shard([slice(1, 2), slice(2, 4), every], [[[0], [0]]]),
    ]
    got = join_shards(shards, (4, 1))
    assert got.tolist() == [[ELSEWHERE], [ELSEWHERE], [7], [8]]
    assert join_shards(shards[1:], (4, 1)).tolist() == [[ELSEWHERE]] * 4
    assert join_shards([Shard(..., [[[1], [2]]])], (2, 1)).tolist() == [[1], [2]]
    # What is elsewhere is not compared; what is here still is.
    want = torch.tensor([[1], [2], [7], [8]])
    assert compare_tokens([got], [want], exact=True) == []
    with pytest.raises(CaptureError, match="sequence 3, step 0"):
        compare_tokens([got], [want + (want == 8)], exact=True)
    logits = torch.tensor([[1.0, -1.0], [1.0, -1.0]])
    partly = torch.tensor([[float(ELSEWHERE)] * 2, [1.0, -1.0]])
    assert logits_difference(partly, logits) == 0


@pytest.mark.verify
def test_a_repeat_asks_for_the_programs_that_the_first_capture_kept(tmp_path, monkeypatch):
    """By the same names, in another process. PJRT's CPU client cannot load them: only a TPU gains."""
    pytest.importorskip("torch_xla", reason="install xlahouse[capture]")
    monkeypatch.setattr(process, "KEEPING", ("cpu",))
    plan = tmp_path / "twice.yaml"
    plan.write_text(
        "experiments:\n  - {name: t, mesh: {tp: 2}, batch_size: 2, prompt_tokens: 4, output_tokens: 3,\n"
        "     requests: 1, warmup_requests: 1, model: {name: t, preset: qwen3-demo, config:\n"
        "     {num_hidden_layers: 1, hidden_size: 64, intermediate_size: 64, vocab_size: 64}}}\n"
    )
    kept = []

    def look(event):
        if event.kind == "captured":
            programs = (tmp_path / "traces" / process.PROGRAMS).rglob("*")
            kept.append(sorted(path.name for path in programs if path.is_file()))

    traces = []
    for _ in range(2):
        traces += run_plan(plan, tmp_path / "traces", device="cpu", on_event=look, fresh=True)
    first, second = kept
    assert len(first) >= 2  # prefill and decode
    assert first == second
    for trace in traces:
        path = manifest_path(trace)
        assert decode_manifest(path.read_bytes(), str(path)).programs_compiled >= 2
