"""Runs that a doubter would bring, each with its right values worked out by hand; times are in us."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.referee.truth import (
    DECODE,
    PREFILL,
    Clock,
    Event,
    Instr,
    Launch,
    Marker,
    Mesh,
    Program,
    Truth,
)
from tests.referee.writing import write
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql import Warehouse

pytestmark = pytest.mark.verify

US = 10**6  # ps
REDUCE = Instr("all-reduce.1", "sync", "all-reduce", "dp", 16, barrier=True)
BODY = (
    Instr("fusion.1", "compute"),
    Instr("fusion.2", "compute"),
    REDUCE,
    Instr("fusion.3", "compute"),
)


def run(mesh: Mesh, hosts: int, requests: int, steps: int, *clocks: Clock) -> Truth:
    """A run without launches, all of whose hosts have markers."""
    marked = frozenset(range(hosts))
    return Truth(0, mesh, hosts, False, False, 1, requests, steps, marked, clocks, 0, False)


def launch(truth: Truth, body: Iterable[Instr], device: int, place: tuple, *events: tuple) -> None:
    """Add a launch. place: (number, request, step, thread, enqueue); events: (op, what, start, end)."""
    number, request, step, thread, enqueue = place
    program = Program(1, "jit_step", "", tuple(truth.devices), tuple(body))
    made = Launch(device, number, program, request, step, thread, round(enqueue * US))
    made.events = [Event(op, what, start * US, end * US) for op, what, start, end in events]
    made.start, made.end = made.window
    truth.launches.append(made)


def mark(truth: Truth, host: int, request: int, step: int, start: float, thread: int = 0) -> None:
    """Mark a step for 8 us."""
    phase = DECODE if step else PREFILL
    span = (round(start * US), round((start + 8) * US))
    truth.markers.append(Marker(host, thread, phase, request, step, *span))


def reduced(
    truth: Truth, device: int, step: int, at: int, compute: tuple, barrier: int, end: int
) -> None:
    """A launch that computes, waits for its peers in a barrier, and all-reduces for 20 until `end`."""
    begun = [("fusion.1", "compute", *compute)]
    if barrier < end - 20:
        begun.append(("all-reduce.1", "barrier", barrier, end - 20))
    begun.append(("all-reduce.1", "sync", end - 20, end))
    launch(truth, BODY, device, (step, 0, step, 0, at + 2 + device), *begun)


@pytest.fixture
def ask(tmp_path: Path):
    """`ask(truth, *queries)`: the rows of each query on the run's warehouse."""

    def asked(truth: Truth, *queries: str) -> list[list[tuple]]:
        write(truth, tmp_path / "traces")
        ingest_paths([str(tmp_path / "traces")], str(tmp_path / "w"), workers=1)
        with Warehouse(str(tmp_path / "w")) as house:
            return [house.query(text).rows for text in queries]

    return asked


def test_an_offset_a_lag_and_a_lost_launch_at_once(ask):
    """Two hosts with a device each, clocks 30 apart. Every 300 device 0 computes 10 to 60 and waits in a
    barrier until device 1, which computes 40 to 90, is there; they reduce 90 to 110. Device 1 lost its
    first launch.

    TTFT is 110, TPOT (3 * 300 + 110 - 110) / 3 = 300. Three instances have a skew of 90 - 60 = 30 and a
    transfer of 20, the first one participant and no skew that is known.
    """
    truth = run((("dp", 2),), 2, 1, 4, Clock(), Clock(30 * US))
    for step in range(4):
        at = 300 * step
        for host in (0, 1):
            mark(truth, host, 0, step, at)
        reduced(truth, 0, step, at, (at + 10, at + 60), at + 60, at + 110)
        if step:
            reduced(truth, 1, step, at, (at + 40, at + 90), at + 90, at + 110)
    clocks, latency, skews, codes, instances = ask(
        truth,
        "select clock_offset_ps, evidence, pairs from clocks where state = 'aligned'",
        "select round(ttft_s * 1e6, 6), round(tpot_s * 1e6, 6) from latency",
        """select participants_seen, skew_ps, transfer_ps, count(*) from collective_bandwidth
           group by all order by 1""",
        "select code from issues where code in ('participants_missing', 'clocks_ambiguous')",
        "select count(distinct launch_instance), count(*) from launches",
    )
    assert clocks == [(30 * US, "step marker", 3)]
    assert latency == [(110, 300)]
    assert skews[1:] == [(2, 30 * US, 20 * US, 3)]
    assert (skews[0][0], skews[0][1], skews[0][3]) == (1, None, 1)
    assert codes == [("participants_missing",)]
    assert instances == [(4, 7)]


