from __future__ import annotations

import re
from collections import Counter

import polars as pl
import pytest

from tests.samples import sample
from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.hlo import shapes
from xlahouse.ingest.hlo.group_notations import raw_groups
from xlahouse.ingest.hlo.groups import device_groups, device_pairs
from xlahouse.ingest.hlo.instruction_text import read_instruction
from xlahouse.ingest.hlo.module_text import (
    is_module_text,
    program_of_instructions,
    read_module_text,
)
from xlahouse.ingest.hlo.program import instruction_rows
from xlahouse.ingest.hlo.program_facts import gather
from xlahouse.ingest.hlo.scan import HloTextError
from xlahouse.ingest.hlo.shape_text import end_of_shape, read_shape
from xlahouse.ingest.xplane import wire, xspace
from xlahouse.ingest.xplane.programs import programs_of_plane

PSUM = (
    "%psum.896 = bf16[1024,5120]{1,0:T(8,128)(2,1)} all-reduce(bf16[1024,5120]{1,0} %fusion.3), "
    "channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%add, "
    'metadata={op_name="jit(f)/say \\"hi\\", there" source_file="a b.py" source_line=12}, '
    'backend_config={"flag_configs":[],"x":"},{"}'
)


def instruction(text):
    message = message_class("HloInstruction")()
    return read_instruction(text, message), message


def test_an_instruction_with_all_that_a_trace_writes():
    line, message = instruction(PSUM)
    assert (message.name, message.opcode) == (b"psum.896", b"all-reduce")
    assert line.operands == (("fusion.3", "bf16[1024,5120]{1,0}"),)
    assert line.called == ("add",)
    assert (message.channel_id, message.use_global_device_ids) == (1, True)
    assert raw_groups(message) == [[0, 1]]
    assert message.metadata.op_name == b'jit(f)/say "hi", there'
    assert (message.metadata.source_file, message.metadata.source_line) == (b"a b.py", 12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{0,2},{1,3}}", [[0, 2], [1, 3]]),
        ("{}", []),
        ("[2,2]<=[4]", [[0, 1], [2, 3]]),
        # arange(8) as 2 x 4, transposed: 0 4 1 5 2 6 3 7, two at a time.
        ("[4,2]<=[2,4]T(1,0)", [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ("mesh['a'=2,'b'=2] {'a'}", [[0, 2], [1, 3]]),
        ("mesh['a'=2,'b'=2] {'a','b'}", [[0, 1, 2, 3]]),
        # 'a' of 4 split as (pre 2) 2: members differ in the low bit of a.
        ("mesh['a'=4] {'a':(2)2}", [[0, 1], [2, 3]]),
        ("mesh['x'=2,'y'=2], device_ids=(0,2,1,3) {'y'}", [[0, 2], [1, 3]]),
        ("mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0)) {'y'}", [[0, 2], [1, 3]]),
    ],
)
def test_groups_in_every_notation(text, expected):
    written = f"%a = f32[8] all-gather(f32[4] %x), replica_groups={text}, dimensions={{0}}"
    _, message = instruction(written)
    assert raw_groups(message) == expected
    assert list(message.dimensions) == [0]


def test_pairs_index_flags_and_attributes():
    _, message = instruction(
        "cp = f32[4] collective-permute(x), channel_id=2, source_target_pairs={{0,1},{1,0}}"
    )
    assert device_pairs(message, None) == [(0, 1), (1, 0)]
    _, message = instruction("%g = f32[] get-tuple-element((f32[], s32[2]) %t), index=1")
    assert message.tuple_index == 1
    _, message = instruction(
        "%s = (f32[4], u32[], token[]) send(f32[4] %x, token[] %t), channel_id=3, "
        "is_host_transfer=true, "
        'frontend_attributes={_xla_send_recv_source_target_pairs={{2,3}},other="a,b={"}'
    )
    assert message.is_host_transfer
    assert device_pairs(message, None) == [(2, 3)]
    assert message.frontend_attributes.map[1].value == b"a,b={"
    _, message = instruction(
        '%c = ((f32[8]), f32[2], u32[]) async-start(%x), async_execution_thread="sparsecore", calls=%w'
    )
    assert message.async_execution_thread == b"sparsecore"
    _, message = instruction('%k = f32[8] custom-call(f32[8] %x), custom_call_target="a\\"b"')
    assert message.custom_call_target == b'a"b'


