"""Compares a run's tables with those of its replay without a change, and its ops with faster replays."""

from __future__ import annotations

import numpy as np
import polars as pl

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.replay.moved import MADE, MOVED
from xlahouse.ingest.replay.schedule import Costs
from xlahouse.sql.predict.changes import Change
from xlahouse.sql.predict.loading import load_parent, table_of
from xlahouse.sql.predict.writing import predict_run
from xlahouse.sql.warehouse import Warehouse

# What a run must lack to be refused, and so be no run to compare.
REFUSED = ("it has no steps", "the groups of", "are between clocks")


def differences(root, run):
    """Table, column and number of differing rows of a run's replay; None where it is refused."""
    with Warehouse(root) as warehouse:
        try:
            parent = load_parent(warehouse, run)
        except WarehouseError as error:
            if any(why in str(error) for why in REFUSED):
                return None
            raise
        found = predict_run(parent, Change(), None)
    with Warehouse(root) as warehouse:
        return [
            line
            for table in (*MOVED, *MADE)
            for line in _differing(
                table,
                *(table_of(warehouse, table, each, whole=True) for each in (run, found.run_id)),
            )
        ]


def later(root, run):
    """Name of each change for the better and how many ops it makes end later; None where it is refused."""
    with Warehouse(root) as warehouse:
        try:
            schedule = load_parent(warehouse, run).schedule
        except WarehouseError as error:
            if any(why in str(error) for why in REFUSED):
                return None
            raise
    transfers = schedule.run.collectives.select("instance", saved_ps=pl.col("duration_ps") // 2)
    half = transfers.group_by("instance").agg(pl.col("saved_ps").max())
    changes = {
        "host": Costs(host_ratio=0),
        "link": Costs(half),
        "no skew": Costs(skew=False),
        "overlap": Costs(overlap=True),
        "ops": Costs(op_scale=np.full(schedule.run.ops.height, 0.7)),
    }
    before = (schedule.run.ops["start_ps"] + schedule.run.ops["duration_ps"]).to_numpy()
    found = []
    for name, costs in changes.items():
        after = before.copy()
        for number, warp in enumerate(schedule.replay(costs).warps):
            rows = np.flatnonzero(schedule.lines.of_op == number)
            after[rows] = warp.at(before.take(rows))
        if (after > before).any():
            found.append((name, int((after > before).sum())))
    return found


def _differing(table, one, other):
    if one.height != other.height:
        yield table, one.height, other.height
        return
    one, other = (_in_order(rows) for rows in (one, other))
    for name in one.columns:
        wrong = one[name].ne_missing(other[name]).sum()
        if wrong:
            yield table, name, wrong


def _in_order(rows):
    """Sorted by all columns, lists left out: both tables have the same rows then."""
    plain = [name for name, kind in rows.schema.items() if not isinstance(kind, pl.List)]
    return rows.select(plain).sort(plain, nulls_last=True)
