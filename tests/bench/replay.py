"""A replay of 10 M ops and 1 M collectives on 8 devices: the target is under 10 s and 4 GiB."""

from __future__ import annotations

import numpy as np
import polars as pl

from tests.bench.registry import Benchmark, register
from xlahouse.ingest.replay.measured import NEEDED, Measured
from xlahouse.ingest.replay.schedule import Costs, Schedule, Times
from xlahouse.ingest.schema import BY_NAME

DEVICES, COLLECTIVES, COMPUTE, STEPS = 8, 125_000, 9, 1_000  # of a device; ops between collectives
HALF_A_HOST = Costs(host_ratio=0.5)


def _drawn() -> Measured:
    """A run whose devices compute for times of their own between all-reduces of them all."""
    draw = np.random.default_rng(0)
    compute = draw.integers(800_000, 1_200_000, (DEVICES, COLLECTIVES, COMPUTE))
    transfer = draw.integers(3_000_000, 5_000_000, COLLECTIVES)
    until = np.cumsum(compute.sum(axis=2).max(axis=0) + transfer) + 10
    begins = np.concatenate(([10], until[:-1]))
    rows = [_of_device(device, compute[device], begins, until) for device in range(DEVICES)]
    tables = {name: pl.concat([each[name] for each in rows]) for name in rows[0]}
    devices = {
        "device_id": range(DEVICES),
        "host": ["h"] * DEVICES,
        "core": ["tensorcore"] * DEVICES,
    }
    tables["devices"] = pl.DataFrame(devices).with_columns(chip_id="device_id")
    empty = {name: pl.from_arrow(BY_NAME[name].schema.empty_table()) for name in NEEDED}
    return Measured("drawn", **{**empty, **tables})


def _of_device(device, compute, begins, until):  # type: ignore[no-untyped-def]
    """The tables of one device."""
    start = np.empty((COLLECTIVES, COMPUTE + 1), np.int64)
    start[:, 0], start[:, 1:] = begins, begins[:, None] + np.cumsum(compute, axis=1)
    arrival = start[:, -1]
    duration = np.column_stack((compute, until - arrival))
    step = np.arange(COLLECTIVES) * STEPS // COLLECTIVES
    names = [*(f"fusion.{place}" for place in range(COMPUTE)), "all-reduce.1"]
    kinds = ["compute"] * COMPUTE + ["collective"]
    times = {"start_ps": start.ravel(), "duration_ps": duration.ravel()}
    ops = pl.DataFrame(
        {"launch": np.repeat(step, COMPUTE + 1), **times}
        | {"op": pl.Series(names * COLLECTIVES).cast(pl.Categorical)}
        | {"category": pl.Series(kinds * COLLECTIVES).cast(pl.Categorical)}
    ).with_columns(line=pl.lit("XLA Ops"), is_async=pl.lit(False))
    collectives = pl.DataFrame(
        {"start_ps": arrival, "duration_ps": until - arrival, "arrival_ps": arrival}
        | {"instance": np.arange(COLLECTIVES), "step": step}
    ).with_columns(
        op=pl.lit("all-reduce.1"),
        kind=pl.lit("all-reduce"),
        is_async=pl.lit(False),
        wait_ps=pl.lit(None, pl.Int64),
    )
    first = np.searchsorted(step, np.arange(STEPS))
    last = np.append(first[1:], COLLECTIVES) - 1
    spans = {"start_ps": begins[first], "duration_ps": until[last] - begins[first]}
    steps = pl.DataFrame({"step": np.arange(STEPS), **spans}).with_columns(phase=pl.lit("decode"))
    launches = steps.drop("phase").with_columns(
        launch="step", enqueue_ps=pl.col("start_ps") - 5, enqueue_thread=pl.lit("t")
    )
    own = {"device_id": pl.lit(device, pl.Int64), "program_id": pl.lit(1, pl.UInt64)}
    own["request"] = pl.lit(0, pl.Int64)
    tables = {"ops": ops, "collectives": collectives, "launches": launches, "device_steps": steps}
    return {name: table.with_columns(**own) for name, table in tables.items()}


def _prepared() -> tuple[Measured, Schedule]:
    run = _drawn()
    return run, Schedule.of(run)


def _whole(given: tuple[Measured, Schedule]) -> Times:
    """Prepare the run, which replays it as measured, and replay it with a change."""
    return Schedule.of(given[0]).replay(HALF_A_HOST)


def _again(given: tuple[Measured, Schedule]) -> Times:
    """One more change, as of advice."""
    return given[1].replay(HALF_A_HOST)


def _proof(times: object) -> None:
    """Devices are busy throughout, so only the first launch starts earlier: by half of its 5, rounded."""
    assert isinstance(times, Times)
    for warp in times.warps:
        assert len(warp.measured) > COLLECTIVES * COMPUTE
        assert set(np.unique(warp.replayed - warp.measured)) == {-3}


register(
    Benchmark(
        name="replay 10 M ops and 1 M collectives",
        prepare=_prepared,
        ours=_whole,
        peers={"one more change": _again},
        most_rounds=1,
        proof=_proof,
    )
)
