"""What a host did while a device had no launch, against hand-worked and brute-force answers."""

from random import Random

import polars as pl
import pytest

from xlahouse.ingest.events import frames
from xlahouse.ingest.nesting.host_gaps import EVENTS, WantedGaps, host_gaps, joined
from xlahouse.ingest.nesting.launch_gaps import GAPS, launch_gaps

US = 1_000_000


def launches(*rows):
    """launch, start, duration (us) of each row by device 0, of request 0 on thread t."""
    columns = ["device_id", "launch", "start_ps", "duration_ps", "request"]
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    return frame.with_columns(
        pl.col("start_ps", "duration_ps").mul(US).cast(pl.Int64),
        enqueue_thread=pl.lit("t"),
        clock=pl.lit(0, pl.Int64),
    )


def markers(*rows):
    columns = ["host", "phase", "request", "start_ps", "duration_ps"]
    frame = pl.DataFrame(rows, schema=columns, orient="row")
    scaled = frame.with_columns(pl.col("start_ps", "duration_ps") * US)
    return frames.conform(scaled, frames.MARKERS)


NO_MARKERS = frames.empty(frames.MARKERS)


def found(gaps):
    us = [pl.col(name) / US for name in ("start_ps", "duration_ps")]
    return gaps.select("device_id", "launch", *us).rows()


def test_a_gap_is_longer_than_10_us_and_no_launch_is_open_in_it():
    """Launch 1 follows after 10 us, launch 2 runs within it, and launch 3 follows after 10 us and a ps."""
    some = launches((0, 0, 5, 5, 0), (0, 1, 20, 80, 0), (0, 2, 30, 10, 0), (0, 3, 110.000001, 9, 0))
    assert found(launch_gaps(some, NO_MARKERS, {})) == [(0, 3, 100.0, 10.000001)]


def test_devices_have_gaps_of_their_own():
    some = launches((0, 0, 0, 5, 0), (1, 0, 7, 5, 0), (0, 1, 50, 5, 0), (1, 1, 40, 5, 0))
    assert found(launch_gaps(some, NO_MARKERS, {})) == [(0, 1, 5.0, 45.0), (1, 1, 12.0, 28.0)]


def test_time_without_an_open_request_is_in_no_gap():
    """Request 0 is open from 0 to 130, its marker's end; request 1 from 400 on, its marker's start. The host
    fetches from 110 to 130, and prepares from 400 to 450."""
    some = launches((0, 0, 10, 100, 0), (0, 1, 450, 100, 1))
    marks = markers(("h", "prefill", 0, 0, 130), ("h", "prefill", 1, 400, 20))
    gaps = launch_gaps(some, marks, {"h": 0})
    assert found(gaps) == [(0, 1, 110.0, 20.0), (0, 1, 400.0, 50.0)]


def test_a_request_is_open_until_its_last_launch_ends_on_any_device():
    """Device 1 works until 200 for request 0, whose marker ends at 50: device 0 waits from 110 to 200."""
    some = launches((0, 0, 10, 100, 0), (1, 0, 10, 190, 0), (0, 1, 450, 1, 1), (1, 1, 450, 1, 1))
    marks = markers(("h", "decode", 0, 0, 50), ("h", "decode", 1, 445, 20))
    assert found(launch_gaps(some, marks, {"h": 0})) == [(0, 1, 110.0, 90.0)]


def test_a_marker_of_a_whole_request_counts_by_itself():
    """Request 0 is marked from 0 to 50 and, around warm-ups, from 300 to 320: nothing is open between."""
    some = launches((0, 0, 10, 30, 0), (0, 1, 450, 1, 1))
    marks = markers(
        ("h", "request", 0, 0, 50), ("h", "request", 0, 300, 20), ("h", "request", 1, 440, 20)
    )
    assert found(launch_gaps(some, marks, {"h": 0})) == [(0, 1, 300.0, 20.0)]


def test_markers_on_clocks_that_cannot_be_compared_say_nothing():
    some = launches((0, 0, 10, 100, 0), (0, 1, 450, 100, 1))
    marks = markers(("i", "prefill", 0, 0, 130), ("i", "prefill", 1, 400, 20))
    assert found(launch_gaps(some, marks, {"i": 1})) == [(0, 1, 110.0, 340.0)]


def gap(device, launch, start, duration, thread="t", file=0):
    return (device, launch, start, duration, thread, file)


def answer(gaps, events):
    """launch, name, level, events, overlap, self of what host_gaps gives."""
    given = pl.DataFrame(gaps, schema=GAPS | {"file": pl.Int64}, orient="row")
    did = pl.DataFrame(events, schema=EVENTS, orient="row")
    rows = host_gaps(given, did)
    names = ("device_id", "launch", "name", "level", "events", "overlap_ps", "self_ps")
    return rows.select(names).rows()


def test_each_instant_of_a_gap_belongs_to_the_innermost_event():
    """Gap [100, 200). a is open to 150, b in it from 110 to 130, c in b from 120 to 125; d comes after."""
    events = [
        (0, "t", "a", 50, 150), (0, "t", "b", 110, 130), (0, "t", "c", 120, 125), (0, "t", "d", 200, 300),
        (0, "u", "e", 100, 200), (1, "t", "f", 100, 200), (0, "t", "g", 160, 160),
    ]  # fmt: skip
    assert answer([gap(0, 1, 100, 100)], events) == [
        (0, 1, "c", 0, 1, 5, 5),
        (0, 1, "b", 1, 1, 20, 15),
        (0, 1, "a", 2, 1, 50, 30),
        (0, 1, None, None, 0, None, 50),
    ]


