"""Chrome JSON with bytes changed, dropped or repeated: what is lost is near and counted."""

from __future__ import annotations

import json

import pytest
from hypothesis import strategies as st

from tests.ingest.chrome_build import ALWAYS, document, event, point
from tests.layers import layered
from xlahouse.capture.errors import TraceFormatError
from xlahouse.ingest.chrome.read import read_chrome

TEXT = document(
    *(event(f"op.{n}", n * 3, 2, tid=n % 3, args={"hlo_op": f"op.{n}", "n": n}) for n in range(40)),
    point("B", 200), point("E", 210), point("C", 220, "c", args={"v": 1}),
)  # fmt: skip


ROWS, EVENTS = 43, {(f"op.{n}", n * 3_000_000) for n in range(40)} | {("op", 200_000_000)}


def survived(raw):
    """(events read, what is said of them: code -> count, names and starts) of a damaged file."""
    read = read_chrome(raw, "f")
    total = 0
    for plane in read.planes:
        adds_up = plane.coverage["rows_written"] + plane.coverage["events_rejected"]
        assert (plane.coverage["events_read"] == adds_up).all()
        total += plane.coverage["events_read"].sum()
    issues = [*read.issues, *(issue for plane in read.planes for issue in plane.issues)]
    said = {issue.code: issue.count for issue in issues if issue.code not in ALWAYS}
    tables = [plane.host_events.select("name", "start_ps").rows() for plane in read.planes]
    return total, said, {row for table in tables for row in table}


def events_of(raw):
    """Events of well-formed text by the standard library; None where it is not well formed."""
    try:
        listed = json.loads(raw.decode())
        return [each for each in listed["traceEvents"] if each.get("ph") not in (None, "M")]
    except (ValueError, KeyError, AttributeError, TypeError):
        return None


def test_the_undamaged_file_says_nothing():
    assert survived(TEXT) == (ROWS, {}, EVENTS)
    assert len(events_of(TEXT)) == ROWS


@pytest.mark.parametrize("at", [39, 40])  # before its "ph", and within
def test_an_event_that_is_damaged_with_the_header_is_counted(at):
    raw = bytearray(TEXT)
    raw[24] = raw[at] = 0
    assert b'"traceEvents"' not in raw[:40]
    total, said, kept = survived(bytes(raw))
    assert (total, len(EVENTS - kept)) == (ROWS, 1)
    assert said


@layered(
    30,
    1500,
    st.lists(
        st.tuples(
            st.integers(0, len(TEXT) - 1),
            st.one_of(st.integers(0, 255), st.sampled_from(list(b'{}[],:"\\ \x00\xff'))),
        ),
        min_size=1,
        max_size=3,
    ),
)
def test_bytes_that_change_cost_the_events_they_are_in_and_each_is_counted(flips):
    raw = bytearray(TEXT)
    for at, byte in flips:
        raw[at] = byte
    found = events_of(bytes(raw))
    total, said, kept = survived(bytes(raw))
    if found is not None:  # changed, but as good as any file
        assert total >= len(found)
        return
    missing = EVENTS - kept
    assert said or len(kept) == len(EVENTS)  # an event whose name changed is another one
    assert len(missing) <= 2 * len(flips)  # a byte between two events may cost both
    assert total >= ROWS - bytes(raw).count(b'"M"')


@layered(40, 1000, st.data())
def test_text_that_goes_or_comes_twice_is_survived_and_said(data):
    raw = bytearray(TEXT)
    at = st.integers(0, len(raw) - 1)
    for _ in range(data.draw(st.integers(1, 3))):
        how = data.draw(st.sampled_from(["cut", "drop", "repeat"]))
        first, second = sorted((data.draw(at) % len(raw), data.draw(at) % len(raw)))
        if how == "cut":
            del raw[max(second, 1) :]
        elif how == "drop":
            del raw[first : min(second, len(raw) - 1)]
        else:
            raw[first:first] = raw[first:second]
    try:
        total, said, kept = survived(bytes(raw))
    except TraceFormatError:
        assert events_of(bytes(raw)) in (None, [])
        return
    found = events_of(bytes(raw))
    if found is not None:
        assert total >= len(found)
    else:
        # Text that is gone between two events leaves none that is damaged, and the header none at all.
        whole = {row for row in EVENTS if f'"name": "{row[0]}", "args"'.encode() in raw}
        # Where the end alone is gone, two events that damage made one are JSON: the last of two names counts.
        ended = (events_of(bytes(raw) + end) for end in (b"}", b"]}"))
        assert said or whole <= kept or any(each and total >= len(each) for each in ended)
