"""Where values lie in memory and when, against what XLA itself prints of the same programs."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from tests.ingest.build import ModuleBuilder, PlaneBuilder, shape, space, tuple_shape
from tests.ingest.traces import rows
from xlahouse.ingest.compiled.buffers import buffer_rows
from xlahouse.ingest.compiled.decisions import decisions
from xlahouse.ingest.compiled.schedule import places
from xlahouse.ingest.compiled.value_flow import ValueFlow
from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.hlo.messages import buffer_assignment_of
from xlahouse.ingest.hlo.program import parse_program
from xlahouse.ingest.hlo.program_facts import gather
from xlahouse.ingest.run import ingest_paths

# A scan over six layers, a branch and a donated cache, as compilers dumped it: the module, and the text
# in which XLA prints its own live ranges.
COMPILED = Path(__file__).parents[2] / "cases" / "compiled"
SAMPLES = ["scan_tp4_v6e.libtpu0.0.42.1", "scan_tp4_cpu.jax0.10.2"]


def unpacked(name):
    return gzip.decompress((COMPILED / f"{name}.gz").read_bytes())


def compiled(sample):
    return parse_program(unpacked(f"{sample}.hlo.pb"), 1, sample)


def values_of(program):
    """Name and part of each value, by its number, and the values by instruction."""
    names, defined = {}, {}
    for each in buffer_assignment_of(program.buffers).logical_buffers:
        where = each.defined_at
        index = tuple(where.shape_index)
        defined.setdefault(where.instruction_id, {})[index] = each.id
        names[each.id] = (program.by_id[where.instruction_id].name.decode(), index)
    return names, defined


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_schedule_and_the_spans_of_values_are_xlas(sample):
    program, printed = compiled(sample), unpacked(f"{sample}.live_range.txt").decode()
    order = places(program)
    told = {name: int(at) for at, name in re.findall(r"^\s+(\d+):(\S+)$", printed, re.MULTILINE)}
    assert {program.by_id[number].name.decode(): at for number, at in order.items()} == told
    names, defined = values_of(program)
    spans = ValueFlow(program, order, defined).spans()
    found = {names[number]: span for number, span in spans.items() if number in names}
    ranges = {
        (name, tuple(map(int, index.split(","))) if index else ()): (int(first), int(last))
        for name, index, first, last in re.findall(
            r"^\s+(\S+)\{([\d,]*)\}:(\d+)-(\d+)$", printed, re.MULTILINE
        )
        # The program's own parameters have their memory throughout, which rows of `buffers` say.
        if not name.startswith("param.")
    }
    compared = {key: span for key, span in ranges.items() if key in found}
    assert len(compared) > 30
    assert {key: found[key] for key in compared} == compared


@pytest.mark.parametrize(
    ("sample", "output", "temporary"),
    [(SAMPLES[0], 1_179_680, None), (SAMPLES[1], 1_179_664, 59_244_768)],
)
def test_sizes_are_those_of_the_compilers_memory_statistics(sample, output, temporary):
    """get_compiled_memory_stats() of the same programs; a TPU's states no temporaries here."""
    program = compiled(sample)
    found = buffer_rows(program, places(program), {})
    allocated = {row["allocation"]: row for row in found}.values()

    def total(chosen):
        return sum(row["allocation_bytes"] for row in allocated if chosen(row))

    assert total(lambda row: row["kind"] == "argument") == 26_345_472
    assert total(lambda row: row["is_output"]) == output
    assert total(lambda row: row["kind"] == "argument" and row["is_output"]) == 1_048_576
    if temporary is not None:
        assert total(lambda row: row["kind"] == "temporary") == temporary


@pytest.mark.parametrize("sample", SAMPLES)
def test_no_two_buffers_have_the_same_bytes_at_a_time(sample):
    program = compiled(sample)
    found = [
        (row["allocation"], row["offset_bytes"], row["offset_bytes"] + row["bytes"], *span)
        for row in buffer_rows(program, places(program), {})
        if None not in (span := (row["first_use"], row["last_use"]))
    ]
    for k, (allocation, low, high, first, last) in enumerate(found):
        for other in found[k + 1 :]:
            apart = other[1] >= high or low >= other[2] or other[3] > last or first > other[4]
            assert allocation != other[0] or apart


def small_program(**fields):
    """x (64 bytes) -> a = copy(x), 1; b = a + x, 2, in a's place; c = b + b, 3, returned."""
    module = ModuleBuilder("jit_f")
    entry = module.computation("main")
    flat = shape("f32", 16)
    x = module.add(entry, "x", "parameter", flat)
    a = module.add(entry, "a", "copy", flat, x, op_name="model.layers.2/model.layers.2.mlp/a")
    b = module.add(entry, "b", "add", flat, a, x)
    c = module.add(entry, "c", "add", flat, b, b)
    numbers = [each.id for each in (x, a, b, c)]
    module.module.entry_computation_id = entry.id
    module.module.schedule.sequences.add(key=entry.id).value.instruction_ids.extend(numbers)
    assignment = message_class("BufferAssignment")()
    for number, instruction in enumerate((x, a, b, c)):
        buffer = assignment.logical_buffers.add(id=number, size=64)
        buffer.defined_at.instruction_id = instruction.id
    for index, (held, told) in enumerate(
        [
            ([0], {"is_entry_computation_parameter": True}),
            ([1, 2], {}),
            ([3], {"maybe_live_out": True}),
        ]
    ):
        allocation = assignment.buffer_allocations.add(index=index, size=64, **told)
        for number in held:
            allocation.assigned.add(logical_buffer_id=number, size=64)
    module.proto.buffer_assignment = assignment.SerializeToString()
    return module


