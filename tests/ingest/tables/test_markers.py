"""Step markers of several processes, and findings about markers."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from tests.ingest.build import PlaneBuilder, space
from tests.ingest.traces import rows, write
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.warehouse import Warehouse


def process(number, markers, launches, host="h"):
    """A file: step markers (phase, request, step, start, duration) and launches (start) of a device."""
    core = b"\x28" + bytes([number]) + b"\x30" + bytes([number])
    device = PlaneBuilder(f"/device:TPU:{number}", core_details=core)
    modules = device.line("XLA Modules")
    for start in launches:
        device.event(modules, "jit_f(77)", start, 10)
    threads = PlaneBuilder("/host:CPU")
    for thread, (phase, request, step, start, duration) in enumerate(markers):
        line = threads.line(f"thread {thread}")
        numbers = {"request": request, "step_num": step}
        told = {name: value for name, value in numbers.items() if value is not None}
        threads.event(line, f"xlahouse.{phase}", start, duration, **told)
    return space(device.plane, *([threads.plane] if markers else []), hostnames=(host,))


def ingested(tmp_path, *files):
    session = tmp_path / "plugins" / "profile" / "s"
    for number, raw in enumerate(files):
        write(session / f"p{number}.xplane.pb", raw)
    ingest_paths([str(tmp_path)], str(tmp_path / "wh"))
    return tmp_path / "wh"


def steps(wh):
    found = rows(wh, "launches").sort("device_id", "start_ps")
    return found.select("device_id", "start_ps", "request", "step").rows()


def found(wh):
    issues = rows(wh, "issues").filter(pl.col("code").str.starts_with("marker"))
    return dict(issues.select("code", "count").rows())


def decode(step, start, duration, request=0):
    return ("decode", request, step, start, duration)


def test_a_launch_is_of_the_step_that_its_own_process_marks(tmp_path):
    """Process 1 lags: at 120 it still is at step 1, which process 0 has left at 100."""
    first = process(0, [decode(1, 0, 100), decode(2, 100, 100)], [20, 120])
    second = process(1, [decode(1, 0, 150), decode(2, 150, 100)], [120, 220])
    wh = ingested(tmp_path, first, second)
    assert steps(wh) == [(0, 20, 0, 1), (0, 120, 0, 2), (1, 120, 0, 1), (1, 220, 0, 2)]
    assert set(rows(wh, "phases")["host"]) == {"h"}
    assert found(wh) == {}


def test_a_process_that_marks_nothing_goes_by_the_one_of_its_host_that_does(tmp_path):
    wh = ingested(tmp_path, process(0, [decode(1, 0, 100)], [20]), process(1, [], [30, 130]))
    assert steps(wh) == [(0, 20, 0, 1), (1, 30, 0, 1), (1, 130, None, None)]


def test_hosts_keep_their_own_markers(tmp_path):
    first = process(0, [decode(1, 0, 100)], [20], "h")
    second = process(1, [decode(7, 0, 100)], [20], "i")
    assert steps(ingested(tmp_path, first, second)) == [(0, 20, 0, 1), (1, 20, 0, 7)]


@pytest.mark.parametrize(
    ("markers", "issues"),
    [
        ([decode(1, 0, 100), decode(2, 100, 100)], {}),
        # the same step of the same request, later: once and twice more
        ([decode(1, 0, 100), decode(1, 100, 100)], {"marker_repeated": 1}),
        ([decode(1, 0, 50), decode(1, 60, 10), decode(1, 80, 10)], {"marker_repeated": 2}),
        ([decode(1, 0, 100), decode(1, 100, 100, request=1)], {}),
        # one within the other, as scopes of one thread are
        ([("mixed", 0, 1, 0, 100), decode(1, 10, 80)], {}),
        # of two threads: the second outlasts the first, and the launch at 20 is in the first alone
        ([decode(1, 0, 100), decode(1, 90, 100, request=1)], {}),
        # the launch at 20 is in both, and no thread says which
        ([decode(1, 0, 100), decode(1, 10, 100, request=1)], {"markers_cross": 1}),
        ([decode(1, 0, 100), decode(1, 10, 50, request=1)], {"markers_cross": 1}),
        ([decode(None, 0, 100)], {"marker_incomplete": 1}),
        # warm-ups are numbered from 0 as well
        ([("warmup", 0, 0, 0, 50), ("prefill", 0, 0, 60, 50)], {}),
    ],
)
def test_what_is_wrong_with_markers_is_counted(tmp_path, markers, issues):
    assert found(ingested(tmp_path, process(0, markers, [20]))) == issues


def test_a_launch_that_no_thread_decides_on_has_no_request(tmp_path):
    marks = [decode(1, 0, 100), decode(1, 10, 100, request=1)]
    wh = ingested(tmp_path, process(0, marks, [5, 20, 105]))
    assert steps(wh) == [(0, 5, 0, 1), (0, 20, None, None), (0, 105, 1, 1)]
    assert rows(wh, "launches").sort("start_ps")["phase"].to_list() == ["decode"] * 3


def test_the_thread_that_enqueued_a_launch_decides(tmp_path):
    """As tests/cases/serving: two requests served by a thread each, their markers cross. By hand, in us:
    request 1's prefill starts at 1,205 and its program ends at 1,415; request 0's steps end at 1,095,
    1,190, 1,490 and 1,690."""
    case = Path(__file__).parents[2] / "cases" / "serving" / "overlapping_requests_linked"
    ingest_paths([str(case)], str(tmp_path))
    found = rows(tmp_path, "launches").select("enqueue_thread", "request", "step").rows()
    assert found == [
        ("python-0", 0, 0),
        ("python-0", 0, 1),
        ("python-1", 1, 0),
        ("python-0", 0, 2),
        ("python-1", 1, 1),
        ("python-0", 0, 3),
    ]
    with Warehouse(str(tmp_path)) as warehouse:
        sql = "select request, ttft_s, p50_step_s from latency order by request"
        first, second = warehouse.query(sql).rows
    assert first[2] == pytest.approx(200e-6)
    assert second[1] == pytest.approx(210e-6, abs=1e-8)  # ops end 1 ns before their launch


def test_markers_of_two_processes_do_not_cross_each_other_or_repeat(tmp_path):
    first = process(0, [decode(1, 0, 100), decode(2, 110, 100)], [20])
    second = process(1, [decode(1, 50, 100), decode(2, 160, 100)], [70])
    assert found(ingested(tmp_path, first, second)) == {}
