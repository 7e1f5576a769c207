"""Clocks of different files: expected offsets follow from how each run is made, never from our output."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from xlahouse.ingest.clocks.clocks import (
    ALIGNED,
    AMBIGUOUS,
    REFERENCE,
    UNCONNECTED,
    Meeting,
    find_clocks,
    meetings,
)
from xlahouse.ingest.clocks.fit import fit_line
from xlahouse.ingest.clocks.match import Side, match_clocks
from xlahouse.ingest.events.time_move import TimeMove

US = 1_000_000
LAUNCHES = {
    "launch": pl.Int64,
    "program_id": pl.UInt64,
    "start_ps": pl.Int64,
    "phase": pl.String,
    "request": pl.Int64,
    "step": pl.Int64,
}


def side(starts_us, layers=1, gap_us=100, length_us=60, drift=0.0, marked=None, sequence=None):
    """A device whose launches begin at `starts_us`, each with `layers` all-reduces; times of its clock.

    marked: launch -> (phase, request, step). sequence: number of each collective.
    """
    launches, transfers = [], []
    for launch, start in enumerate(starts_us):
        phase, request, step = (marked or {}).get(launch, ("step", None, launch))
        at = round(start * US * (1 + drift))
        launches.append((launch, 7, at, phase, request, step))
        for layer in range(layers):
            begins = at + (layer + 1) * gap_us * US
            number = None if sequence is None else sequence[len(transfers)]
            transfers.append((launch, 7, "ar", number, begins, begins + length_us * US))
    schema = {
        "launch": pl.Int64,
        "program_id": pl.UInt64,
        "op": pl.String,
        "sequence": pl.Int64,
        "start_ps": pl.Int64,
        "end_ps": pl.Int64,
    }
    return Side(
        pl.DataFrame(launches, LAUNCHES, orient="row"),
        pl.DataFrame(transfers, schema, orient="row"),
    )


def every(period, count, start=1000.0):
    return [start + period * k for k in range(count)]


@pytest.mark.parametrize(
    ("period", "count", "offset", "known"),
    [
        (10_000, 6, 100, True),  # far less than a period: the shift of none is the nearest
        (400, 20, 30, True),
        (
            1_000,
            6,
            5_000.3,
            False,
        ),  # a shift of three periods pairs half of the launches, and is nearer
        (1_000, 100, 1_000.3, False),  # about one period: 99 of 100 launches pair at 0.3
        (300, 100, 100, True),  # a third of a period
        (300, 100, 160, False),  # more than half: the neighbouring shift is nearer
        (300, 100, 145, False),  # nearer by less than a tenth of the period
    ],
)
def test_without_names_periodic_launches_allow_small_offsets_alone(period, count, offset, known):
    ours, theirs = side(every(period, count)), side(every(period, count, 1000 + offset))
    match = match_clocks(ours, theirs)
    if not known:
        assert match.fit is None
        return
    assert match.evidence == "time"
    assert match.fit.move == TimeMove(-round(offset * US))
    assert (match.fit.spread_ps, match.fit.pairs) == (0, count)


def test_uneven_launches_allow_any_offset():
    starts = [1000, 1400, 2500, 2900, 4700, 5200, 7900]
    match = match_clocks(side(starts), side([start + 50_000 for start in starts[2:]]))
    assert match.fit.move == TimeMove(-50_000 * US)
    assert match.fit.pairs == 5  # two launches of the first clock have no partner


def test_markers_decide_where_time_cannot():
    marked = {k: ("decode", 0, k) for k in range(6)}
    late = {k: ("decode", 0, k + 1) for k in range(5)}
    match = match_clocks(
        side(every(1000, 6), marked=marked), side(every(1000, 5, 9000.5), marked=late)
    )
    # Launch k of the second is launch k + 1 of the first: 9000.5 - 2000.
    assert (match.evidence, match.fit.move) == ("step marker", TimeMove(-7000_500_000))
    assert match.fit.pairs == 5


def test_launches_between_named_ones_are_matched_in_order():
    marked = {0: ("prefill", 0, 0), 5: ("prefill", 1, 0)}
    match = match_clocks(
        side(every(1000, 6), marked=marked), side(every(1000, 6, 4000), marked=marked)
    )
    assert (match.fit.move, match.fit.pairs) == (TimeMove(-3000 * US), 6)


def test_a_layer_that_one_side_lacks_is_no_evidence():
    ours, theirs = side(every(10_000, 6), layers=8), side(every(10_000, 6, 1100), layers=8)
    cut = theirs.transfers.slice(3)  # profiling began in the first launch: its counts disagree
    match = match_clocks(ours, Side(theirs.launches, cut))
    assert (match.fit.move, match.fit.pairs) == (TimeMove(-100 * US), 40)


def test_numbered_collectives_need_no_time():
    starts = every(1000, 4)
    ours, theirs = side(starts, sequence=[17, 18, 19, 20]), side(starts, sequence=[18, 19, 20, 21])
    match = match_clocks(ours, theirs)
    assert (match.evidence, match.fit.pairs) == ("sequence number", 3)
    assert match.fit.move == TimeMove(1000 * US)


def test_drift_is_a_line():
    starts = [1000, 1400, 2500, 2900, 4700, 5200, 7900, 9100, 9900]
    ours, theirs = side(starts, length_us=0), side(starts, drift=50e-6, length_us=0)
    fit = match_clocks(ours, theirs).fit
    assert fit.drift == pytest.approx(50e-6, rel=1e-3)
    reference = ours.transfers["end_ps"].to_numpy()
    moved = fit.move.times(theirs.transfers["end_ps"].to_numpy())
    assert np.abs(moved - reference).max() < 20_000  # ps; 495,000 with no drift subtracted


def test_a_drift_within_the_spread_is_none():
    ends = np.arange(9) * 1000 * US
    noise = np.array([0, 3, -2, 1, 0, -1, 2, -3, 1]) * 1000
    fit = fit_line(ends, 5 * US + noise)
    assert fit.drift == 0.0
    assert fit.offset_ps == 5 * US  # the median of the noise is 0
    assert fit.spread_ps == 6000  # from the first to the ninth of nine values


def test_moves_join_and_go_back():
    first, then = TimeMove(-5 * US, 1e-5), TimeMove(3 * US, 2e-5)
    times = np.array([0, 10**12, 7 * 10**12])
    both = then.times(first.times(times))
    assert np.abs(first.then(then).times(times) - both).max() <= 2
    assert np.abs(first.reversed.times(first.times(times)) - times).max() <= 2


def _groups(rows: list[tuple[int, str, int, int]]) -> pl.DataFrame:
    schema = {"program_id": pl.UInt64, "op": pl.String, "group_index": pl.Int64}
    return pl.DataFrame(rows, {**schema, "logical_id": pl.Int64}, orient="row")


def test_two_devices_of_each_pair_of_files_are_compared():
    groups = _groups(
        [
            (7, "ar", 0, 0),
            (7, "ar", 0, 4),
            (7, "ar", 1, 1),
            (7, "ar", 1, 5),
            (7, "ag", 0, 1),
            (7, "ag", 0, 5),
            (7, "cp", 0, 0),
            (7, "cp", 0, 8),
        ]
    )
    ops = pl.DataFrame(
        [(7, "ar", "all-reduce"), (7, "ag", "all-gather"), (7, "cp", "collective-permute")],
        {"program_id": pl.UInt64, "op": pl.String, "kind": pl.String},
        orient="row",
    )
    file_of = {0: 0, 1: 0, 4: 1, 5: 1, 8: 2}
    # 1 and 5 share two groups, 0 and 4 one; a permute does not end together, so file 2 meets no other.
    assert meetings(groups, ops, file_of, {}) == [Meeting(0, 1, 1, 5)]


def test_devices_that_lost_launches_are_compared_last():
    members = [(7, "ar", device % 2, device) for device in range(4)]
    ops = pl.DataFrame({"program_id": [7], "op": ["ar"], "kind": ["all-reduce"]}).cast(
        {"program_id": pl.UInt64}
    )
    file_of = {0: 0, 1: 0, 2: 1, 3: 1}
    found = {
        lost: meetings(_groups(members), ops, file_of, {**dict.fromkeys(file_of, 9), lost: 7})
        for lost in file_of
    }
    # 0 and 2 share a group, 1 and 3 another.
    assert found[0] == found[2] == [Meeting(0, 1, 1, 3)]
    assert found[1] == found[3] == [Meeting(0, 1, 0, 2)]


def test_clocks_are_chained_and_the_rest_stand_alone():
    met = [Meeting(0, 1, 0, 1), Meeting(1, 2, 1, 2), Meeting(2, 4, 2, 4)]
    starts = [1000, 1400, 2500, 2900, 4700]
    made = {
        0: side(starts),
        1: side([start + 10 for start in starts]),
        2: side([start + 25 for start in starts]),
        4: side(every(1000, 6, 31_000.0)),  # other launches altogether
    }
    found = find_clocks(
        5, met, lambda asked: [(made[each.first], made[each.second]) for each in asked], given={}
    )
    assert [clock.state for clock in found] == [
        REFERENCE,
        ALIGNED,
        ALIGNED,
        UNCONNECTED,
        AMBIGUOUS,
    ]
    assert [clock.move for clock in found[:3]] == [
        TimeMove(),
        TimeMove(-10 * US),
        TimeMove(-25 * US),
    ]
    assert [clock.component for clock in found] == [0, 0, 0, 3, 4]


def test_a_stated_offset_wins():
    met = [Meeting(0, 1, 0, 1)]
    ours, theirs = side(every(1000, 6)), side(every(1000, 6, 6000.3))
    found = find_clocks(
        2, met, lambda asked: [(ours, theirs) for _ in asked], given={1: 5_000_300_000}
    )
    assert (found[1].state, found[1].evidence) == (ALIGNED, "setting")
    assert found[1].move == TimeMove(-5_000_300_000)