def test_branches_are_called():
    line, _ = instruction(
        "%c = f32[] conditional(s32[] %i, f32[] %x), branch_computations={%one, %two}"
    )
    assert line.called == ("one", "two")
    line, _ = instruction("w = (s32[]) while((s32[]) t), condition=cond, body=step")
    assert line.called == ("cond", "step")


@pytest.mark.parametrize(
    ("text", "logical"),
    [
        ("bf16[8,128]{1,0:T(8,128)(2,1)S(1)}", 2048),
        ("f32[]", 4),
        ("pred[3]{0}", 3),
        ("s4[7]{0:T(256)E(4)}", 4),  # 28 bits
        ("u2[9]{0}", 3),  # 18 bits
        ("f4e2m1fn[5,2]{1,0}", 5),
        ("f8e8m0fnu[16]{0}", 16),
        ("f8e4m3b11fnuz[16]{0}", 16),
        ("c128[2]{0}", 32),
        ("f32[<=8,4]{1,0}", 128),  # dynamic: the bound
        ("(f32[2], (s8[4], token[]))", 12),
        ("token[]", 0),
        ("s8[16]{0:T(1024)(128)(4,1)S(1)}", 16),
        ("f32[4,8]{1,0:T(*,8)(8,128)}", 128),
    ],
)
def test_shapes_come_back_as_they_were_written(text, logical):
    shape = read_shape(text).proto
    assert end_of_shape(f"{text} add(", 0) == len(text)
    assert shapes.shape_text(shape) == text
    assert shapes.logical_bytes(shape) == logical


def test_marks_that_say_nothing_of_size_are_passed_over():
    shape = read_shape("f32[8,4]{1,0:D(D,C)#(u32)*(u64)T(2,4)L(16)S(2)M(64)}").proto
    assert (shapes.tiling(shape), shape.layout.memory_space) == ("(2,4)", 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not an instruction",
        "%x = ",
        "%x = f32[8]{0}",
    ],
)
def test_what_is_no_instruction_says_so(text):
    with pytest.raises(HloTextError):
        instruction(text)


MODULE = """HloModule jit_f.1, entry_computation_layout={(f32[8]{0})->f32[8]{0}}, num_partitions=4

FileNames
1 "/src/model.py"

FileLocations
1 {file_name_id=1 function_name_id=1 line=30 end_line=30 column=4 end_column=9}

StackFrames
1 {file_location_id=1 parent_frame_id=0}


%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %add.1 = f32[] add(%x, %y)
}

%wrapped (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0), frontend_attributes={kernel_metadata={
"a":"{b"
}}, metadata={op_name="p"}
  ROOT %inner = f32[8]{0} all-reduce(%p), channel_id=1, replica_groups=[2,2]<=[4], GLOBAL, to_apply=%add
}, execution_thread="sparsecore"

ENTRY %main (x.1: f32[8]) -> f32[8] {
  %x.1 = f32[8]{0} parameter(0)
  %c = s32[2,2]{1,0} constant({
    { 0, 1 },
    { 2, 3 }
  })
  %broken = f99[8] add(%x.1)
  %start = ((f32[8]{0}), f32[8]{0}, s32[]) async-start(%x.1), calls=%wrapped, metadata={stack_frame_id=1}
  ROOT %done = f32[8]{0} async-done(%start)
}
""".replace("GLOBAL", "use_global_device_ids=true")


