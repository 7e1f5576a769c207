"""The demo plan, captured for real: its tokens, markers, scopes, collectives and times."""

from __future__ import annotations

import gzip
from collections import Counter

import pytest

from tests.capture.profile_reader import collectives, read_profile
from xlahouse.capture.manifest import TRACE_DIR, decode_manifest, manifest_path

pytestmark = pytest.mark.xdist_group("capture")

# The demo's model: 4 layers, hidden 512, vocabulary 4096; batch 4, prompt 64, 12 output tokens; 2 requests.
LAYERS, HIDDEN, VOCABULARY, BATCH, PROMPT, OUTPUT, REQUESTS = 4, 512, 4096, 4, 64, 12, 2
DEVICES = 4
CELLS = {
    # parallelism: (groups over tp, dp)
    "tp4": (((0, 1, 2, 3),), 1),
    "dp2.tp2": (((0, 1), (2, 3)), 2),
}


@pytest.fixture(params=CELLS, scope="module")
def cell(request, demo_traces):
    """(parallelism, trace folder, its profile, its manifest)."""
    (trace,) = demo_traces.glob(f"qwen3-demo/{request.param}/batch_4_seq_64/trace_*.trace")
    path = manifest_path(trace)
    return request.param, trace, read_profile(trace), decode_manifest(path.read_bytes(), str(path))


def test_leaves_a_session_and_a_manifest_and_nothing_else(cell):
    _, trace, _, _ = cell
    assert {path.name for path in trace.parent.iterdir()} == {
        trace.name,
        manifest_path(trace).name,
    }
    assert TRACE_DIR.match(trace.name)
    (chrome,) = trace.glob("plugins/profile/*/*.trace.json.gz")
    with gzip.open(chrome) as file:
        assert file.read(2)


def test_manifest_tells_what_the_trace_does_not(cell):
    parallelism, _, _, manifest = cell
    mesh = {"tp4": [("tp", 4)], "dp2.tp2": [("dp", 2), ("tp", 2)]}[parallelism]
    assert manifest.name == manifest.parallelism == parallelism
    assert [(axis.axis, axis.size) for axis in manifest.mesh] == mesh
    assert manifest.mesh_device_ids == [0, 1, 2, 3]
    assert (manifest.device_kind, manifest.device_count) == ("cpu", 4)
    installed = set(manifest.framework_versions) - {"libtpu"}  # where the compile extra is
    assert installed == {"python", "torch", "torch_xla", "transformers"}
    assert manifest.warnings == []
    # Per layer 512 x (8 query + 2 x 4 key/value heads) x 64 and 512 x 512 for attention,
    # 3 x 512 x 1536 for the MLP, 2 x 512 + 2 x 64 for norms; twice 4096 x 512; the last norm 512.
    layer = 512 * 16 * 64 + 512 * 512 + 3 * 512 * 1536 + 2 * 512 + 2 * 64
    assert manifest.parameters == 4 * layer + 2 * 4096 * 512 + 512
    assert manifest.weight_bytes == 4 * manifest.parameters
    assert manifest.kv_bytes_per_token == 2 * 4 * 4 * 64 * 4
    vocabulary, width = (manifest.model_config[name] for name in ("vocab_size", "hidden_size"))
    assert (manifest.head_weights, manifest.logit_positions) == (vocabulary * width, 1)


def test_tokens_equal_the_unsharded_models(cell):
    _, _, _, manifest = cell
    assert manifest.tokens_match_unsharded is True
    assert [len(tokens) for tokens in manifest.tokens] == [OUTPUT] * BATCH


def test_cells_agree_on_the_tokens(demo_traces):
    tokens = [
        decode_manifest(path.read_bytes(), str(path)).tokens
        for path in demo_traces.glob("qwen3-demo/*/*/metadata_*.json")
    ]
    assert len(tokens) == 2
    assert tokens[0] == tokens[1]
    assert len({token for sequence in tokens[0] for token in sequence}) > BATCH  # not a constant


def test_markers_name_request_and_step(cell):
    _, _, profile, _ = cell
    steps = [
        (marker.stats["request"], marker.stats["step_num"])
        for phase in ("prefill", "decode")
        for marker in profile.markers(phase)
    ]
    decodes = [(request, step) for request in range(REQUESTS) for step in range(1, OUTPUT)]
    assert steps == [(0, 0), (1, 0), *decodes]
    assert [marker.stats["request"] for marker in profile.markers("request")] == [0, 1]
    assert profile.markers("warmup") == []
    everything = [*profile.markers("prefill"), *profile.markers("decode")]
    assert all(marker.stats["_r"] == 1 for marker in everything)
    assert all(
        request.start <= step.start and step.end <= request.end
        for request in profile.markers("request")
        for step in everything
        if step.stats["request"] == request.stats["request"]
    )


