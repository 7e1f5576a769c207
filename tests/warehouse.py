"""Builds small warehouses, on disk or in a database, from rows given as mappings.

Columns that are not given are NULL.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tests.device_steps import with_device_steps
from xlahouse.ingest.schema import BY_NAME, INGEST_VERSION, LAYOUT_VERSION
from xlahouse.ingest.store.settings import RunSettings
from xlahouse.sql.database import SLOW_OPTIMIZERS, empty_table
from xlahouse.sql.library import TABLES
from xlahouse.sql.listing import settings_row

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
NUMBERS = count()
# of a database that plans queries as a warehouse does
CONFIG: dict[str, Any] = {"threads": "1", "disabled_optimizers": SLOW_OPTIMIZERS}


def write_warehouse(root: Path, tables: Rows) -> Path:
    """A warehouse at `root` that holds the rows, laid out as ingest does.

    `run_id` is `r` where a row has none; every run that a row names gets a row in `runs`. The
    pseudo-table `run_settings` becomes the settings files. The table `device_steps` is made from ops
    and busy intervals, as ingest makes it, unless it is given.
    """
    root.mkdir(parents=True, exist_ok=True)
    marker = {"layout_version": LAYOUT_VERSION, "xlahouse_version": "0"}
    (root / "warehouse.json").write_text(json.dumps(marker))
    rows = whole(tables)
    for row in rows.pop("run_settings", []):
        _write_settings(root, row)
    runs = rows.pop("runs")
    by_run = {name: _by_run(name, given) for name, given in rows.items()}
    for run in runs:
        run_id = run["run_id"]
        held = {name: given[run_id] for name, given in by_run.items() if run_id in given}
        files = [_write(root, name, run_id, mine) for name, mine in held.items()]
        row = {**run, "files": files}
        path = root / "tables" / "runs" / f"{run_id}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist([row], BY_NAME["runs"].schema), path)
    return root


def whole(tables: Rows) -> dict[str, list[dict[str, Any]]]:
    """The rows with their run's id, those that ingest makes of others, and a row of `runs` for each run."""
    tables = with_device_steps(tables)
    rows = {name: [{"run_id": "r", **row} for row in given] for name, given in tables.items()}
    runs = {row["run_id"]: row for row in rows.pop("runs", [])}
    for name, given in rows.items():
        for row in given if name != "run_settings" else ():
            runs.setdefault(row["run_id"], {"run_id": row["run_id"]})
    rows["runs"] = [
        {"name": run_id, "ingest_version": INGEST_VERSION, **run}
        for run_id, run in (runs or {"r": {"run_id": "r"}}).items()
    ]
    return rows


@cache
def _instance() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config=CONFIG)


def empty_database() -> duckdb.DuckDBPyConnection:
    """A schema without relations, whose queries are planned as a warehouse's; all share one instance."""
    database = _instance().cursor()
    name = f"of_test_{next(NUMBERS)}"
    database.execute(f"create schema {name}")
    database.execute(f"use {name}")
    return database


def fill_tables(database: duckdb.DuckDBPyConnection, tables: Rows) -> None:
    """Create every table in a database, with the rows that a warehouse of them has."""
    rows = whole(tables)
    settings = [
        settings_row(
            row["run_id"],
            msgspec.convert({k: v for k, v in row.items() if k != "run_id"}, RunSettings),
        )
        for row in rows.pop("run_settings", [])
    ]
    for name in TABLES:
        database.execute(empty_table(name))
    for name, given in rows.items():
        _check_columns(name, given)
        database.register("given", pa.Table.from_pylist(given, BY_NAME[name].schema))
        database.execute(f"insert into {name} by name select * from given")
        database.unregister("given")
    for row in settings:
        places = ", ".join("?" * len(row))
        database.execute(f"insert into run_settings values ({places})", list(row))


def _check_columns(table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    known = set(BY_NAME[table].schema.names)
    for row in rows:
        assert set(row) <= known, f"{table} has no column {set(row) - known}"


def _by_run(table: str, rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """run_id -> its rows of a table, all of whose columns exist."""
    _check_columns(table, rows)
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["run_id"], []).append(row)
    return found


def _write(root: Path, table: str, run_id: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    path = root / "tables" / table / f"run_id={run_id}" / "part-0.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, BY_NAME[table].schema), path)
    return {"table": table, "path": str(path.relative_to(root)), "rows": len(rows)}


def _write_settings(root: Path, row: dict[str, Any]) -> None:
    path = root / "settings" / f"{row['run_id']}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({key: value for key, value in row.items() if key != "run_id"}))
