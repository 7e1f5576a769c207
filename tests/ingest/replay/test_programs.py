"""The time of a program: order, loops, branches and what runs beside other instructions, by hand."""

from __future__ import annotations

import pytest

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.replay.programs import Instruction, InstructionTime, Timeline


def line(op, opcode="fusion", operands=(), computation="main", called=(), shape="f32[8]", n=1):
    return Instruction(op, computation, opcode, called, operands, shape, n)


def lasting(instructions, costs, at_most=False):
    """(compute, transfer, copy) of the entry."""
    found = Timeline.of("r", instructions).duration("main", costs, at_most)
    return found.compute_ps, found.transfer_ps, found.copy_ps


def test_instructions_follow_one_another():
    rows = [line("a"), line("b", "all-reduce", ("a",)), line("c")]
    costs = {"a": InstructionTime(10), "b": InstructionTime(7, None, True), "c": InstructionTime(5)}
    assert lasting(rows, costs) == (15, 7, 0)


@pytest.mark.parametrize(("flight", "exposed"), [(5, 0), (20, 0), (50, 30)])
def test_a_transfer_in_flight_costs_what_no_instruction_hides(flight, exposed):
    rows = [
        line("s", "all-gather-start", ("x",)),
        line("a"),
        line("d", "all-gather-done", ("s",)),
        line("b"),
    ]
    costs = {
        "s": InstructionTime(0, flight, True),
        "a": InstructionTime(20),
        "b": InstructionTime(3),
    }
    assert lasting(rows, costs) == (23, exposed, 0)


def test_flights_share_a_link_at_most():
    # Both begin at 0 and take 30 each. One after the other, the second ends at 60.
    rows = [
        line("s", "collective-permute-start", ("x",)),
        line("t", "collective-permute-start", ("x",)),
        line("c", "copy-start", ("x",)),
        line("a"),
        line("sd", "collective-permute-done", ("s",)),
        line("td", "collective-permute-done", ("t",)),
        line("cd", "copy-done", ("c",)),
    ]
    costs = {
        "s": InstructionTime(0, 30, True),
        "t": InstructionTime(0, 30, True),
        "c": InstructionTime(0, 40),
        "a": InstructionTime(10),
    }
    # At best: 10, then 20 for both, then 10 more for the copy.
    assert lasting(rows, costs) == (10, 20, 10)
    assert lasting(rows, costs, at_most=True) == (10, 50, 0)


def test_an_update_leads_to_its_start():
    rows = [
        line("s", "async-start", ("x",)),
        line("u", "async-update", ("s",)),
        line("d", "async-done", ("u",)),
    ]
    assert lasting(rows, {"s": InstructionTime(0, 9)}) == (0, 0, 9)


def test_a_transfer_over_fusions_ends_with_the_one_that_gives_no_flags():
    flags = "(f32[8], u32[]{:S(2)})"
    rows = [
        line("begin", "fusion", ("x",), shape=flags),
        line("value", "get-tuple-element", ("begin",)),
        line("flag", "get-tuple-element", ("begin",), shape="u32[]{:S(2)}"),
        line("other", "fusion", ("value",)),  # uses what it also gives, and waits for nothing
        line("through", "fusion", ("flag",), shape=flags),
        line("on", "get-tuple-element", ("through",), shape="u32[]{:S(2)}"),
        line("end", "fusion", ("on",)),
    ]
    costs = {
        "begin": InstructionTime(0, 100, True),
        "other": InstructionTime(10),
        "through": InstructionTime(50),
    }
    assert Timeline.of("r", rows).start_of == {"end": "begin"}
    assert lasting(rows, costs) == (60, 40, 0)


def test_a_loop_runs_its_body_once_a_round_and_its_condition_once_more():
    rows = [
        line("c", computation="condition", n=5),
        line("s", "copy-start", computation="body", n=4),
        line("b", computation="body", n=4),
        line("d", "copy-done", ("s",), computation="body", n=4),
        line("loop", "while", called=("condition", "body")),
    ]
    # A round: 10 of compute, and 2 of the copy's 12 that nothing hides.
    costs = {"c": InstructionTime(1), "b": InstructionTime(10), "s": InstructionTime(0, 12)}
    assert lasting(rows, costs) == (5 + 40, 0, 8)


def test_a_loop_within_a_loop_counts_for_each_of_its_rounds():
    rows = [
        line("deep", computation="inner", n=6),
        line("nested", "while", computation="body", called=("inner",), n=2),
        line("loop", "while", called=("body",)),
        line("made", "call", called=("twice",)),
        line("once", computation="twice"),
    ]
    assert lasting(rows, {"deep": InstructionTime(10), "once": InstructionTime(3)}) == (63, 0, 0)


@pytest.mark.parametrize("rounds", [None, 3])
def test_rounds_that_nobody_states_are_refused(rounds):
    rows = [
        line("b", computation="body", n=rounds),
        line("loop", "while", called=("body",), n=None if rounds is None else 2),
    ]
    with pytest.raises(WarehouseError, match="r: the rounds of loop loop are decided at run time"):
        lasting(rows, {"b": InstructionTime(1)})


def test_a_conditional_takes_its_shortest_branch_at_best_and_its_longest_at_worst():
    rows = [
        line("short", computation="one", n=None),
        line("long", "all-reduce", computation="two", n=None),
        line("if", "conditional", called=("one", "two")),
    ]
    costs = {"short": InstructionTime(3), "long": InstructionTime(8, None, True)}
    assert lasting(rows, costs) == (3, 0, 0)
    assert lasting(rows, costs, at_most=True) == (0, 8, 0)


def test_a_computation_that_calls_itself_is_refused():
    with pytest.raises(WarehouseError, match="main calls itself"):
        lasting([line("again", "call", called=("main",))], {})
