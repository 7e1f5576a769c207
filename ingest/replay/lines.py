"""The lines of a run's devices as ascending times: everything that begins or ends on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.replay.measured import ON_CORE, Measured

NOWHERE = -1  # of an event without a line


@dataclass(frozen=True)
class Lines:
    """The lines that order a run's ops, by number, and the line of each event."""

    device: Integers  # of each line, its device
    times: list[Integers]  # of each line, what begins or ends on it, ascending
    of_op: Integers  # line of each op; of an op that only shows, the line of its device
    of_collective: Integers  # line of each collective
    of_launch: Integers  # line of each launch
    main: dict[int, int]  # device -> its line with most ops

    @property
    def count(self) -> int:
        """Number of lines."""
        return len(self.device)


def find_lines(run: Measured) -> Lines:
    """Number the lines of a run, and gather their times."""
    ops = run.with_places()
    keys = (
        ops.filter(pl.col(ON_CORE)).group_by("device_id", "chain").len().sort("device_id", "chain")
    )
    keys = keys.with_row_index("line_number")
    best = keys.sort("len", descending=True, maintain_order=True).unique("device_id", keep="first")
    main = dict(best.select("device_id", "line_number").iter_rows())
    main |= _of_sparse_cores(run.devices, main)
    of_op = _mains(ops["device_id"], main)
    several = keys.height > keys["device_id"].n_unique()
    if several:
        of_op = _of_their_lines(ops, keys, of_op)
    of_launch = _mains(run.launches["device_id"], main)
    if several:
        of_launch = _lines_of_launches(run, of_op, ops[ON_CORE], of_launch)
    of_collective = (
        _lines_of_transfers(run, of_op, ops[ON_CORE], main)
        if several
        else _mains(run.collectives["device_id"], main)
    )
    device = keys["device_id"].to_numpy().astype(np.int64)
    on_core = ops[ON_CORE].to_numpy()
    if several:  # a call's op begins when its operands are there, and the call moves with it
        on_core = on_core & (ops["category"] != "control").fill_null(True).to_numpy()
    parts = [(of_op[on_core], *_bounds(run.ops, on_core)), (of_launch, *_bounds(run.launches))]
    times = _gathered(parts, run.collectives, of_collective, len(device))
    return Lines(device, times, of_op, of_collective, of_launch, main)


def _of_their_lines(ops: pl.DataFrame, keys: pl.DataFrame, of_device: Integers) -> Integers:
    """The line of each op where a device has several; of an op off the core that of its device."""
    number = ops.select("device_id", "chain").join(
        keys.select("device_id", "chain", "line_number"),
        on=["device_id", "chain"],
        how="left",
        maintain_order="left",
    )["line_number"]
    found = np.where(number.is_null().to_numpy(), of_device, number.fill_null(0).to_numpy())
    return found.astype(np.int64)


def _bounds(rows: pl.DataFrame, chosen: Mask | None = None) -> tuple[Integers, Integers]:
    start, duration = (rows[name].to_numpy() for name in ("start_ps", "duration_ps"))
    end = start + duration
    return (start, end) if chosen is None else (start[chosen], end[chosen])


def _mains(devices: pl.Series, main: dict[int, int]) -> Integers:
    found = devices.replace_strict(main, default=NOWHERE, return_dtype=pl.Int64)
    return found.to_numpy().astype(np.int64)


def _of_sparse_cores(devices: pl.DataFrame, main: dict[int, int]) -> dict[int, int]:
    """SparseCores without ops of their own follow the TensorCore of their chip."""
    cores = devices.filter(pl.col("core") == "tensorcore").drop_nulls("chip_id")
    of_chip = dict(cores.select("chip_id", "device_id").iter_rows())
    sparse = devices.filter(pl.col("core") == "sparsecore").select("device_id", "chip_id")
    return {
        device: main[of_chip[chip]]
        for device, chip in sparse.iter_rows()
        if device not in main and of_chip.get(chip) in main
    }


def _lines_of_transfers(
    run: Measured, of_op: Integers, on_core: pl.Series, main: dict[int, int]
) -> Integers:
    """The line of each transfer: that of the op it starts with."""
    key = ["device_id", "op", "start_ps"]
    starts = run.ops.select(key).with_columns(line=pl.Series(of_op)).filter(on_core)
    found = run.collectives.select(key).join(
        starts.unique(key, keep="first"), on=key, how="left", maintain_order="left"
    )["line"]
    of_device = _mains(run.collectives["device_id"], main)
    missing = found.is_null().to_numpy()
    return np.where(missing, of_device, found.fill_null(0).to_numpy()).astype(np.int64)


def _lines_of_launches(
    run: Measured, of_op: Integers, on_core: pl.Series, of_device: Integers
) -> Integers:
    """The line of each launch: that of the op that it starts with, else its device's."""
    key = ["device_id", "launch", "start_ps"]
    ops = run.ops.select(*key, line=pl.Series(of_op)).filter(
        on_core & (run.ops["category"] != "control").fill_null(True)
    )
    found = run.launches.select(key).join(
        ops.unique(key, keep="first", maintain_order=True),
        on=key,
        how="left",
        maintain_order="left",
    )
    line: Integers = found["line"].fill_null(pl.Series(of_device)).to_numpy().astype(np.int64)
    return line


def _gathered(
    parts: list[tuple[Integers, Integers, Integers]],
    transfers: pl.DataFrame,
    of_transfer: Integers,
    count: int,
) -> list[Integers]:
    """Of each line, all different times, ascending."""
    start, end = _bounds(transfers)
    arrival = transfers["arrival_ps"].to_numpy()
    done = end - transfers["wait_ps"].fill_null(0).to_numpy()
    events = [(line, [begin, finish]) for line, begin, finish in parts]
    events.append((of_transfer, [start, end, arrival, done]))
    found = []
    for number in range(count):
        own = [
            time.take(rows)
            for line, times in events
            for rows in [np.flatnonzero(line == number)]
            for time in times
        ]
        found.append(_distinct(np.concatenate(own).astype(np.int64)))
    return found


def _distinct(times: Integers) -> Integers:
    """The different times, ascending: a sort of nearly sorted times is quicker than hashes of them."""
    times.sort(kind="stable")
    return times[np.flatnonzero(np.diff(times, prepend=times[:1] - 1))]
