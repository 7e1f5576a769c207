"""Opcodes that this version does not know: a later compiler's."""

from __future__ import annotations

import pytest

from tests.ingest.build import ModuleBuilder, shape
from xlahouse.ingest.hlo.group_notations import GroupError, raw_groups
from xlahouse.ingest.hlo.messages import new_instruction
from xlahouse.ingest.hlo.module_text import read_module_text
from xlahouse.ingest.hlo.ops import is_opcode
from xlahouse.ingest.hlo.program import parse_program
from xlahouse.ingest.hlo.program_facts import gather


def facts(instruction):
    text = f"""HloModule jit_f, num_partitions=4

ENTRY %main (x: f32[64]) -> f32[64] {{
  %x = f32[64]{{0}} parameter(0)
  ROOT %op.1 = f32[64]{{0}} {instruction}
}}
"""
    found = gather([read_module_text(text, 5, "f").program], "f")
    (row,) = (row for row in found.ops.to_dicts() if row["op"] == "op.1")
    groups = found.groups.group_by("group_index").agg("logical_id").sort("group_index")
    return row, groups["logical_id"].to_list(), {issue.code for issue in found.issues}


@pytest.mark.parametrize(
    ("participants", "groups"),
    [
        ("replica_groups={{0,1},{2,3}}", [[0, 1], [2, 3]]),
        ("replica_groups=[2,2]<=[2,2]T(1,0)", [[0, 2], [1, 3]]),
        ("source_target_pairs={{0,3},{1,2}}", [[0, 3], [1, 2]]),
    ],
)
def test_what_names_devices_is_a_collective_of_unknown_kind(participants, groups):
    row, found, codes = facts(f"all-shuffle(f32[64]{{0}} %x), channel_id=1, {participants}")
    assert (row["category"], row["kind"], row["payload_bytes"]) == ("collective", None, None)
    assert found == groups
    assert "opcode_unknown" in codes


def test_another_unknown_opcode_counts_as_compute_with_a_finding():
    row, groups, codes = facts("shuffle(f32[64]{0} %x)")
    assert (row["category"], groups, "opcode_unknown" in codes) == ("compute", [], True)


def test_a_collective_whose_text_states_no_groups_has_none():
    """XLA writes `replica_groups={}` where all devices take part: without it they have a new name."""
    row, groups, codes = facts("all-reduce(f32[64]{0} %x), channel_id=1, members={{0,1},{2,3}}")
    assert (row["kind"], groups, "bad_replica_groups" in codes) == ("all-reduce", [], True)
    _, groups, codes = facts("all-reduce(f32[64]{0} %x), replica_groups={}")
    assert (groups, "bad_replica_groups" in codes) == ([[0], [1], [2], [3]], False)


def test_groups_in_a_field_of_a_later_compiler_are_not_all_devices():
    plain = new_instruction(opcode=b"all-reduce")
    assert raw_groups(plain) == []
    plain.MergeFromString(b"\x98\x06\x01")  # field 99
    with pytest.raises(GroupError, match="later compiler"):
        raw_groups(plain)


def test_operands_that_are_not_known_leave_the_size_open():
    """A proto whose operands stand in a field of a later compiler; 0 bytes would be a number."""
    module = ModuleBuilder("jit_f", devices=[[0], [1]])
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", shape("f32", 64))
    module.add(entry, "op.1", "all-reduce", shape("f32", 64), x, groups=[[0, 1]])
    for is_later, wanted in ((False, 256), (True, None)):
        program = parse_program(module.serialize(), 5, "f")
        (instruction,) = (each for _, each in program.instructions() if each.name == b"op.1")
        if is_later:
            instruction.ClearField("operand_ids")
            instruction.MergeFromString(b"\x98\x06\x01")  # field 99
        found = gather([program], "f")
        (row,) = (row for row in found.ops.to_dicts() if row["op"] == "op.1")
        assert row["payload_bytes"] == wanted
        assert ("hlo_fields_unknown" in {issue.code for issue in found.issues}) == is_later


@pytest.mark.parametrize(
    "opcode", ["all-gather-start", "slice-done", "async-update", "while", "recv-done"]
)
def test_forms_of_opcodes_are_known(opcode):
    assert is_opcode(opcode)