def test_requests_that_overlap_in_a_stacked_pipeline(ask):
    """Two stages in one program, a microbatch: stage 0 works in tick 0 (40), stage 1 in tick 1 (40), and
    each computes garbage in the other; a permute of 10 is between. A launch every 100: prefill of
    request 0, of request 1, then a decode of each. Request 1's marker opens at 20, while request 0's
    prefill runs.

    TTFT is 90 of request 0 and 190 - 20 = 170 of request 1; TPOT 290 - 90 = 390 - 190 = 200. Of each
    window of 90, 40 are masked on either stage, and nothing of it is idle time of the pipeline.
    """
    body = (
        Instr("fusion.1", "compute", tick=0),
        Instr("collective-permute.1", "sync", "collective-permute", "pp", 16, tick=0),
        Instr("fusion.2", "compute", tick=1),
    )
    truth = run((("pp", 2),), 1, 2, 2, Clock())
    truth.stacked = truth.overlapping = True
    for number, (request, step, marked) in enumerate(
        [(0, 0, 0), (1, 0, 20), (0, 1, 110), (1, 1, 210)]
    ):
        mark(truth, 0, request, step, marked, thread=request)
        at = 100 * number
        for device in (0, 1):
            place = (number, request, step, request, marked + 1 + device)
            permute = ("collective-permute.1", "sync", at + 40, at + 50)
            ticks = [("fusion.1", "compute", at, at + 40), permute]
            launch(truth, body, device, place, *ticks, ("fusion.2", "compute", at + 50, at + 90))
    latency, masked = ask(
        truth,
        "select round(ttft_s * 1e6, 6), round(tpot_s * 1e6, 6) from latency order by request",
        """select window_ps, masked_ps, idle_ps, count(*) from bubble where cause = 'pipeline'
           group by all""",
    )
    assert latency == [(90, 200), (170, 200)]
    assert masked == [(90 * US, 40 * US, 0, 8)]


def test_ops_of_no_length_at_barriers_and_at_the_border_of_steps(ask):
    """Each device computes 0 to 50 or 0 to 70, waits in the barrier until 70, runs an op of no length at
    70, and reduces 70 to 90. The next step begins at 90, where the previous step ends, with an op of no
    length, and computes 100 to 110 before it reduces 110 to 130.

    An op of no length parts neither barrier and collective nor two steps: skew 70 - 50 = 20; waits of
    20 and 0; windows [0, 90) and [90, 130), of which the second is idle for 10, and periods 90 and 40.
    """
    truth = run((("dp", 2),), 1, 1, 2, Clock())
    mark(truth, 0, 0, 0, 0)
    mark(truth, 0, 0, 1, 20)
    for device, until in ((0, 50), (1, 70)):
        waits = [("all-reduce.1", "barrier", until, 70)] if until < 70 else []
        first = [("fusion.1", "compute", 0, until), *waits, ("fusion.2", "compute", 70, 70)]
        place = (0, 0, 0, 0, 1 + device)
        launch(truth, BODY, device, place, *first, ("all-reduce.1", "sync", 70, 90))
        second = [("fusion.1", "compute", 90, 90), ("fusion.2", "compute", 100, 110)]
        place = (1, 0, 1, 0, 21 + device)
        launch(truth, BODY, device, place, *second, ("all-reduce.1", "sync", 110, 130))
    skews, times, waits = ask(
        truth,
        "select skew_ps, transfer_ps from collective_bandwidth order by instance",
        """select device_id, step, window_ps, period_ps, compute_ps, exposed_ps, sync_wait_ps, idle_ps
           from device_time order by 1, 2""",
        "select device_id, step, axis, sync_wait_ps from sync_wait",
    )
    assert skews == [(20 * US, 20 * US), (0, 20 * US)]
    assert times == [
        (0, 0, 90 * US, 90 * US, 50 * US, 20 * US, 20 * US, 0),
        (0, 1, 40 * US, 40 * US, 10 * US, 20 * US, 0, 10 * US),
        (1, 0, 90 * US, 90 * US, 70 * US, 20 * US, 0, 0),
        (1, 1, 40 * US, 40 * US, 10 * US, 20 * US, 0, 10 * US),
    ]
    assert waits == [(0, 0, "dp", 20 * US)]


@pytest.mark.parametrize("drift", [50, -50])
def test_markers_of_hosts_two_milliseconds_and_a_drift_apart(ask, drift):
    """Twelve steps every 1000 on two hosts; the second clock is 2000 ahead and gains or loses 50 ppm.
    Device 0 computes 10 to 60, device 1 from 40 to 90; they reduce 90 to 110.

    TTFT is 110 and TPOT 1000, both by the first host's clock; all skews are 30, within 0.05: what the
    drift takes or adds in 1 ms. Without the drift subtracted the last ones would be off by 0.55.
    """
    truth = run((("dp", 2),), 2, 1, 12, Clock(), Clock(2000 * US, drift))
    for step in range(12):
        at = 1000 * step
        for host in (0, 1):
            mark(truth, host, 0, step, at)
        reduced(truth, 0, step, at, (at + 10, at + 60), at + 60, at + 110)
        reduced(truth, 1, step, at, (at + 40, at + 90), at + 90, at + 110)
    clocks, latency, skews = ask(
        truth,
        "select evidence, pairs, drift_ppm, spread_ps from clocks where state = 'aligned'",
        "select ttft_s * 1e6, tpot_s * 1e6 from latency",
        "select min(skew_ps), max(skew_ps), count(*) from collective_bandwidth",
    )
    ((evidence, pairs, ppm, spread),) = clocks
    assert (evidence, pairs) == ("step marker", 12)
    assert ppm == pytest.approx(drift, rel=1e-3)
    assert spread <= 2  # rounding
    assert latency == [pytest.approx((110, 1000), abs=0.01)]
    ((least, most, count),) = skews
    assert count == 12
    assert 29.95 * US <= least <= most <= 30.05 * US