def test_a_module():
    read = read_module_text(MODULE, 77, "dump.txt")
    program = read.program
    assert read.problems == ["dump.txt, line 32: unknown element type f99 in f99[8]"]
    assert (program.module, program.program_id) == ("jit_f.1", 77)
    assert [c.name for c in program.proto.computations] == [b"add", b"wrapped", b"main"]
    assert program.computations[program.proto.entry_computation_id].name == b"main"
    assert "broken" in {row["op"] for row in instruction_rows(program)}
    assert {program.by_id[c.root_id].name for c in program.proto.computations} == {
        b"add.1",
        b"inner",
        b"done",
    }
    assert program.assignment_assumed
    assert program.assignment.devices == ((0,), (1,), (2,), (3,))
    rows = {row["op"]: row for row in instruction_rows(program)}
    assert (rows["start"]["source_file"], rows["start"]["source_line"]) == ("/src/model.py", 30)
    assert (rows["start"]["called"], rows["done"]["operands"]) == ("wrapped", "start")
    assert rows["c"]["dims"] == [2, 2]
    facts = gather([program], "run")
    ops = {row["op"]: row for row in facts.ops.to_dicts()}
    assert (ops["start"]["kind"], ops["start"]["role"]) == ("all-reduce", "start")
    assert (ops["start"]["payload_bytes"], ops["done"]["start_op"]) == (32, "start")
    members = facts.groups.filter(pl.col("op") == "start")
    assert members["logical_id"].to_list() == [0, 1, 2, 3]


def test_without_counts_the_devices_are_unknown():
    text = """HloModule m

ENTRY e {
  x = f32[4] parameter(0)
  ROOT a = f32[4] all-reduce(x), replica_groups={}
}
"""
    program = read_module_text(text, None, "m.txt").program
    assert program.assignment is None
    assert device_groups(program.by_id[program.proto.computations[0].root_id], None) == []


def test_asynchronous_opcodes_of_text():
    """Text writes async-start of a slice as slice-start, of a fusion as fusion-start."""
    text = """HloModule m, num_partitions=2

%fused (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %r = f32[8]{0} all-reduce(%p), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true
}

ENTRY %main (x: f32[8]) -> f32[2] {
  %x = f32[8]{0} parameter(0)
  %s = ((f32[8]{0}), f32[2]{0}, s32[]) slice-start(%x), slice={[0:2]}
  %f = ((f32[8]{0}), f32[8]{0}, s32[]) fusion-start(%x), kind=kLoop, calls=%fused
  %g = ((f32[8]{0}), f32[4]{0}) reduce-scatter-start(%x), channel_id=2, replica_groups={{0,1}}, dimensions={0}
  %fd = f32[8]{0} fusion-done(%f)
  %gd = f32[4]{0} reduce-scatter-done(%g)
  ROOT %sd = f32[2]{0} slice-done(%s)
}
"""
    ops = {
        row["op"]: row
        for row in gather([read_module_text(text, 1, "m").program], "r").ops.to_dicts()
    }
    shown = {
        op: (row["category"], row["role"], row["kind"], row["start_op"]) for op, row in ops.items()
    }
    assert shown["s"] == ("copy", "start", None, None)
    assert shown["sd"] == ("copy", "done", None, "s")
    assert shown["f"] == ("collective", "start", "all-reduce", None)
    assert shown["fd"] == ("collective", "done", "all-reduce", "f")
    assert shown["g"] == ("collective", "start", "reduce-scatter", None)
    assert shown["gd"] == ("collective", "done", "reduce-scatter", "g")
    assert (ops["f"]["payload_bytes"], ops["g"]["payload_bytes"]) == (32, 32)


def test_no_module():
    assert is_module_text(MODULE.encode())
    assert not is_module_text(b"\x0a\x07HloModule")
    with pytest.raises(HloTextError, match="no line begins with HloModule"):
        read_module_text("hello\n", None, "a.txt")


