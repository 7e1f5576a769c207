"""How many batches of planes are finished at once."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace

import pytest

from xlahouse.ingest import run, workers
from xlahouse.ingest.events.cores import threads_for, usable_cores
from xlahouse.ingest.events.frames import LAUNCHES, empty
from xlahouse.ingest.events.run_files import RunFiles
from xlahouse.ingest.one_run import Options
from xlahouse.ingest.spread.parts import Here
from xlahouse.ingest.tables import run_tables

MIB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "cores", "expected"),
    [
        pytest.param([8 * MIB] * 64, 1, 1, id="no more than cores"),
        pytest.param([8 * MIB] * 64, 12, 12, id="all cores"),
        pytest.param([8 * MIB] * 64, 48, 16, id="16 of 8 MiB are 128"),
        pytest.param([MIB] * 3, 48, 3, id="no more than batches"),
        pytest.param([100 * MIB, MIB, MIB, 20 * MIB, 8 * MIB], 48, 3, id="the largest are at once"),
        pytest.param([400 * MIB, 300 * MIB, 200 * MIB], 48, 2, id="two, however large"),
        pytest.param([400 * MIB], 48, 1, id="one alone"),
        pytest.param([0], 48, 1, id="no planes"),
    ],
)
def test_threads(sizes, cores, expected):
    assert threads_for(sizes, cores) == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity is Linux's")
def test_cores_are_those_that_the_process_may_use():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)
    assert usable_cores() == len(allowed)


def test_so_many_batches_are_finished_at_once(monkeypatch):
    together = threading.Barrier(5, timeout=30)  # broken, and the call fails, if one has to wait

    def finish(shared, planes, of_files, writer, part):
        together.wait()
        return planes, part

    monkeypatch.setattr(run_tables, "finish_planes", finish)
    monkeypatch.setattr(run_tables.WantedGaps, "of", lambda gaps: {})
    planes = [SimpleNamespace(bytes=8 * MIB, devices=[], file=0) for _ in range(5)]
    world = SimpleNamespace(
        paths=["f"],
        planes=planes,
        launches=empty(LAUNCHES),
        facts=SimpleNamespace(ops=None),
        schedule=None,
        gaps=None,
        device_offset=0,
    )
    writer = SimpleNamespace(take=lambda other: None)
    found = run_tables._finish_devices(world, "f", writer, 3, Here(threads=5))
    assert found == [([plane], 3 + number) for number, plane in enumerate(planes)]


def test_processes_share_the_cores(monkeypatch):
    given = []

    class Pool:
        def __init__(self, processes):
            self.processes = processes

        def outcomes(self, calls, numbers):
            given.append((self.processes, calls.shared[1].threads))
            return [(number, "refused") for number in numbers]

        def close(self):
            pass

    monkeypatch.setattr(workers, "Pool", Pool)
    monkeypatch.setattr(workers, "usable_cores", lambda: 7)
    runs = [RunFiles(str(number), (f"{number}.xplane.pb",)) for number in range(4)]
    assert list(run.each_in_workers(runs, "w", Options(), 3)) == ["refused"] * 4
    assert list(run.each_in_workers(runs, "w", Options(), 9)) == ["refused"] * 4
    assert given == [(3, 2), (1, 1), (4, 1), (1, 1)]  # and who died alone, on one thread
