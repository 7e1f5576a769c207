"""Virtual devices: identity from the thread pool's causal chain, on traces of a few events.

Times are nanoseconds here, as CPU traces have them; the builder takes picoseconds.
"""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest.build import PlaneBuilder, space
from tests.ingest.traces import host_event_rows, write
from xlahouse.ingest.hlo.file_events import FileEvents
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.xplane import decoded_lines
from xlahouse.ingest.xplane.cpu.events import NO_CLOSURE, Marks
from xlahouse.ingest.xplane.cpu.regions import _announcements, _latest_span, _spans_around
from xlahouse.ingest.xplane.read import read_xplane

LISTENER = "ThreadpoolListener::"
WAIT = "ThunkExecutor::Execute (wait for completion)"


class Host:
    """A /host:CPU plane whose threads are lines."""

    def __init__(self):
        self.built = PlaneBuilder("/host:CPU")
        self.lines = {}

    def event(self, thread, title, start, duration=0, /, **stats):
        if thread not in self.lines:
            self.lines[thread] = self.built.line(thread)
        self.built.event(self.lines[thread], title, start * 1000, duration * 1000, **stats)

    def record(self, thread, at, number):
        self.event(thread, LISTENER + "Record", at, _pt=15, _p=number)

    def region(self, thread, start, stop, number):
        self.event(thread, LISTENER + "StartRegion", start, _ct=15, _c=number)
        self.event(thread, LISTENER + "StopRegion", stop)

    def op(self, thread, name, start, duration, key, end=None, program=5, **stats):
        self.event(
            thread,
            name,
            start,
            duration,
            hlo_op=name,
            hlo_module="m",
            program_id=program,
            _pt=0,
            _p=key,
            **stats,
        )
        if end is not None:
            self.event(thread, f"end: {name}", end, 0, _ct=0, _c=key)

    def read(self):
        (planes,) = [read_xplane(space(self.built.plane), "h.xplane.pb").planes]
        return planes[0]


def launch(host, at, numbers, runs, ready=True):
    """An execution on two devices: enqueued by `python` at `at`, started by helpers on the pool.

    numbers: five closure numbers; runs: for each device (thread, start of its closure).
    """
    outer, *helpers, first, second = numbers
    host.record("python", at, outer)
    host.region("dispatch", at + 10, at + 90, outer)
    host.event("dispatch", "PjRtCpuExecutable::Execute", at + 20, 60)
    host.record("dispatch", at + 21, helpers[0])
    host.record("dispatch", at + 22, helpers[1])
    # the second device's helper runs first: order of running must not matter
    for helper, thread, when, closure in (
        (helpers[1], "pool-b", at + 30, second),
        (helpers[0], "pool-a", at + 40, first),
    ):
        host.region(thread, when, when + 8, helper)
        host.event(thread, "PjRtCpuExecutable::ExecuteHelper", when + 1, 6)
        if ready:
            host.record(thread, when + 2, closure)
    for closure, (thread, start) in zip((first, second), runs, strict=True):
        host.region(thread, start, start + 40, closure)


def run_on_two(host, first=None, second=None):
    """An execution whose first place runs at 151, whose second one at 161."""
    launch(host, 100, (1, 2, 3, 4, 5), [("pool-c", 150), ("pool-a", 160)])
    host.op("pool-c", "dot", 151, 5, 10, **first or {})
    host.event("pool-c", WAIT, 157, 20)
    host.op("pool-a", "dot", 161, 5, 20, **second or {})
    host.event("pool-a", WAIT, 167, 20)


def seen_in_part(host, announced, helper):
    """An execution of which one helper alone is in the trace, whose op runs at 341.

    announced: time and number of each closure that its Execute announces. helper: the number of that one.
    """
    host.record("python", 300, 21)
    host.region("dispatch", 310, 390, 21)
    host.event("dispatch", "PjRtCpuExecutable::Execute", 320, 60)
    for at, number in announced:
        host.record("dispatch", at, number)
    host.region("pool-b", 330, 338, helper)
    host.event("pool-b", "PjRtCpuExecutable::ExecuteHelper", 331, 6)
    host.record("pool-b", 332, 24)
    host.region("pool-d", 340, 380, 24)
    host.op("pool-d", "dot", 341, 5, 40)
    host.event("pool-d", WAIT, 347, 20)