def test_loose_instructions():
    texts = [
        PSUM,
        PSUM,
        "%copy-start.1 = (f32[8], f32[8], u32[]) copy-start(f32[8]{0} %gone)",
        "%copy-done.1 = f32[8] copy-done((f32[8], f32[8], u32[]) %copy-start.1)",
        "%fusion.9 = f32[8]{0} fusion(f32[8]{0} %copy-done.1), kind=kLoop, calls=%unknown",
        "nonsense",
    ]
    read = program_of_instructions(texts, 5, "jit_f", "t.json")
    assert read.problems == ["t.json: not an instruction: nonsense"]
    facts = gather([read.program], "run")
    assert [issue.code for issue in facts.issues] == ["device_assignment_unknown"]
    ops = {row["op"]: row for row in facts.ops.to_dicts()}
    assert set(ops) == {"psum.896", "copy-start.1", "copy-done.1", "fusion.9"}
    assert (ops["fusion.9"]["category"], ops["fusion.9"]["kind"]) == (None, None)  # not known
    assert (ops["psum.896"]["kind"], ops["psum.896"]["payload_bytes"]) == ("all-reduce", 10_485_760)
    assert ops["copy-done.1"]["start_op"] == "copy-start.1"
    assert [row["op"] for row in facts.instructions] == [
        "psum.896",
        "copy-start.1",
        "copy-done.1",
        "fusion.9",
    ]
    assert facts.groups["logical_id"].to_list() == [0, 1]


def test_the_text_of_a_tpu_trace_equals_its_hlo():
    """The v6e sample names each op by its text and holds the same instruction as a proto."""
    raw = sample("tpu/v6e_4dev_jax_psum_offload.xplane.pb").read_bytes()
    planes = list(xspace.decode_planes(wire.split_space(raw, "v6e"), "v6e"))
    (metadata,) = (plane for plane in planes if plane.name == "/host:metadata")
    programs = {program.program_id: program for program in programs_of_plane(metadata)}
    texts: dict[int, set[str]] = {}
    for plane in planes:
        ids = plane.metadata_stats.numbers("program_id", pl.UInt64)
        named = plane.metadata.join(ids, left_on="metadata_id", right_on="owner")
        for text, program_id in named.select("name", "program_id").rows():
            texts.setdefault(program_id, set()).add(text)
    compared = 0
    for program_id, program in programs.items():
        read = program_of_instructions(sorted(texts.get(program_id, ())), program_id, "m", "v6e")
        assert read.problems == []
        by_name = {i.name: i for _, i in program.instructions()}
        for _, got in read.program.instructions():
            want = by_name[got.name]
            assert shapes.shape_text(got.shape) == shapes.shape_text(want.shape)
            assert (got.opcode, got.channel_id) == (want.opcode, want.channel_id)
            assert raw_groups(got) == raw_groups(want)
            operands = [each.name for each in program.operands(want)]
            assert [each.name for each in read.program.operands(got)] == operands
            compared += 1
    assert compared == 17  # distinct texts in the file, counted with strings, grep and sort -u


@pytest.mark.parametrize(
    ("name", "cut_at"),
    [("maxtext_deepseek3", 2000), ("maxtext_qwen3_1.7b", 2000), ("torch_xla_llama2_tp4_pp2", None)],
)
def test_dumps_hold_as_many_instructions_as_their_lines_say(name, cut_at):
    """Of two of them, the samples hold the first 2,000 lines."""
    text = sample(f"hlo/{name}.hlo.txt").read_text()
    read = read_module_text(text, None, name)
    cut = [f"{name}, line {cut_at}: the text ends within a computation"] if cut_at else []
    assert read.problems == cut
    headed = re.findall(r"^(?:ENTRY )?%\S+ \(.*\{$", text, re.MULTILINE)
    assert len(read.program.proto.computations) == len(headed)
    opcodes = re.findall(r"^  (?:ROOT )?%\S+ = .*?[\]})] ([a-z][a-z-]*)\(", text, re.MULTILINE)
    got = Counter(i.opcode.decode() for _, i in read.program.instructions())
    assert got == Counter(opcodes)
