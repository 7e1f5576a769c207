"""Custom calls that communicate by themselves, in HLO protos and in text."""

from __future__ import annotations

import pytest

from tests.ingest.build import ModuleBuilder, shape
from xlahouse.ingest.hlo.kernels import communicating
from xlahouse.ingest.hlo.module_text import program_of_instructions
from xlahouse.ingest.hlo.program import parse_program

X = shape("f32", 8)
CALL = '%{} = f32[8] custom-call(f32[8] %x), custom_call_target="tpu_custom_call"'


@pytest.mark.parametrize(
    ("name", "config", "sends"),
    [
        ("moe.3", '{"custom_call_config":{"body":"QUFB","has_communication":true}}', True),
        ("moe.3", '{"custom_call_config": {"collective_id": 2}}', True),
        ("moe.3", '{"custom_call_config":{"collective_id":"0"}}', True),  # 0 is an id, too
        ("moe.3", r'"{\"custom_call_config\":{\"has_communication\":true}}"', True),
        ("moe.3", '{"custom_call_config":{"has_communication":false}}', False),
        # A configuration that is known says it, whatever the name.
        ("ragged_all_to_all.3", '{"custom_call_config":{"body":"QUFB"}}', False),
        ("ragged_all_to_all.3", "", True),
        ("all_gather_matmul.1", "", True),
        ("ragged_paged_attention.1", "", False),  # ragged in its lengths
        ("gmm.1", "", False),
    ],
)
def test_what_a_kernels_text_says(name, config, sends):
    text = CALL.format(name) + (f", backend_config={config}" if config else "")
    program = program_of_instructions([text], 5, "jit_f", "f").program
    (call,) = (each for _, each in program.instructions() if each.opcode == b"custom-call")
    assert (call.id in communicating(program)) == sends


def test_what_a_proto_says_also_of_what_wraps_the_kernel():
    built = ModuleBuilder("jit_f")
    inner = built.computation("fused")
    x = built.add(inner, "p", "parameter", X)
    config = b'{"custom_call_config":{"has_communication":true}}'
    built.add(inner, "kernel.1", "custom-call", X, x, backend_config=config)
    entry = built.computation("main")
    y = built.add(entry, "x", "parameter", X)
    built.add(entry, "fusion.1", "fusion", X, y, calls=[inner])
    built.add(entry, "other.1", "custom-call", X, y, backend_config=b"{}")
    program = parse_program(built.serialize(), 5, "jit_f")
    found = {program.by_id[number].name for number in communicating(program)}
    assert found == {b"kernel.1", b"fusion.1"}
