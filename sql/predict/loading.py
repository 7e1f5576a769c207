"""Reads a run from the warehouse as the tables that ingest/replay takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.replay.measured import NEEDED, Measured
from xlahouse.ingest.replay.moved import MOVED, Whole, columns_of
from xlahouse.ingest.replay.schedule import Schedule

if TYPE_CHECKING:
    from xlahouse.ingest.table import RunRow
    from xlahouse.sql.warehouse import Warehouse

MEASURED = ("xplane", "chrome")  # runs.source of a run that a profiler measured


@dataclass(frozen=True)
class Parent:
    """A measured run in a warehouse, ready to be replayed."""

    warehouse: Warehouse  # that holds it
    row: RunRow  # of runs
    schedule: Schedule  # to replay
    whole: Whole  # the rows that a replay moves


def find_run(warehouse: Warehouse, run: str) -> RunRow:
    """The row of a run.

    Raises:
        WarehouseError: there is no such run.
    """
    run_id = warehouse.resolve_run(run)
    row = warehouse.query("select * from runs where run_id = $run", {"run": run_id}).arrow()
    found: RunRow = row.to_pylist()[0]
    return found


def load_parent(warehouse: Warehouse, run: str) -> Parent:
    """Read a run and prepare its replay.

    Raises:
        WarehouseError: there is no such run, it was not measured, or it cannot be replayed.
    """
    found = find_run(warehouse, run)
    run_id = found["run_id"]
    if found["source"] not in MEASURED:
        raise WarehouseError(
            f"{found['name']}: its source is {found['source']}; a replay starts from a measured run"
        )
    names = sorted({*NEEDED, *MOVED})
    tables = {name: table_of(warehouse, name, run_id) for name in names}
    schedule = Schedule.of(Measured(found["name"], **{name: tables[name] for name in NEEDED}))
    spans = warehouse.query(
        "select category, device_id, start_ps, duration_ps from busy_intervals "
        "where run_id = $run and category in ('communicating', 'masked') order by all",
        {"run": run_id},
    ).pl()
    moved = {name: tables[name] for name in MOVED}
    return Parent(warehouse, found, schedule, Whole(moved, spans, _lines_of_hosts(schedule)))


def table_of(warehouse: Warehouse, table: str, run_id: str, whole: bool = False) -> pl.DataFrame:
    """A run's rows of a table, without run_id. whole: with columns that a replay does not need."""
    columns = columns_of(table)
    if not whole and table not in MOVED:
        columns = [name for name in columns if name in NEEDED[table]]
    names = ", ".join(f'"{name}"' for name in columns)
    order = "order by device_id, start_ps, duration_ps desc, op" if table == "ops" else ""
    return warehouse.query(
        f"select {names} from {table} where run_id = $run {order}", {"run": run_id}
    ).pl()


def _lines_of_hosts(schedule: Schedule) -> dict[str, int]:
    """Host -> the main line of its first device."""
    devices = schedule.run.devices.sort("device_id").drop_nulls("host")
    found: dict[str, int] = {}
    for device, host in devices.select("device_id", "host").iter_rows():
        if device in schedule.lines.main:
            found.setdefault(host, schedule.lines.main[device])
    return found
