"""How often a program runs its instructions: rounds of loops, calls, branches."""

from __future__ import annotations

import pytest

from tests.ingest.build import ModuleBuilder, shape
from tests.ingest.compiled_build import counted_loop
from xlahouse.ingest.compiled.executions import executions
from xlahouse.ingest.compiled.loops import trip_count
from xlahouse.ingest.hlo.program import parse_program

X = shape("f32", 64)


def rounds(note=b"", **loop):
    """Rounds of a counted loop."""
    built = ModuleBuilder()
    _, made = counted_loop(built, "main", **loop)
    made.backend_config = note
    program = parse_program(built.serialize(), 1, "m")
    return trip_count(program, program.loops[0])


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ({"begin": 0, "limit": 6, "step": 1}, 6),
        ({"begin": 1, "limit": 8, "step": 2}, 4),  # 1, 3, 5, 7
        ({"begin": 1, "limit": 7, "step": 2}, 3),  # 1, 3, 5
        ({"begin": 6, "limit": 6, "step": 1}, 0),
        ({"begin": 9, "limit": 6, "step": 1}, 0),
        ({"begin": 0, "limit": 6, "step": 0}, None),  # for ever
        ({"begin": 0, "limit": 6, "step": -1}, None),
        ({"begin": 0, "limit": 6, "step": 1, "direction": "LE"}, None),
    ],
)
def test_a_loop_that_counts(loop, expected):
    assert rounds(**loop) == expected


def test_the_compilers_note_decides():
    note = b'{"known_trip_count":{"n":"6"},"known_induction_variable":{"tuple_index":"0"}}'
    assert rounds(note, begin=0, limit=3, step=1, direction="GT") == 6


def test_calls_add_up_and_a_condition_runs_once_more():
    """inner: 3 rounds of ar, called twice; the condition is tested 4 times in each call."""
    built = ModuleBuilder()
    inner, loop = counted_loop(built, "inner", 0, 3, 1)
    built.add(inner, "out", "get-tuple-element", X, loop, tuple_index=1)
    main = built.computation("main")
    x = built.add(main, "y", "parameter", X)
    first = built.add(main, "first", "call", X, x, calls=[inner])
    built.add(main, "second", "call", X, first, calls=[inner])
    program = parse_program(built.serialize(), 1, "m")
    named = {program.by_id[n].name.decode(): times for n, times in executions(program).items()}
    assert (named["y"], named["first"], named["loop"], named["ar"], named["less"]) == (
        1,
        1,
        2,
        6,
        8,
    )


def test_instructions_of_fusions_are_not_run_by_themselves():
    built = ModuleBuilder()
    fused = built.computation("fused")
    built.add(fused, "inside", "parameter", X)
    main = built.computation("main")
    x = built.add(main, "x", "parameter", X)
    built.add(main, "fusion", "fusion", X, x, calls=[fused])
    program = parse_program(built.serialize(), 1, "m")
    assert {program.by_id[n].name for n in executions(program)} == {b"x", b"fusion"}


def test_calls_that_double_at_each_level_are_counted_once_each():
    """60 levels of two calls are 2^60 executions: to follow each would not end."""
    built = ModuleBuilder()
    below = built.computation("level0")
    built.add(below, "x0", "parameter", X)
    for level in range(1, 61):
        above = built.computation(f"level{level}")
        x = built.add(above, f"x{level}", "parameter", X)
        first = built.add(above, f"a{level}", "call", X, x, calls=[below])
        built.add(above, f"b{level}", "call", X, first, calls=[below])
        below = above
    program = parse_program(built.serialize(), 1, "m")
    named = {program.by_id[n].name.decode(): times for n, times in executions(program).items()}
    assert (named["x60"], named["x59"], named["x40"], named["x7"]) == (1, 2, 2**20, 2**53)
    assert named["x6"] is None  # beyond what a program runs: damage
    assert named["x0"] is None


def test_what_calls_itself_runs_unknown_times():
    """Twice at each level, as damage can have it: neither a loop without end nor a number."""
    built = ModuleBuilder()
    inner, _ = counted_loop(built, "inner", 0, 3, 1)
    loop = built.computation("loop")
    x = built.add(loop, "x", "parameter", X)
    first = built.add(loop, "first", "call", X, x, calls=[loop])
    second = built.add(loop, "second", "call", X, first, calls=[loop])
    built.add(loop, "third", "call", X, second, calls=[inner])
    main = built.computation("main")
    y = built.add(main, "y", "parameter", X)
    built.add(main, "z", "call", X, y, calls=[loop])
    program = parse_program(built.serialize(), 1, "m")
    named = {program.by_id[n].name.decode(): times for n, times in executions(program).items()}
    assert (named["y"], named["z"]) == (1, 1)
    assert {named[name] for name in ("x", "first", "second", "third", "ar", "less")} == {None}
