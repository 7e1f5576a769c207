"""The frame of the benchmarks, without its timings."""

from __future__ import annotations

import sys

import pytest

from tests.bench.__main__ import measure_all
from tests.bench.grow import write_grown
from tests.bench.ingest import child
from tests.bench.registry import Benchmark, Cost, measure
from tests.ingest.build import PlaneBuilder, space
from xlahouse.ingest.xplane.wire import split_space
from xlahouse.ingest.xplane.xspace import decode_planes


def test_every_contender_runs_on_the_same_input_in_every_round():
    calls = []
    benchmark = Benchmark(
        "b",
        prepare=lambda: b"x",
        ours=lambda given: calls.append(("ours", given)),
        peers={"peer": lambda given: calls.append(("peer", given))},
    )
    rows = measure(benchmark, rounds=2)
    assert calls == [("ours", b"x"), ("peer", b"x")] * 2
    assert [(row.contender, row.least_s <= row.median_s) for row in rows] == [
        ("xlahouse", True),
        ("peer", True),
    ]
    assert rows[0].ratio == 1.0


def test_the_largest_peak_and_the_median_of_cpu_times_are_reported():
    peaks = iter([Cost(5, 3.0), Cost(9, 1.0), Cost(7, 2.0)])
    benchmark = Benchmark("b", lambda: 0, ours=lambda given: next(peaks), peers={"p": lambda _: 1})
    rows = measure(benchmark, rounds=3)
    assert [(row.peak_bytes, row.cpu_s) for row in rows] == [(9, 2.0), (None, None)]


def test_a_grown_trace_repeats_events_and_makes_planes_other_devices(tmp_path):
    plane = PlaneBuilder("/device:TPU:0", core_details=b"(\x04")
    line = plane.line("XLA Ops", timestamp_ns=3)
    plane.event(line, "a", 3_005, 7)
    plane.event(line, "b", 3_020, 4, _p=1)
    host = PlaneBuilder("/host:CPU")
    host.event(host.line("t"), "c", 1, 1)
    write_grown(space(host.plane, plane.plane), tmp_path / "g", times=3, planes=2)
    planes = list(decode_planes(split_space((tmp_path / "g").read_bytes(), "g"), "g"))
    assert [plane.name for plane in planes] == ["/host:CPU", "/device:TPU:0", "/device:TPU:1"]
    # the period is the latest end since the line's timestamp, 24 ps, and 1 us
    starts = [3_005, 3_020, 1_003_029, 1_003_044, 2_003_053, 2_003_068]
    assert [plane.events["start_ps"].to_list() for plane in planes] == [[1], starts, starts]
    assert planes[1].event_stats.numbers("_p")["_p"].n_unique() == 3
    assert [plane.stat("core_details") for plane in planes[1:]] == [b"(\x04", b"(\x040\x80 "]


def test_a_child_reports_the_cpu_time_of_its_own_children_too():
    spin = "import time\nwhile time.process_time() < 0.3: pass"
    forked = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {spin!r}])"
    assert child([sys.executable, "-c", forked]).cpu_s > 0.3


def test_a_child_reports_its_peak():
    ballast = bytearray(300_000_000)  # ours is not the child's
    peak = child([sys.executable, "-c", "x = b'.' * 50_000_000"]).peak_bytes
    assert 50_000_000 < peak < len(ballast)
    with pytest.raises(RuntimeError, match="exit code 3"):
        child([sys.executable, "-c", "raise SystemExit(3)"])


def test_what_cannot_run_here_says_why():
    assert measure(Benchmark("b", lambda: "no sample", print), rounds=1) == "no sample"


def test_decoders_of_the_benchmark_agree():
    from tests.bench.decode import columns, objects

    plane = PlaneBuilder("/host:CPU")
    line = plane.line("python")
    plane.event(line, "work", 0, 5, request=1)
    plane.event(line, "work", 5, 5)
    raw = space(plane.plane)
    assert columns(raw) == objects(raw) == 2


def test_a_failure_does_not_stop_the_others(capsys):
    def fails(given):
        raise OSError("no space")

    chosen = [
        Benchmark("bad", int, fails),
        Benchmark("absent", lambda: "no sample", int),
        Benchmark("good", int, lambda given: None),
    ]
    rows, failed = measure_all(chosen, rounds=1)
    assert [row.benchmark for row in rows] == ["good"]
    assert failed == ["bad"]
    printed = capsys.readouterr().err
    assert "FAILED: OSError: no space" in printed
    assert "skipped, no sample" in printed