def placed(plane):
    return sorted(
        plane.ops.select("device_id", "launch_key", "op", "start_ps", "duration_ps").rows()
    )


def test_ops_follow_the_closures_of_their_device():
    host = Host()
    run_on_two(host)
    # device 0 goes on in a closure of a closure, on a thread that device 1 used before
    host.record("pool-c", 156, 6)
    host.region("pool-b", 170, 180, 6)
    host.op("pool-b", "add", 171, 2, 30, end=178)
    plane = host.read()
    (key,) = plane.ops["launch_key"].unique()
    assert placed(plane) == [
        (0, key, "add", 171_000, 7_000),  # ends where its `end:` event stands
        (0, key, "dot", 151_000, 5_000),
        (1, key, "dot", 161_000, 5_000),
    ]
    assert [(d.device_id, d.inferred) for d in plane.devices] == [(0, True), (1, True)]
    assert plane.launches.sort("device_id").select(
        "start_ps", "duration_ps", "enqueue_ps"
    ).rows() == [
        (151_000, 27_000, 100_000),
        (161_000, 5_000, 100_000),
    ]


def test_the_ordinal_that_newer_traces_tell_wins_over_the_chain():
    """The closures run on the threads of devices 0 and 1; the ops say 6 and 4."""
    host = Host()
    launch(host, 100, (1, 2, 3, 4, 5), [("pool-c", 150), ("pool-a", 160)])
    host.op("pool-c", "dot", 151, 5, 10, device_ordinal=6)
    host.op("pool-a", "dot", 161, 5, 20, device_ordinal=4)
    plane = host.read()
    assert [row[0] for row in placed(plane)] == [4, 6]
    assert sorted(device.device_id for device in plane.devices) == [4, 6]
    assert plane.launches["device_id"].sort().to_list() == [4, 6]


@pytest.mark.parametrize("shift", [0, (1 << 64) - 9])
def test_closures_and_ends_go_by_ids_of_64_bits(shift):
    host = Host()
    launch(host, 100, [shift + n for n in (1, 2, 3, 4, 5)], [("pool-c", 150), ("pool-a", 160)])
    host.op("pool-c", "dot", 151, 5, shift + 6, end=170)
    host.op("pool-a", "dot", 161, 5, shift + 7)
    plane = host.read()
    (key,) = plane.ops["launch_key"].unique()
    assert placed(plane) == [(0, key, "dot", 151_000, 19_000), (1, key, "dot", 161_000, 5_000)]
    assert plane.launches["enqueue_ps"].to_list() == [100_000] * 2


def test_a_program_that_starts_late_goes_to_the_execution_that_lacks_one():
    host = Host()
    launch(host, 100, (1, 2, 3, 4, 5), [("pool-c", 150), ("pool-a", 160)])
    launch(host, 200, (11, 12, 13, 14, 15), [("pool-c", 290), ("pool-a", 295)], ready=False)
    for thread, start, key in (("pool-c", 151, 10), ("pool-a", 161, 20)):
        host.op(thread, "dot", start, 5, key)
        host.event(thread, WAIT, start + 6, 20)
    # each device's first program makes its second one ready
    host.record("pool-c", 180, 14)
    host.record("pool-a", 190, 15)
    for thread, start, key in (("pool-c", 291, 40), ("pool-a", 296, 50)):
        host.op(thread, "dot", start, 5, key)
        host.event(thread, WAIT, start + 6, 20)
    plane = host.read()
    by_launch = (
        plane.ops.sort("start_ps").group_by("launch_key", maintain_order=True).agg("device_id")
    )
    assert by_launch["device_id"].to_list() == [[0, 1], [0, 1]]
    assert plane.launches.sort("start_ps")["enqueue_ps"].to_list() == [100_000] * 2 + [200_000] * 2
    assert "device_ambiguous" not in {issue.code for issue in plane.issues}


