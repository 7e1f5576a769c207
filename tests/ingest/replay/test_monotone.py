"""What gets faster ends no later: every op, every request's TTFT and TPOT, whatever the run."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tests.ingest.replay.building import savings
from tests.ingest.replay.drawn import draw
from xlahouse.ingest.replay.schedule import Costs, Schedule


def faster(run):
    """Costs that are at most those of a run, and some of them together."""
    half = {
        row["instance"]: row["duration_ps"] // 2
        for row in run.collectives.select("instance", "duration_ps").to_dicts()
    }
    third = np.where(np.arange(run.ops.height) % 3 == 0, 0.5, 1.0)
    return {
        "host": Costs(host_ratio=0),
        "half the host": Costs(host_ratio=0.5),
        "link": Costs(savings(half)),
        "no transfers": Costs(savings(dict.fromkeys(half, 1 << 60))),
        "no skew": Costs(skew=False),
        "overlap": Costs(overlap=True),
        "ops": Costs(op_scale=third),
        "all": Costs(savings(half), third, host_ratio=0.25, skew=False),
        "overlap and link": Costs(savings(half), overlap=True, host_ratio=0.25),
    }


def ends(schedule, times):
    """End of each op."""
    end = (schedule.run.ops["start_ps"] + schedule.run.ops["duration_ps"]).to_numpy()
    moved = end.copy()
    for number, warp in enumerate(times.warps):
        rows = np.flatnonzero(schedule.lines.of_op == number)
        moved[rows] = warp.at(end[rows])
    return end, moved


def latencies(run, of_op, markers):
    """(TTFT, TPOT x decode steps) of each request, as METRICS has them; markers: starts of phases."""
    ran = run.ops.select("device_id", "launch", end=pl.Series(of_op)).join(
        run.launches.select("device_id", "launch", "request", "step"), on=["device_id", "launch"]
    )
    over = ran.group_by("request", "step").agg(pl.col("end").max()).sort("request", "step")
    opened = run.phases.select("request", "step", start=pl.Series(markers)).filter(
        pl.col("step") == 0
    )
    found = {}
    for (request,), rows in over.group_by("request", maintain_order=True):
        start = opened.filter(pl.col("request") == request)["start"][0]
        first, last = rows["end"][0], rows["end"][-1]
        found[request] = (first - start, last - first)
    return found


def check(seeds):
    """Replay drawn runs with each change: no op ends later, and no request waits longer for a token.

    All that a step waits for passes the host, which reads each token, so TTFT and TPOT are longest paths
    between two times. In other runs a prefill that ends sooner may leave more time to the steps after it.
    """
    earlier, shorter = {}, {}
    for seed in seeds:
        schedule = Schedule.of(draw(seed))
        run = schedule.run
        assert schedule.unmet == 0, seed
        for name, costs in faster(run).items():
            times = schedule.replay(costs)
            before, after = ends(schedule, times)
            assert (after <= before).all(), (seed, name)
            earlier[name] = earlier.get(name, 0) + (after < before).sum()
            was = latencies(run, before, run.phases["start_ps"])
            now = latencies(run, after, times.marker_ps[0])
            less = np.array([np.subtract(was[request], now[request]) for request in was])
            assert (less >= 0).all(), (seed, name)
            shorter[name] = shorter.get(name, 0) + (less > 0).sum(axis=0)
    assert all(earlier.values()), earlier
    assert all((each > 0).all() for each in shorter.values()), shorter


def test_what_gets_faster_ends_no_later():
    check(range(4))


@pytest.mark.verify
@pytest.mark.parametrize("first", range(4, 404, 50))
def test_nothing_that_gets_faster_ends_later_in_many_runs(first):
    check(range(first, first + 50))