def test_a_value_that_takes_over_anothers_place_is_one_buffer_with_it():
    program = parse_program(small_program().serialize(), 7, "f")
    names = ("allocation", "kind", "bytes", "first_use", "last_use", "op", "layer", "component")
    found = [
        tuple(row[name] for name in names) for row in buffer_rows(program, places(program), {})
    ]
    assert found == [
        (0, "argument", 64, 0, 4, "x", None, None),
        (1, "temporary", 64, 1, 3, "a", 2, "mlp"),
        (2, "output", 64, 0, 4, "c", None, None),
    ]


def test_buffers_and_places_are_in_the_tables(tmp_path):
    host = PlaneBuilder("/host:metadata")
    host.metadata("jit_f(7)", meta={"Hlo Proto": small_program().serialize()})
    plane = PlaneBuilder("/device:TPU:0")
    plane.event(plane.line("XLA Ops"), "%a = f32[16] copy(%x)", 0, 5, "a", {"program_id": 7})
    (tmp_path / "h.xplane.pb").write_bytes(space(plane.plane, host.plane))
    ingest_paths([str(tmp_path / "h.xplane.pb")], str(tmp_path / "w"))
    found = rows(tmp_path / "w", "buffers").select("world", "program_id", "buffer", "bytes")
    assert found.rows() == [(0, 7, 0, 64), (0, 7, 1, 64), (0, 7, 3, 64)]
    found = rows(tmp_path / "w", "instructions").select("op", "schedule_index", "layer")
    assert found.rows() == [("a", 1, 2), ("b", 2, 2), ("c", 3, 2), ("x", 0, None)]
    found = rows(tmp_path / "w", "buffers").select("buffer", "op", "layer", "component")
    assert found.rows() == [(0, "x", None, None), (1, "a", 2, "mlp"), (3, "c", 2, "mlp")]


def findings(module):
    program = parse_program(module.serialize(), 7, "f")
    found = decisions([program], gather([program], "f").ops, "f")
    return found, [(issue.code, issue.message) for issue in found.issues]


def test_damage_to_the_assignment_costs_only_the_buffers():
    module = small_program()
    module.proto.buffer_assignment = b"\x0a\xff"
    found, [(code, message)] = findings(module)
    assert code == "buffers_unread"
    assert message.startswith(
        "jit_f: the places of a program's values in memory cannot be read: its BufferAssignment is damaged: "
    )
    assert found.buffers == []
    assert found.instructions.height == 4


def test_a_schedule_of_other_instructions_costs_only_the_buffers():
    module = small_program()
    (sequence,) = module.module.schedule.sequences
    sequence.value.instruction_ids.append(999)
    found, [(code, message)] = findings(module)
    assert code == "buffers_unread"
    assert "the program lacks an instruction or value: 999" in message
    assert found.buffers == []
    assert found.instructions.height == 4


def test_of_values_that_no_schedule_places_nothing_is_known():
    module = small_program()
    module.module.ClearField("schedule")
    found, issues = findings(module)
    assert not issues
    assert [(row["kind"], row["first_use"]) for row in found.buffers] == [
        ("argument", None),
        ("temporary", None),
        ("temporary", None),
        ("output", None),
    ]


def test_what_a_start_reads_is_held_until_its_done():
    """copy-start reads x at 1, and copy-done at 3 ends the reading: y's bytes are free only then."""
    module = ModuleBuilder("jit_f")
    entry = module.computation("main")
    flat = shape("f32", 16)
    x = module.add(entry, "x", "parameter", flat)
    y = module.add(entry, "y", "negate", flat, x)
    moved = module.add(entry, "copy-start", "copy-start", tuple_shape(flat, flat, shape("u32")), y)
    other = module.add(entry, "other", "negate", flat, x)
    done = module.add(entry, "copy-done", "copy-done", flat, moved)
    last = module.add(entry, "last", "add", flat, done, other)
    module.module.entry_computation_id = entry.id
    numbers = [each.id for each in (x, y, moved, other, done, last)]
    module.module.schedule.sequences.add(key=entry.id).value.instruction_ids.extend(numbers)
    program = parse_program(module.serialize(), 7, "f")
    defined = {y.id: {(): 0}, moved.id: {(): 1, (0,): 2}, other.id: {(): 3}}
    spans = ValueFlow(program, places(program), defined).spans()
    assert spans == {0: (1, 4), 1: (2, 4), 2: (2, 5), 3: (3, 5)}