def test_one_device_runs_inline():
    host = Host()
    host.record("python", 10, 1)
    host.region("dispatch", 20, 90, 1)
    host.event("dispatch", "PjRtCpuExecutable::Execute", 30, 50)
    host.event("dispatch", "PjRtCpuExecutable::ExecuteHelper", 31, 40)
    host.op("dispatch", "dot", 40, 5, 10)
    plane = host.read()
    assert placed(plane)[0][:1] == (0,)
    assert plane.launches["enqueue_ps"].to_list() == [10_000]


def test_an_op_without_a_chain_is_kept_as_a_host_event():
    host = Host()
    launch(host, 100, (1, 2, 3, 4, 5), [("pool-c", 150), ("pool-a", 160)])
    host.op("pool-c", "dot", 151, 5, 10)
    host.op("stray", "dot", 5, 5, 99)  # profiling began while it ran: no region, no record
    plane = host.read()
    assert plane.ops.height == 1
    assert host_event_rows(plane).filter(pl.col("thread") == "stray")["name"].to_list() == ["dot"]
    assert {(i.code, i.count) for i in plane.issues} >= {("device_unknown", 1)}


def test_a_rendezvous_that_lacks_the_device_is_an_error():
    host = Host()
    launch(host, 100, (1, 2, 3, 4, 5), [("pool-c", 150), ("pool-a", 160)])
    host.op("pool-c", "dot", 151, 5, 10)
    key = "all reduce RendezvousKey{run_id=RunId: 0, global_devices=[1,3], op_id=1}"
    host.event("pool-c", "Rendezvous", 152, 1, name=key, id=0)
    assert {(i.severity, i.code) for i in host.read().issues} >= {("error", "device_conflict")}


def test_coverage_adds_up_with_folded_ends():
    host = Host()
    launch(host, 100, (1, 2, 3, 4, 5), [("pool-c", 150), ("pool-a", 160)])
    host.op("pool-c", "dot", 151, 5, 10, end=170)
    plane = host.read()
    events = sum(len(line.events) for line in host.built.plane.lines)
    assert plane.coverage["events_read"].sum() == events
    by_table = dict(plane.coverage.group_by("table_name").agg(pl.col("rows_written").sum()).rows())
    assert by_table == {"ops": 2, "host_events": events - 2}


def test_closures_that_announce_one_another_in_a_circle_end():
    host = Host()
    launch(host, 100, (1, 2, 3, 4, 5), [("pool-c", 150), ("pool-a", 160)])
    host.op("pool-c", "dot", 151, 5, 10)
    for number, after in ((21, 22), (22, 23), (23, 21)):
        thread = f"round-{number}"
        host.region(thread, 300, 310, number)
        host.record(thread, 305, after)
    host.op("round-21", "add", 306, 1, 30)
    plane = host.read()
    assert plane.ops["op"].to_list() == ["dot"]
    assert {(i.code, i.count) for i in plane.issues} >= {("device_unknown", 1)}