def test_an_event_within_one_of_its_name_is_counted_but_open_once():
    """f calls itself: open from 0 to 100, once more from 20 to 80, and again from 30 to 40."""
    events = [(0, "t", "f", 0, 100), (0, "t", "f", 20, 80), (0, "t", "f", 30, 40)]
    assert answer([gap(0, 1, 0, 100)], events) == [(0, 1, "f", 0, 3, 100, 100)]


def test_an_event_more_than_8_levels_out_is_left_out_and_its_time_has_no_name():
    """Ten events, one in the other, each 1 longer at the end: the outer two have 1 each."""
    events = [(0, "t", f"e{level}", level, 100 - level) for level in range(10)]
    rows = answer([gap(0, 1, 0, 100)], events)
    assert [(row[2], row[3], row[6]) for row in rows] == [
        *((f"e{9 - level}", level, 2 if level else 82) for level in range(8)),
        (None, None, 4),
    ]


def test_a_gap_has_its_own_thread_and_one_without_is_unknown():
    events = [(0, "t", "a", 0, 100), (0, "u", "b", 0, 100), (1, "t", "c", 0, 100)]
    gaps = [
        gap(0, 1, 10, 20), gap(1, 1, 10, 20, "u"), gap(2, 1, 10, 20, file=1), gap(3, 1, 10, 20, None),
        gap(4, 1, 10, 20, "v"),
    ]  # fmt: skip
    assert answer(gaps, events) == [
        (0, 1, "a", 0, 1, 20, 20),
        (1, 1, "b", 0, 1, 20, 20),
        (2, 1, "c", 0, 1, 20, 20),
        (3, 1, None, None, 0, None, 20),
        (4, 1, None, None, 0, None, 20),
    ]


def test_without_gaps_or_events_there_are_no_rows():
    assert answer([], [(0, "t", "a", 0, 100)]) == []
    assert joined([]).is_empty()


@pytest.mark.parametrize("as_dictionary", [True, False])
def test_events_are_kept_that_are_of_the_thread_and_meet_a_gap(as_dictionary):
    """A gap [100, 200): an event that ends at 100, or starts at 200, does not meet it; one of no length does
    not either at its start."""
    gaps = pl.DataFrame([gap(0, 1, 100, 100)], schema=GAPS | {"file": pl.Int64}, orient="row")
    rows = [("t", "a", 0, 100), ("t", "b", 0, 101), ("u", "c", 0, 300), ("t", "d", 199, 9),
            ("t", "e", 200, 9), (None, "f", 0, 300)]  # fmt: skip
    piece = pl.DataFrame(rows, schema=["thread", "name", "start_ps", "duration_ps"], orient="row")
    if as_dictionary:
        piece = piece.with_columns(pl.col("thread", "name").cast(pl.Categorical))
    kept = WantedGaps.of(gaps)[0].events(piece.to_arrow())
    assert kept.rows() == [(0, "t", "b", 0, 101), (0, "t", "d", 199, 208)]


def drawn_events(rng, begin, end, depth=0):
    """Events that nest, as a thread has them."""
    at = begin
    while at < end and len(range(begin, end)) > 2:
        start = rng.randint(at, end)
        until = rng.randint(start, end)
        if until == start:
            break
        yield (0, "t", rng.choice("abc"), start, until)
        if depth < 12 and rng.random() < 0.8:
            yield from drawn_events(rng, start, until, depth + 1)
        at = until + rng.randint(0, 3)


def by_instants(gaps, events):
    """(gap, name) -> self time, by looking at each instant; names 8 levels out are None."""
    own = {}
    for device, launch, start, duration, *_ in gaps:
        inside = [e for e in events if e[3] < start + duration and e[4] > start]
        for t in range(start, start + duration):
            opened = [e for e in inside if e[3] <= t < e[4]]
            name = None
            if opened:
                last = max(opened, key=inside.index)
                below = [e for e in inside if last[3] <= e[3] and e[4] <= last[4] and e is not last]
                name = last[2] if depth_of(last, below) < 8 else None
            key = (device, launch, name)
            own[key] = own.get(key, 0) + 1
    return own


def depth_of(event, below):
    """How many of the events below are nested in it, one in the other."""
    deepest = 0
    for each in below:
        rest = below[below.index(each) + 1 :]
        inside = [e for e in rest if each[3] <= e[3] and e[4] <= each[4]]
        deepest = max(deepest, 1 + depth_of(each, inside))
    return deepest


@pytest.mark.parametrize("seed", range(20))
def test_self_times_are_those_of_brute_force(seed):
    rng = Random(seed)
    events = list(drawn_events(rng, 0, 120))[:60]
    gaps = [
        gap(d, n, 40 * n + rng.randint(0, 9), rng.randint(1, 30)) for d in (0, 1) for n in (0, 1)
    ]
    rows = answer(gaps, events)
    assert {(d, n, name): own for d, n, name, *_, own in rows if own} == by_instants(gaps, events)
