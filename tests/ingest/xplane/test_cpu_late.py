"""Late starts on virtual devices: whose they are, by their time, their collectives and their descent.

The truth of each case is its story: which program was started for which device of which call.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.ingest.xplane.test_cpu import WAIT, Host, launch
from xlahouse.ingest.xplane.cpu.late import Lacking, LateStarts, deal

PAIRS = {"a": {0, 1}, "b": {2, 3}}


def dealt(starts, calls, known=()):
    """(execution, place) of each start, and how many are unsure.

    starts: (time, row of the start that it descends from or -1, places that its collectives name or None).
    calls: execution -> (time, places). known: (execution, place) of the first rows, which were not late.
    """
    rows = range(len(known), len(known) + len(starts))
    slots = np.array([*known, *[(-1, -1)] * len(starts)], np.int64).reshape(-1, 2)
    execution, ordinal = slots[:, 0].copy(), slots[:, 1].copy()
    before = [0] * len(known)
    late = LateStarts(
        rows=list(rows),
        start_ps=np.array([*before, *(start[0] for start in starts)]),
        origin=np.array([*(-1 for _ in known), *(start[1] for start in starts)]),
        meetings={row: s[2] for row, s in zip(rows, starts, strict=True) if s[2] is not None},
    )
    lacking = [Lacking(number, *call) for number, call in calls.items()]
    unsure = deal(late, lacking, execution, ordinal)
    return [(int(execution[row]), int(ordinal[row])) for row in rows], unsure


def test_starts_for_which_one_input_waited_go_by_their_call_and_their_pairs():
    """All four devices waited for one input, so all descend from row 0, at place 2, in both calls."""
    starts = [(11, 0, PAIRS[pair]) for pair in "abab"] + [(21, 0, PAIRS[pair]) for pair in "bbaa"]
    found, unsure = dealt(starts, {1: (10, [0, 1, 2, 3]), 2: (20, [0, 1, 2, 3])}, known=[(0, 2)])
    assert [number for number, _ in found] == [1] * 4 + [2] * 4
    for (_, place), (_, _, pair) in zip(found, starts, strict=True):
        assert place in pair
    assert len(set(found)) == 8
    assert unsure == 8  # which device of a pair a start is, no evidence says


def test_of_calls_in_flight_at_once_starts_that_meet_the_same_devices_go_in_order():
    """The pair b is an execution ahead of the pair a."""
    starts = [(time, -1, PAIRS[pair]) for time, pair in zip(range(12, 20), "bbbbaaaa", strict=True)]
    found, _ = dealt(starts, {1: (10, [0, 1, 2, 3]), 2: (11, [0, 1, 2, 3])})
    assert [number for number, _ in found] == [1, 1, 2, 2, 1, 1, 2, 2]


def test_a_start_that_descends_from_its_own_device_alone_waits_for_its_call():
    """Call 1 lacks device 3 and call 2 device 0, whose start comes first; nothing meets."""
    known = [(0, 0), (0, 3)]
    found, unsure = dealt([(12, 0, None), (13, 1, None)], {1: (10, [3]), 2: (11, [0])}, known)
    assert (found, unsure) == ([(2, 0), (1, 3)], 0)


def test_a_start_is_never_of_a_call_after_it():
    found, unsure = dealt([(5, -1, None), (15, -1, None)], {1: (10, [0])})
    assert (found, unsure) == ([(-1, -1), (1, 0)], 1)


def test_a_start_whose_collectives_leave_one_place_is_sure():
    """Along two axes: {0, 1} and {0, 2} leave 0. The other start's place is what remains of its pair."""
    found, unsure = dealt([(11, -1, {0, 1}), (12, -1, {0})], {1: (10, [0, 1])})
    assert (found, unsure) == ([(1, 1), (1, 0)], 0)


@pytest.mark.parametrize(("members", "unsure"), [((1, 0), False), ((5, 4), True)])
def test_collectives_name_places_unless_they_number_devices_otherwise(members, unsure):
    """The second program starts late on both devices, the second device's first.

    In the other case the process has devices 4 and 5: that is not evidence of places 0 and 1.
    """
    host = Host()
    launch(host, 100, (1, 2, 3, 4, 5), [("pool-c", 150), ("pool-a", 160)])
    launch(host, 200, (11, 12, 13, 14, 15), [("pool-c", 290), ("pool-a", 295)], ready=False)
    for thread, start in (("pool-c", 151), ("pool-a", 161)):
        host.op(thread, "dot", start, 5, start)
        host.event(thread, WAIT, start + 6, 20)
    host.record("pool-c", 180, 14)
    host.record("pool-c", 181, 15)
    for thread, start, member in zip(("pool-c", "pool-a"), (291, 296), members, strict=True):
        host.op(thread, "dot", start, 5, start)
        key = f"all reduce RendezvousKey{{run_id=RunId: 0, global_devices=[{member}], op_id=1}}"
        host.event(thread, "Rendezvous", start + 1, 1, name=key, id=0)
        host.event(thread, WAIT, start + 6, 20)
    plane = host.read()
    late = plane.ops.sort("start_ps")["device_id"].to_list()[2:]
    assert late == ([0, 1] if unsure else [1, 0])
    assert ("device_ambiguous" in {issue.code for issue in plane.issues}) == unsure