def test_only_the_file_read_last_keeps_what_it_decoded(tmp_path, monkeypatch):
    monkeypatch.setattr(decoded_lines, "CHUNK_BYTES", 1)
    kept = []
    forget = FileEvents.forget_decoded

    def forgotten(read):
        kept.append(sum(len(plane.host_pieces.decoded) for plane in read.planes))
        forget(read)
        assert not any(plane.host_pieces.decoded for plane in read.planes)

    monkeypatch.setattr(FileEvents, "forget_decoded", forgotten)
    for name in ("a", "b"):
        host = Host()
        launch(host, 100, (1, 2, 3, 4, 5), [("pool-c", 150), ("pool-a", 160)])
        host.op("pool-c", "dot", 151, 5, 10)
        write(tmp_path / f"{name}.xplane.pb", space(host.built.plane, hostnames=(name,)))
    (result,) = ingest_paths([str(tmp_path)], str(tmp_path / "wh"), name="both")
    assert kept
    assert all(kept)
    assert result.rows["host_events"] > 0


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=12),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 6)), max_size=6),
)
@settings(max_examples=60)
def test_marks_find_the_latest_span_and_that_alone(drawn, spans):
    line, start = np.array(sorted(drawn), np.int64).reshape(-1, 2).T
    marks = Marks(np.arange(len(line)), line, start, np.arange(len(line)), line >= 0)
    numbered = [(number, *span) for number, span in enumerate(spans)]
    columns = ("event", "line", "start_ps", "duration_ps")
    acts = pl.DataFrame(numbered, dict.fromkeys(columns, pl.Int64), orient="row")
    wanted = []
    for on, at in sorted(drawn):
        before = [(s[1], n) for n, s in enumerate(spans) if s[0] == on and s[1] <= at]
        begin, event = max(before, default=(0, -1))
        still_open = event >= 0 and begin + spans[event][2] >= at
        wanted.append(event if still_open else -1)
    assert _spans_around(marks, acts).tolist() == wanted
    assert _latest_span(acts, line, start).tolist() == wanted


@pytest.mark.parametrize(("others", "device"), [(0, 1), (1, 0)])
def test_a_device_keeps_its_number_where_the_helper_of_another_is_missing(others, device):
    """Of the second execution the helper of device 0 is not in the trace. Where an Execute announces
    something else besides, which of its closures are helpers cannot be determined, and those seen count."""
    host = Host()
    run_on_two(host)
    of_others = [(320, 30 + number) for number in range(others)]
    seen_in_part(host, [*of_others, (321, 22), (322, 23)], 23)  # devices 0 and 1
    found = host.read().ops.filter(pl.col("start_ps") == 341_000)
    assert found["device_id"].to_list() == [device]


def test_of_ends_of_an_id_that_is_used_again_the_next_one_is_an_ops_own():
    """Both ops have the id 10: the first one ends at 160, the second at 470."""
    host = Host()
    launch(host, 100, (1, 2, 3, 4, 5), [("pool-c", 150), ("pool-a", 160)])
    host.op("pool-c", "dot", 151, 5, 10, end=160)
    host.event("pool-c", WAIT, 161, 20)
    host.op("pool-a", "dot", 161, 5, 20)
    host.event("pool-a", WAIT, 167, 20)
    launch(host, 400, (11, 12, 13, 14, 15), [("pool-c", 450), ("pool-a", 460)])
    host.op("pool-c", "dot", 451, 5, 10, end=470)
    host.event("pool-c", WAIT, 471, 15)
    host.op("pool-a", "dot", 461, 5, 21)
    host.event("pool-a", WAIT, 467, 20)
    plane = host.read()
    found = plane.ops.filter(pl.col("device_id") == 0).sort("start_ps")
    assert found.select("start_ps", "duration_ps").rows() == [(151_000, 9_000), (451_000, 19_000)]
    assert not host_event_rows(plane)["name"].str.starts_with("end: ").any()


def test_a_closure_is_announced_by_the_latest_record_of_its_number_before_it():
    """7 is announced at 10, 30 and 50, 3 at 20, 9 at 5: numbers are used again."""
    closure, start = np.array([7, 3, 7, 9, 7]), np.array([50, 20, 10, 5, 30])
    records = Marks(np.arange(5), np.zeros(5, np.int64), start, closure, np.zeros(5, bool))
    wanted = np.array([7, 7, 7, 7, 7, 3, 9, 4, NO_CLOSURE])
    when = np.array([49, 50, 29, 99, 4, 25, 3, 25, 25])
    found = _announcements(records, wanted, when)
    assert found.tolist() == [4, 0, 2, 0, 2, 1, 3, -1, -1]
