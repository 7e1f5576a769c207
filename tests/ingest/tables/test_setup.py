"""Setups: a hash of what was chosen, which repeats of a cell share."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.ingest.compiled_build import FACTS_OF_ALL
from xlahouse.capture.compile.describe import describe
from xlahouse.capture.compile.lower import Lowered
from xlahouse.capture.compile.target import target_of
from xlahouse.capture.compiled_facts import ChipPlace, Compiled, CompiledRun
from xlahouse.capture.manifest import MeshAxis, decode_manifest
from xlahouse.capture.plan import Experiment
from xlahouse.capture.run.record import framework_versions
from xlahouse.ingest.tables.run_row import setup_besides_mesh_of, setup_of

CASES = Path(__file__).parents[2] / "cases" / "setup"


@pytest.fixture
def repeats():
    """Manifests of two real captures of one cell."""
    paths = sorted(CASES.glob("*.json"))
    return [decode_manifest(path.read_bytes(), path.name) for path in paths]


def test_two_real_repeats_are_one_setup(repeats):
    first, second = repeats
    assert (first.repeat, second.repeat) == (0, 1)
    assert first.profiler_cost_ratio != second.profiler_cost_ratio
    assert setup_of(first) == setup_of(second)


BESIDES_MESH = [
    {"model_config": {"num_hidden_layers": 5}},
    {"weights": "random:1"},
    {"dtype": "bfloat16"},
    {"batch_size": 8},
    {"prompt_tokens": 17},
    {"output_tokens": 9},
    {"device_kind": "TPU v6 lite"},
    {"framework_versions": {"torch": "2.10"}},
    {"flags": {"XLA_FLAGS": ""}},
    {"plan_entry": {"capacity_factor": 1.25}},
    {"plan_entry": {"scopes": []}},
    {"plan_entry": {"key_block": 512}},
    {"dispatch_depth": 1},
]
OF_MESH = [
    {"mesh": [MeshAxis("tp", 2)]},
    {"microbatches": 2},
    {"device_count": 8},
    {"stage_layers": [[0], [1]]},
]


@pytest.mark.parametrize("chosen", BESIDES_MESH + OF_MESH)
def test_each_choice_is_part_of_a_setup(repeats, chosen):
    base = repeats[0]
    if "plan_entry" in chosen:
        chosen = {"plan_entry": base.plan_entry | chosen["plan_entry"]}
    assert setup_of(msgspec.structs.replace(base, **chosen)) != setup_of(base)


@pytest.mark.parametrize("chosen", BESIDES_MESH)
def test_each_other_choice_is_part_of_a_setup_besides_its_mesh(repeats, chosen):
    base = repeats[0]
    if "plan_entry" in chosen:
        chosen = {"plan_entry": base.plan_entry | chosen["plan_entry"]}
    other = msgspec.structs.replace(base, **chosen)
    assert setup_besides_mesh_of(other) != setup_besides_mesh_of(base)


@pytest.mark.parametrize("chosen", OF_MESH)
def test_the_mesh_is_no_part_of_a_setup_besides_it(repeats, chosen):
    """Captures on this machine set the number of virtual devices by a variable."""
    base = repeats[0]
    count = {"flags": base.flags | {"CPU_NUM_DEVICES": "8"}}
    other = msgspec.structs.replace(base, **(chosen | count))
    assert setup_besides_mesh_of(other) == setup_besides_mesh_of(base)
    assert setup_besides_mesh_of(repeats[1]) == setup_besides_mesh_of(base)


SERVED = {"serving": {"policy": "mixed"}, "requests": 4, "prompt_tokens": 8, "output_tokens": 4}
SERVED |= {"seed": 0}


@pytest.mark.parametrize(
    "chosen",
    [
        {"serving": {"policy": "prefill_first"}},
        {"requests": 5},
        {"prompt_tokens": 9},
        {"output_tokens": 5},
        {"seed": 1},
    ],
)
def test_each_choice_of_a_server_is_part_of_its_setup(repeats, chosen):
    """The manifest has no lengths of a server's requests; the plan has their limits."""
    server = msgspec.structs.replace(
        repeats[0], prompt_tokens=None, output_tokens=None, plan_entry=SERVED
    )
    other = msgspec.structs.replace(server, plan_entry=SERVED | chosen)
    again = msgspec.structs.replace(server, plan_entry=SERVED | {"name": "again", "repeat": 3})
    assert setup_of(other) != setup_of(server) == setup_of(again)
    plain = msgspec.structs.replace(repeats[0], plan_entry=SERVED | {"serving": None})
    assert setup_of(plain) == setup_of(
        msgspec.structs.replace(plain, plan_entry=SERVED | {"serving": None, "seed": 1})
    )


@pytest.mark.parametrize(
    "measured",
    [
        {"name": "again"},
        {"captured_at": "2027-01-01T00:00:00+00:00"},
        {"repeat": 7},
        {"requests": []},
        {"tokens": [[1]]},
        {"tokens_match_unsharded": False},
        {"warnings": ["slow"]},
        {"profiler_cost_ratio": 0.5},
        {"profiler_cost_quartiles": [0.1, 0.2]},
        {"cost_pairs": 3},
        {"host_step_s": 0.001},
        {"launches_per_step": 1.5},
        {"host_late_ratio": 0.25},
        {"logits_difference": 0.1},
    ],
)
def test_nothing_measured_is_part_of_a_setup(repeats, measured):
    assert setup_of(msgspec.structs.replace(repeats[0], **measured)) == setup_of(repeats[0])


def test_a_compiled_run_has_the_setup_of_its_capture(repeats):
    """The manifest that compile writes for a real capture's plan, and that capture's as it is on a chip:
    there, torch_xla adds the flags of libtpu, between blanks, and a step is sent two steps ahead."""
    capture = repeats[0]
    experiment = msgspec.convert(capture.plan_entry, Experiment)
    target = target_of(experiment, "v6e-1")
    on_tpu = {"PJRT_DEVICE": "TPU", "XLA_IR_DEBUG": "1", "XLA_HLO_DEBUG": "1"}
    flags = capture.flags | on_tpu
    del flags["CPU_NUM_DEVICES"]
    versions = framework_versions() | {"libtpu": "0.0.21"}
    captured = msgspec.structs.replace(
        capture,
        device_kind="TPU v6 lite",
        device_coords=[[0, 0, 0]],
        flags=flags | {"LIBTPU_INIT_ARGS": f" {target.flags} "},
        framework_versions=versions,
        dispatch_depth=2,
    )
    program = Compiled(**FACTS_OF_ALL, devices=[ChipPlace(0, [0, 0, 0], 0, 0)])
    run = CompiledRun(
        key="k",
        topology=target.topology,
        chip_config="",
        flags=target.flags,
        compiler={"jax": "0.7.1", "libtpu": "0.0.21"},
        programs={"prefill": program, "decode": program},
    )
    lowered = Lowered(parameters=1, weight_bytes=1, kv_bytes_per_token=1, flags=flags)
    compiled = describe(experiment, target, lowered, run)
    assert setup_of(compiled) == setup_of(captured)
    assert setup_of(compiled) != setup_of(capture)
