"""Writes a warehouse as one DuckDB file that any client of DuckDB opens, with views and documentation."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from xlahouse.capture.errors import WarehouseError
from xlahouse.sql.blame import blame_file, engine_errors
from xlahouse.sql.describing import comment_table, create_all, create_tables, run_all
from xlahouse.sql.library import RUN_SETTINGS, TABLES
from xlahouse.sql.types import DUCKDB_TYPES, quote

if TYPE_CHECKING:
    import duckdb

    from xlahouse.sql.warehouse import Warehouse

# Old enough that clients some versions behind open the file.
STORAGE = "v1.2.0"
PLACE = "xlahouse_place"


def write_duckdb(
    warehouse: Warehouse,
    run_ids: Sequence[str],
    path: Path,
    copy: bool = False,
    on_event: Callable[[str], None] = lambda message: None,
) -> str | None:
    """Write runs into one file, which appears whole or not at all.

    With `copy` the file has the rows and can move. Without, it reads the files that the warehouse lists
    now; the line returned is the SQL statement that gives the file another place of the warehouse.

    Raises:
        WarehouseError: a file of the warehouse or the output cannot be read or written.
    """
    place = warehouse.place
    root = place.base if place.remote else os.path.abspath(place.base)
    with _new_file(path) as connection:
        if place.remote:
            connection.register_filesystem(place.system)
        if not copy:
            connection.execute(f"create macro {PLACE}() as {quote(root)}")
        # Views bind quickly over tables without files, and stay the same when the tables are replaced.
        create_tables(connection)
        create_all(connection, warehouse.library)
        for name in TABLES:
            on_event(name)
            _fill(connection, warehouse, name, run_ids, root, copy)
    return None if copy else f"create or replace macro {PLACE}() as {quote(root)};"


def open_tables(
    connection: duckdb.DuckDBPyConnection, warehouse: Warehouse, run_ids: Sequence[str]
) -> None:
    """Give a database every table over the files of some runs, in their place."""
    place = warehouse.place
    root = place.base if place.remote else os.path.abspath(place.base)
    if place.remote:
        connection.register_filesystem(place.system)
    connection.execute(f"create macro {PLACE}() as {quote(root)}")
    create_tables(connection)
    for name in TABLES:
        _fill(connection, warehouse, name, run_ids, root, copy=False)


def _fill(
    connection: duckdb.DuckDBPyConnection,
    warehouse: Warehouse,
    name: str,
    run_ids: Sequence[str],
    root: str,
    copy: bool,
) -> None:
    """Give a table its rows, or put a view over its files in its place."""
    kept = set(run_ids)
    if name == RUN_SETTINGS.name:
        marks = ", ".join("?" * len(TABLES[name].columns))
        for row in warehouse.query(f"from {name}").rows:
            if row[0] in kept:
                connection.execute(f"insert into {name} values ({marks})", list(row))
    base = warehouse.place.base
    files = [file.removeprefix(base) for file in warehouse.files(name) if _run_of(file) in kept]
    if not files:
        return
    prefix = quote(root) if copy else f"{PLACE}()"
    listed = ", ".join(f"{prefix} || {quote(file)}" for file in files)
    # an older ingest's files lack columns and still count
    reads = "union_by_name = true, hive_partitioning = true, hive_types = {'run_id': varchar}"
    if name == "runs":
        reads = "union_by_name = true, hive_partitioning = false"
    source = f"read_parquet([{listed}], {reads})"
    found = {row[0] for row in connection.execute(f"describe select * from {source}").fetchall()}
    columns = ", ".join(
        column.name
        if column.name in found
        else f"cast(null as {DUCKDB_TYPES[column.type]}) as {column.name}"
        for column in TABLES[name].columns
    )
    if copy:
        connection.execute(f"insert into {name} by name select {columns} from {source}")
        return
    connection.execute(f"drop table {name}")
    connection.execute(f"create view {name} as select {columns} from {source}")
    run_all(connection, comment_table(TABLES[name], "view"))


def _run_of(file: str) -> str:
    """The run that a file belongs to, by its folder, or its own name in the table `runs`."""
    parts = file.split("/")
    return parts[-2].removeprefix("run_id=") if "=" in parts[-2] else Path(parts[-1]).stem


@contextmanager
def _new_file(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database beside `path`, which takes its place at the end."""
    import duckdb

    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        connection = duckdb.connect(str(beside), config={"storage_compatibility_version": STORAGE})
        connection.execute("set enable_progress_bar = false")  # it goes to stdout, among our rows
        try:
            yield connection
        finally:
            connection.close()
        os.replace(beside, path)
    except engine_errors() as error:
        raise blame_file(error) from error
    except OSError as error:
        raise WarehouseError(
            f"{path} cannot be written: {error.strerror or error}; name a file with -o where there "
            "is free space and write permission"
        ) from error
    finally:
        for left in (beside, beside.with_name(f"{beside.name}.wal")):
            with suppress(FileNotFoundError):
                left.unlink()
