"""The frame of the benchmarks, without its timings."""

from __future__ import annotations

from tests.bench.registry import Benchmark, measure


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


def test_what_cannot_run_here_says_why():
    assert measure(Benchmark("b", lambda: "no sample", print), rounds=1) == "no sample"


def test_decoders_of_the_benchmark_agree():
    from tests.bench.decode import columns, objects
    from tests.ingest.build import PlaneBuilder, space

    plane = PlaneBuilder("/host:CPU")
    line = plane.line("python")
    plane.event(line, "work", 0, 5, request=1)
    plane.event(line, "work", 5, 5)
    raw = space(plane.plane)
    assert columns(raw) == objects(raw) == 2
