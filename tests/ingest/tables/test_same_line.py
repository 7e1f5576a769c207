"""What shares a line, or a device, without belonging together: launches that overlap, lines of one name,
events that stand for several."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.ingest.build import PlaneBuilder, space
from tests.ingest.chrome_build import document, event, named
from tests.ingest.traces import rows, write
from xlahouse.ingest.events.spans import latest_open, overlap
from xlahouse.ingest.run import ingest_paths


def tpu_plane(number=0):
    core = b"\x28" + bytes([number]) + b"\x30" + bytes([number])
    return PlaneBuilder(f"/device:TPU:{number}", core_details=core)


def add(plane, line, op, start, duration, program=7, **meta):
    told = {"program_id": program} | meta if program else meta
    plane.event(line, f"%{op} = f32[2]{{0}} add(f32[2]{{0}} %x)", start, duration, op, told)


def ingested(tmp_path, *planes):
    ingest_paths([write(tmp_path / "h.xplane.pb", space(*planes))], str(tmp_path / "wh"))
    return tmp_path / "wh"


def test_ops_of_overlapping_launches_are_of_the_launch_of_their_program(tmp_path):
    """7 is open in [1000, 10000), 8 in [3000, 5000) and [9500, 12000), which outlives 7."""
    plane = tpu_plane()
    modules, ops = plane.line("XLA Modules"), plane.line("XLA Ops")
    plane.event(modules, "jit_f(7)", 1000, 9000)
    plane.event(modules, "jit_g(8)", 3000, 2000)
    plane.event(modules, "jit_g(8)", 9500, 2500)
    add(plane, ops, "before", 500, 100)
    add(plane, ops, "outer", 1500, 100)
    add(plane, ops, "inner", 3500, 100, program=8)
    add(plane, ops, "outer_within", 4000, 100)  # while the launch of 8 is open
    add(plane, ops, "untold", 4500, 100, program=None)  # of any: the latest one
    add(plane, ops, "outer_after", 6000, 100)  # when the launch of 8 has ended
    add(plane, ops, "outer_at_last", 9900, 100)
    add(plane, ops, "third", 11000, 100, program=8)
    add(plane, ops, "foreign", 6500, 100, program=9)  # of none that is open: the latest one
    wh = ingested(tmp_path, plane.plane)
    assert dict(rows(wh, "ops").select("op", "launch").rows()) == {
        "before": None,
        "outer": 0,
        "inner": 1,
        "outer_within": 0,
        "untold": 1,
        "outer_after": 0,
        "outer_at_last": 0,
        "third": 2,
        "foreign": 0,
    }
    (found,) = rows(wh, "issues").filter(pl.col("code") == "op_outside_launch")["count"]
    assert found == 1


def test_the_latest_open_span_is_found_through_those_that_ended():
    start, end = np.array([0, 10, 20, 30, 40]), np.array([100, 60, 25, 35, 45])
    when = np.array([-1, 0, 22, 27, 33, 37, 42, 59, 60, 99, 100])
    expected = [-1, 0, 2, 1, 3, 1, 4, 1, 0, 0, -1]
    assert latest_open(start, end, when).tolist() == expected
    assert latest_open(start[:0], end[:0], when).tolist() == [-1] * len(when)


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [([], [], False), ([0, 5], [5, 9], False), ([0, 2, 6], [9, 3, 7], True)],
)
def test_spans_overlap_where_one_begins_before_any_earlier_one_ends(start, end, found):
    assert overlap(np.array(start, np.int64), np.array(end, np.int64)) is found


def test_lines_of_one_name_nest_by_themselves(tmp_path):
    """b starts while a runs, but on another line: both have all of their time for themselves."""
    plane = tpu_plane()
    plane.event(plane.line("XLA Modules"), "jit_f(7)", 1000, 9000)
    first, second = plane.line("XLA Ops"), plane.line("XLA Ops")
    add(plane, first, "a", 1500, 1000)
    add(plane, second, "b", 2000, 1000)
    add(plane, second, "within_b", 2100, 300)
    wh = ingested(tmp_path, plane.plane)
    assert rows(wh, "ops").select("op", "line", "self_ps").rows() == [
        ("a", "XLA Ops", 1000),
        ("b", "XLA Ops", 700),
        ("within_b", "XLA Ops", 300),
    ]


def test_streams_of_one_name_nest_by_themselves(tmp_path):
    plane = PlaneBuilder("/device:GPU:0")
    first, second = plane.line("Stream"), plane.line("Stream")
    plane.event(first, "k1", 100, 100)
    plane.event(second, "k2", 150, 100)
    wh = ingested(tmp_path, plane.plane)
    assert rows(wh, "ops").select("op", "self_ps").rows() == [("k1", 100), ("k2", 100)]


def test_lines_of_one_name_in_a_chrome_trace_nest_by_themselves(tmp_path):
    raw = document(
        *named(3, "/device:TPU:0", t1="XLA Modules", t2="XLA Ops", t3="XLA Ops"),
        event("jit_f(7)", 1, 9, pid=3, tid=1),
        event("a", 2, 2, pid=3, tid=2),
        event("b", 3, 2, pid=3, tid=3),
        event("c", 6, 1, pid=3, tid=3),
    )
    path = write(tmp_path / "h.trace.json", raw)
    ingest_paths([path], str(tmp_path / "wh"))
    found = rows(tmp_path / "wh", "ops").select("op", "self_ps").rows()
    assert found == [("a", 2_000_000), ("b", 2_000_000), ("c", 1_000_000)]


def aggregated(plane, line, name, duration, occurrences):
    """One event for several: profilers give their number in the place of a time."""
    number = plane.metadata(name)
    line.events.add(metadata_id=number, duration_ps=duration, num_occurrences=occurrences)


@pytest.mark.parametrize(
    ("plane", "line", "table"),
    [
        ("/device:TPU:0", "XLA Ops", "ops"),
        ("/device:TPU:0", "XLA Modules", "launches"),
        ("/device:TPU:0", "unheard of", "host_events"),
        ("/device:GPU:0", "Stream #1", "ops"),
        ("/host:CPU", "python", "host_events"),
        ("/unknown", "line", "host_events"),
    ],
)
def test_events_that_stand_for_several_have_no_time_and_are_rejected(tmp_path, plane, line, table):
    built = PlaneBuilder(plane)
    of_line = built.line(line)
    built.event(of_line, "first", 0, 10)  # starts when the profile does, and counts
    aggregated(built, of_line, "several", 5000, 5)
    built.event(of_line, "later", 20, 10)
    wh = ingested(tmp_path, built.plane)
    assert rows(wh, table)["start_ps"].to_list() == [0, 20]
    assert rows(wh, "coverage").select(
        pl.col("events_read", "rows_written", "events_rejected").sum()
    ).rows() == [(3, 2, 1)]
    (issue,) = rows(wh, "issues").filter(pl.col("code") == "bad_time").to_dicts()
    assert (issue["severity"], issue["count"]) == ("warning", 1)
