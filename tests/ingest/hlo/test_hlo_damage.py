"""What of HLO text cannot be read costs itself: the instruction stays, and nothing of it is a guess."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ingest.build import ModuleBuilder, shape
from xlahouse.ingest.events.codes_of_programs import DAMAGED_HLO
from xlahouse.ingest.hlo.module_text import program_of_instructions, read_module_text
from xlahouse.ingest.hlo.program import parse_program
from xlahouse.ingest.hlo.program_facts import gather
from xlahouse.ingest.hlo.transfer import find_transfer

MODULE = """HloModule m, num_partitions=4

%wrapped (q: f32[8]) -> f32[8] {
  %q = f32[8]{0} parameter(0)
  ROOT %inner = f32[8]{0} all-reduce(f32[8]{0} %q), channel_id=3, replica_groups={{0,1,2,3}}, use_global_device_ids=true
}

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %r = f32[8]{0} all-reduce(f32[8]{0} %p), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, metadata={op_name="model.layers.3/mlp" source_file="a.py" source_line=7}
  %s = f32[8]{0} collective-permute(f32[8]{0} %p), channel_id=2, source_target_pairs={{0,1},{2,3}}
  %f = f32[8]{0} fusion(f32[8]{0} %p), kind=kLoop, calls=%wrapped
  ROOT %c = f32[8]{0} copy(f32[8]{0} %r)
}
"""  # noqa: E501
# op: (kind, payload in bytes, members of its groups, pairs)
WHOLE = {
    "r": ("all-reduce", 32, [0, 1, 2, 3], []),
    "s": ("collective-permute", 32, [0, 1, 2, 3], [(0, 1), (2, 3)]),
    "f": ("all-reduce", 32, [0, 1, 2, 3], []),
    "inner": ("all-reduce", 32, [0, 1, 2, 3], []),
}


def read(text):
    found = read_module_text(text, 5, "m.txt")
    return found, gather([found.program], "m.txt")


def told(facts, op):
    """(kind, payload_bytes, members, pairs) of an op."""
    mine = pl.col("op") == op
    kind, payload = facts.ops.filter(mine).select("kind", "payload_bytes").row(0)
    members = facts.groups.filter(mine)["logical_id"].to_list()
    pairs = facts.pairs.filter(mine).select("source_device_id", "target_device_id").rows()
    return kind, payload, members, pairs


def test_the_whole_module():
    found, facts = read(MODULE)
    assert (found.problems, facts.issues) == (
        [],
        [issue for issue in facts.issues if issue.code == "device_assignment_unknown"],
    )
    assert {op: told(facts, op) for op in WHOLE} == WHOLE


NO_GROUPS = ("all-reduce", 32, [], [])
GROUPS_OF_R = "replica_groups={{0,1},{2,3}}"


@pytest.mark.parametrize(
    ("old", "new", "op", "expected", "problem"),
    [
        (GROUPS_OF_R, "replica_groups=<0,1>", "r", NO_GROUPS, "unknown notation"),
        (GROUPS_OF_R, "replica_groups={{0,x},{2,3}}", "r", NO_GROUPS, "not a list of lists"),
        (GROUPS_OF_R, "replica_groups={{0,1},{2,3}", "r", NO_GROUPS, "not a list of lists"),
        (GROUPS_OF_R, "replica_groups={{0,1},2,3}", "r", NO_GROUPS, "not a list of lists"),
        (
            GROUPS_OF_R,
            "replica_groups={{0,99999999999999999999},{2,3}}",
            "r",
            NO_GROUPS,
            "replica_groups of r",
        ),
        (GROUPS_OF_R, "replica_groups=[2,2,1]<=[4]", "r", NO_GROUPS, "not a list of groups"),
        (GROUPS_OF_R, "replica_groups=mesh['a'=2,'b'=2] {'c'}", "r", NO_GROUPS, "not in the mesh"),
        (GROUPS_OF_R, "replica_groups=mesh['a'=x,'b'=4] {'b'}", "r", NO_GROUPS, "axes of a mesh"),
        # What the numbers of a group mean depends on these two.
        ("channel_id=1", "channel_id=one", "r", NO_GROUPS, "channel_id of r"),
        ("channel_id=1", "channel_id=99999999999999999999", "r", NO_GROUPS, "channel_id of r"),
        (
            "use_global_device_ids=true, metadata",
            "use_global_device_ids=yes, metadata",
            "r",
            NO_GROUPS,
            "neither true nor false",
        ),
        (
            "source_target_pairs={{0,1},{2,3}}",
            "source_target_pairs={{0,1},{2}}",
            "s",
            ("collective-permute", 32, [], []),
            "not a list of pairs",
        ),
        # A fusion is what it holds.
        (
            "replica_groups={{0,1,2,3}}",
            "replica_groups=(0,1,2,3)",
            "f",
            NO_GROUPS,
            "unknown notation",
        ),
    ],
)
def test_unread_groups_are_no_groups(old, new, op, expected, problem):
    """Without its groups a collective would seem to take in all devices."""
    assert MODULE.count(old) == 1
    found, facts = read(MODULE.replace(old, new))
    assert problem in found.problems[0]
    assert len(found.program.by_id) == 7
    assert {"bad_replica_groups"} <= {issue.code for issue in facts.issues}
    assert told(facts, op) == expected
    others = [other for other in WHOLE if other not in (op, "inner")]
    assert {other: told(facts, other) for other in others} == {o: WHOLE[o] for o in others}


@pytest.mark.parametrize(
    ("text", "dtype", "dims", "space", "size", "problems"),
    [
        ("f32[?,4]{1,0}", "f32", [None, 4], 0, None, 0),  # no bound: so the format has it
        ("f32[n,4]{1,0:S(1)}", "f32", [None, 4], 1, None, 1),
        ("f32[99999999999999999999]{0}", "f32", [None], 0, None, 1),
        ("f99[8]{0}", "unknown", [8], 0, None, 1),
        ("f32[8]{0:S(x)}", "f32", [8], None, 32, 1),
        ("f32[8]{a}", "f32", [8], None, 32, 1),
        ("f32[8]{0:T(99999999999999999999)}", "f32", [8], None, 32, 1),
        ("<f32, 8>", "unknown", [], 0, None, 1),
    ],
)
def test_a_shape_is_known_as_far_as_it_can_be_read(text, dtype, dims, space, size, problems):
    module = MODULE.replace("%r = f32[8]{0} all", f"%r = {text} all")
    found, facts = read(module)
    (row,) = (row for row in facts.instructions if row["op"] == "r")
    columns = ("opcode", "dtype", "dims", "memory_space", "logical_bytes", "source_line")
    assert tuple(row[name] for name in columns) == ("all-reduce", dtype, dims, space, size, 7)
    assert len(found.problems) == problems
    assert all(problem.startswith("m.txt, line 10: ") for problem in found.problems)
    # The payload of an all-reduce is its operand's, and p is whole.
    assert told(facts, "r") == WHOLE["r"]


def test_a_size_without_bound_is_a_finding():
    _, facts = read(MODULE.replace("%p = f32[8]{0} par", "%p = f32[?]{0} par"))
    assert [(i.severity, i.count) for i in facts.issues if i.code == "size_unknown"] == [
        ("info", 1)
    ]
    assert told(facts, "r") == ("all-reduce", None, [0, 1, 2, 3], [])


def test_a_layout_that_cannot_be_read_has_no_padded_size():
    _, facts = read(MODULE.replace("%r = f32[8]{0}", "%r = f32[]{:T(x)}"))
    (row,) = (row for row in facts.instructions if row["op"] == "r")
    assert (row["logical_bytes"], row["padded_bytes"]) == (4, None)


def test_an_operand_that_is_not_there_is_not_left_out_of_the_sum():
    """`%gone` has no line: by its shape it is 32 bytes more, without one the sum is unknown."""
    two = MODULE.replace("all-reduce(f32[8]{0} %p)", "all-reduce(f32[8]{0} %p, f32[8]{0} %gone)")
    assert told(read(two)[1], "r") == ("all-reduce", 64, [0, 1, 2, 3], [])
    bare = MODULE.replace("all-reduce(f32[8]{0} %p)", "all-reduce(%p, %gone)")
    assert told(read(bare)[1], "r") == ("all-reduce", None, [0, 1, 2, 3], [])
    (row,) = (row for row in read(bare)[1].instructions if row["op"] == "r")
    assert row["operands"] == "p,gone"


def test_operands_that_break_off_are_unknown():
    found, facts = read(MODULE.replace("all-reduce(f32[8]{0} %p)", "all-reduce(f32[8]{0} %p"))
    assert "a bracket is not closed" in found.problems[0]
    assert told(facts, "r") == ("all-reduce", None, [], [])


def test_a_wrapper_of_a_computation_that_is_not_there_is_not_computing():
    text = MODULE.replace("calls=%wrapped", "calls=%gone")
    _, facts = read(text)
    (category,) = facts.ops.filter(op="f")["category"].to_list()
    assert category is None
    pair = """HloModule m

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %start = ((f32[8]{0}), f32[8]{0}, s32[]) async-start(%p), calls=%gone
  ROOT %done = f32[8]{0} async-done(%start)
}
"""
    _, facts = read(pair)
    assert facts.ops.filter(pl.col("op") != "p")["category"].to_list() == [None, None]


@pytest.mark.parametrize("counts", ["num_partitions=four", "num_partitions=99999999999", "x=1"])
def test_devices_of_a_number_that_cannot_be_read_are_unknown(counts):
    found, facts = read(MODULE.replace("num_partitions=4", counts))
    assert found.program.assignment is None
    assert len(found.problems) == (counts != "x=1")
    assert told(facts, "r")[2] == [0, 1, 2, 3]  # as the text numbers them
    assert "device_assignment_unknown" in {issue.code for issue in facts.issues}


ALL = "replica_groups={{0,1,2,3}}"
PAIRS = "collective-permute(f32[8]{0} %p), channel_id=2, source_target_pairs={{0,1},{2,3}}"
NO_PAIRS = f"all-gather(f32[8]{{0}} %p), channel_id=2, {ALL}, use_global_device_ids=true"


@pytest.mark.parametrize(
    ("groups", "other", "severity"),
    [
        (ALL, NO_PAIRS, "info"),  # all devices are one group under any assignment
        ("replica_groups={{0,1},{2,3}}", NO_PAIRS, "warning"),  # {0,2}, {1,3} if it is 0, 2, 1, 3
        (ALL, PAIRS, "warning"),  # 0 would send to 2
    ],
)
def test_an_unknown_assignment_is_a_warning_where_groups_rest_on_it(groups, other, severity):
    _, facts = read(MODULE.replace("replica_groups={{0,1},{2,3}}", groups).replace(PAIRS, other))
    found = [issue for issue in facts.issues if issue.code == "device_assignment_unknown"]
    assert [issue.severity for issue in found] == [severity]


def test_a_line_of_the_stack_frames_that_is_lost_moves_no_other():
    """Entries are known by their place: a.py is the third file, b.py the second."""
    text = MODULE.replace(
        "%wrapped (q",
        """FileNames