def test_each_request_runs_a_prefill_that_is_awaited_and_then_decodes(cell):
    _, _, profile, _ = cell
    for request, prefill in zip(
        profile.markers("request"), profile.markers("prefill"), strict=True
    ):
        ran = profile.during(request)
        assert max(op.end for op in ran) <= request.end
        first = profile.during(prefill)
        assert {op.stats["program_id"] for op in first} == {profile.program("prefill")}
        assert max(op.end for op in first) <= prefill.end
        rest = [op for op in ran if op.start > prefill.end]
        assert len(first) + len(rest) == len(ran)
        assert {op.stats["program_id"] for op in rest} == {profile.program("decode")}
    inside = [profile.during(request) for request in profile.markers("request")]
    assert sum(map(len, inside)) == len(profile.ops)


def test_a_step_runs_once_on_each_device_and_not_before_it_is_sent(cell):
    """The k-th execution of an op on the devices is that of the k-th step."""
    _, _, profile, _ = cell
    markers = profile.markers("decode")
    for phase, steps in (("prefill", REQUESTS), ("decode", len(markers))):
        program = profile.program(phase)
        ops = [op for op in profile.ops if op.stats["program_id"] == program]
        runs = Counter(op.stats["hlo_op"] for op in ops)
        assert set(runs.values()) == {DEVICES * steps}
    last = sorted(op.start for op in ops if op.stats["hlo_op"] == ops[-1].stats["hlo_op"])
    assert all(last[DEVICES * step] >= marker.start for step, marker in enumerate(markers))


def test_the_manifest_tells_what_the_host_did(cell):
    _, _, _, manifest = cell
    assert (manifest.dispatch_depth, manifest.launches_per_step) == (0, 1.0)
    # 4 layers: 8 cache entries and 47 weights; tracing them again takes 25 ms and more.
    assert 0 < manifest.host_step_s < 0.01
    assert 0 <= manifest.host_late_ratio <= 1


def test_no_entry_of_the_cache_is_copied(cell):
    """Donated buffers are paired with the results that update them: [sequences, heads, 76, 64] a device.

    With one key/value head a device, XLA's CPU fuses an update twice, once for the attention and once
    for the result, and copies its input for it: as in a step that is not replayed, 2 copies a layer.
    """
    parallelism, _, profile, _ = cell
    entry = {"tp4": (4, 1, 76, 64), "dp2.tp2": (2, 2, 76, 64)}[parallelism]
    module = profile.programs[profile.program("decode")]
    copies = [
        instruction.name
        for computation in module.computations
        for instruction in computation.instructions
        if instruction.opcode == "copy" and tuple(instruction.shape.dimensions) == entry
    ]
    assert len(copies) == {"tp4": 2 * LAYERS, "dp2.tp2": 0}[parallelism]


@pytest.mark.parametrize(("phase", "tokens"), [("prefill", PROMPT), ("decode", 1)])
def test_collectives_are_those_of_the_layout_and_no_others(cell, phase, tokens):
    """tp: one all-reduce for the embedding, two a layer, all [rows, hidden]; one all-gather of the
    last logits. dp: none, so that no group has devices of two dp coordinates."""
    parallelism, _, profile, _ = cell
    groups, dp = CELLS[parallelism]
    rows = BATCH // dp * tokens
    assert collectives(profile.programs[profile.program(phase)]) == [
        ("all-gather", "f32", (1, BATCH // dp, 1, VOCABULARY), groups),
        *[("all-reduce", "f32", (rows, HIDDEN), groups)] * (2 * LAYERS + 1),
    ]


def test_every_device_runs_every_collective_of_every_step(cell):
    _, _, profile, _ = cell
    ran = [op.name for op in profile.ops if op.name.startswith(("all-", "collective", "reduce-s"))]
    launches = DEVICES * REQUESTS * OUTPUT
    assert len(ran) == launches * (2 * LAYERS + 2)
    assert sum(name.startswith("all-gather") for name in ran) == launches


def test_scopes_reach_op_names(cell):
    """They act when a step is recorded, so the profile has no host events of them."""
    _, _, profile, _ = cell
    expected = {"model.embed_tokens", "model.norm", "lm_head"} | {
        f"model.layers.{layer}{part}"
        for layer in range(LAYERS)
        for part in ("", ".self_attn", ".mlp", ".input_layernorm", ".post_attention_layernorm")
    }
    assert not [event.name for event in profile.events if event.name in expected]
    op_names = {
        part.rpartition(".")[0]  # torch_xla numbers its scopes: model.layers.0.mlp.5
        for computation in profile.programs[profile.program("decode")].computations
        for instruction in computation.instructions
        for part in instruction.metadata.op_name.split("/")[:-1]
    }
    assert expected <= op_names


def test_times_of_trace_and_host_clock_agree(cell):
    """Within 5 %, or 20 ms where other processes have the cores: TTFT is the start of the prefill's
    marker to its last op's end, TPOT the mean time from there to the end of the request's last op."""
    _, _, profile, manifest = cell
    for timing, prefill, request in zip(
        manifest.requests, profile.markers("prefill"), profile.markers("request"), strict=True
    ):
        first = max(op.end for op in profile.during(prefill))
        last = max(op.end for op in profile.during(request))
        near = {"rel": 0.05, "abs": 0.02}
        assert (first - prefill.start) / 1e12 == pytest.approx(timing.ttft_s, **near)
        assert (last - first) / 1e12 / (OUTPUT - 1) == pytest.approx(timing.tpot_s, **near)