1 "z.py"
2 b.py"
3 "a.py"

FileLocations
2 {file_name_id=2 function_name_id=1 line=30}
3 {file_name_id=3 function_name_id=1 line=40}

StackFrames
1 {file_location_id=2 parent_frame_id=0}
2 {file_location_id=3 parent_frame_id=0}

%wrapped (q""",
    ).replace('source_file="a.py" source_line=7', "stack_frame_id=2")
    found, facts = read(text.replace("copy(f32[8]{0} %r)", "copy(%r), metadata={stack_frame_id=1}"))
    places = {row["op"]: (row["source_file"], row["source_line"]) for row in facts.instructions}
    assert (places["r"], places["c"]) == (("a.py", 40), (None, 30))
    assert found.problems == ['m.txt, line 5: not understood: 2 b.py"']


def test_numbers_of_thousands_of_digits_cost_themselves():
    """Python refuses to read such numbers."""
    long = "9" * 5000
    text = MODULE.replace("source_line=7", f"source_line={long}").replace(
        "%wrapped (q", f"FileLocations\n1 {{file_name_id={long} line={long}}}\n\n%wrapped (q"
    )
    found, facts = read(text)
    assert told(facts, "r") == WHOLE["r"]
    (row,) = (row for row in facts.instructions if row["op"] == "r")
    assert (row["layer"], row["source_file"], row["source_line"]) == (3, "a.py", None)
    assert [problem[:15] for problem in found.problems] == ["m.txt, line 4: ", "m.txt, line 13:"]


def test_tuples_within_tuples_without_end():
    depth = 5000
    text = f"%x = {'(' * depth}f32[8]{')' * depth} add(f32[8] %a)"
    found = program_of_instructions([text], 1, "m", "f")
    assert "nested too deep" in found.problems[0]
    assert gather([found.program], "f").ops["opcode"].to_list() == ["add"]


def test_findings_of_one_kind_are_one():
    texts = [f"%r.{n} = f32[8] all-reduce(f32[8] %p), replica_groups=<{n}>" for n in range(3)]
    found = program_of_instructions(texts, 1, "m", "f")
    (issue,) = found.issues("f")
    assert issue == DAMAGED_HLO.found(
        "f", 3, "f: replica_groups of r.0: replica groups in an unknown notation: <0> (and 2 more)"
    )
    assert gather([found.program], "f").ops["payload_bytes"].to_list() == [32, 32, 32]


@given(st.integers(MODULE.index("\n"), len(MODULE)))
def test_a_module_that_ends_anywhere_says_nothing_that_the_whole_does_not(end):
    found, facts = read(MODULE[:end])
    assert "damaged_hlo" not in {issue.code for issue in facts.issues}
    is_whole = MODULE[end:].strip() in ("", "}") or MODULE[:end].rstrip().endswith("4")
    assert found.problems or is_whole or MODULE[:end].rstrip().endswith("}")
    _is_part_of_the_whole(facts)


def _is_part_of_the_whole(facts):
    for op in set(facts.ops["op"].to_list()) & set(WHOLE):
        for got, want in zip(told(facts, op), WHOLE[op], strict=True):
            assert got in (want, None, [])


LINES = [line.strip().removeprefix("ROOT ") for line in MODULE.splitlines() if " = " in line]


@given(st.sampled_from(LINES), st.data())
def test_a_line_that_ends_anywhere_says_nothing_that_the_whole_does_not(line, data):
    end = data.draw(st.integers(0, len(line)))
    found = program_of_instructions([line[:end]], 1, "m", "f")
    facts = gather([found.program], "f")
    assert "damaged_hlo" not in {issue.code for issue in facts.issues}
    _is_part_of_the_whole(facts)


@given(st.data())
def test_any_change_of_a_character_costs_no_more_than_its_line(data):
    at = data.draw(st.integers(MODULE.index("%wrapped"), len(MODULE) - 1))
    new = data.draw(st.sampled_from('{}()[]"=,%x9 -?<>\n²\0'))
    _, facts = read(MODULE[:at] + new + MODULE[at + 1 :])
    assert "damaged_hlo" not in {issue.code for issue in facts.issues}


@pytest.mark.parametrize("name", ["fusion", "async-collective-start", "async-collective-done"])
def test_wrappers_that_call_ten_of_themselves_are_each_looked_at_once(name):
    """Ten fusions in each of ten computations that call the next, the last of which calls the first: to
    follow each is 10^16 steps."""
    built = ModuleBuilder(devices=[[0], [1]])
    f32 = shape("f32", 256)
    levels = [built.computation(f"level{level}") for level in range(10)]
    for level, computation in enumerate(levels):
        x = built.add(computation, f"x{level}", "parameter", f32)
        for place in range(10):
            below = levels[(level + 1) % len(levels)]
            built.add(computation, f"{name}.{level}.{place}", "fusion", f32, x, calls=[below])
    built.add(levels[-1], "ar", "all-reduce", f32, x, groups=[[0, 1]], channel_id=1)
    main = built.computation("main")
    y = built.add(main, "y", "parameter", f32)
    fusion = built.add(main, f"{name}.f", "fusion", f32, y, calls=[levels[0]])
    program = parse_program(built.serialize(), 1, "m")
    found = find_transfer(program, program.by_id[fusion.id])
    assert found.kind == "all-reduce"
    assert name != "fusion" or [each.name for each in found.instructions] == [b"ar"]
