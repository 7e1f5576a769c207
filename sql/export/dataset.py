"""Writes runs as a dataset for people without xlahouse: every view as Parquet and CSV, and a dictionary."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.table import Table
from xlahouse.sql.blame import blame, blame_file, engine_errors
from xlahouse.sql.export.catalogue import documented, find_view
from xlahouse.sql.export.dictionary import (
    DescribedColumn,
    DescribedFile,
    dictionary_json,
    dictionary_markdown,
    readme,
    unit_of,
)
from xlahouse.sql.export.duckdb_file import open_tables
from xlahouse.sql.formats import write_result
from xlahouse.sql.interrupt import QueryWatch
from xlahouse.sql.library import TABLES, Library, View
from xlahouse.sql.result import Result
from xlahouse.sql.types import quote, quote_name

if TYPE_CHECKING:
    import duckdb

    from xlahouse.sql.warehouse import Warehouse

# Facts about whole runs; rows of events are in the views.
RUN_TABLES = ("runs", "run_settings", "devices", "issues", "coverage")
OMITTED = {"runs": ("files", "file_crcs")}  # of the warehouse: not facts about a run
DICTIONARY = "dictionary.json"
OWN_PARTS = {DICTIONARY, "DICTIONARY.md", "README.md", "parquet", "csv"}


@dataclass(frozen=True)
class _Part:
    """A table or view to write; the documentation is as in DescribedFile."""

    name: str  # as in DescribedFile
    kind: str  # as in DescribedFile
    version: int | None  # as in DescribedFile
    sql: str  # its rows
    row: str  # as in DescribedFile
    description: str  # as in DescribedFile
    meanings: dict[str, str]  # column -> its documentation


def write_dataset(
    warehouse: Warehouse,
    run_ids: Sequence[str],
    output: Path,
    views: Sequence[str] = (),
    csv: bool = True,
    on_event: Callable[[str], None] = lambda message: None,
    force: bool = False,
) -> list[DescribedFile]:
    """Write tables and views over some runs into a folder, which appears whole or not at all.

    Views over several runs see only the chosen ones. The same warehouse gives the same bytes.

    Args:
        warehouse: that has the runs.
        run_ids: the runs.
        output: a new or empty folder, or an earlier dataset, which is replaced.
        views: names of views; all public ones without any. Tables about runs are always there.
        csv: whether to write CSV beside Parquet.
        on_event: called with the name of each file when it begins.
        force: put it beside the files of another folder, which stay.

    Raises:
        ViewError: there is no such view.
        WarehouseError: a file of the warehouse or the output cannot be read or written.
    """
    library = warehouse.library
    chosen = [find_view(library, name) for name in views] or library.public
    parts = [_table_part(TABLES[name]) for name in RUN_TABLES]
    unique = {view.name: view for view in chosen}
    shared = library.shared({name} for name in unique)
    parts += [_view_part(unique[name], library.statement(name, shared)) for name in sorted(unique)]
    with _new_folder(output, force) as folder, _database(warehouse, run_ids, folder) as connection:
        (folder / "parquet").mkdir()
        if csv:
            (folder / "csv").mkdir()
        described, kept = [], set[str]()
        for part in parts:
            on_event(part.name)
            _keep(connection, library, part, shared, kept)
            described.append(_write(connection, part, folder, csv))
        _describe(connection, described, folder, csv)
    return described


def _table_part(table: Table) -> _Part:
    columns = [c for c in table.columns if c.name not in OMITTED.get(table.name, ())]
    meanings = {column.name: column.meaning for column in columns}
    sql = f"select {', '.join(meanings)} from {table.name}"
    return _Part(table.name, "table", None, sql, f"one row per {table.row}", "", meanings)


def _view_part(view: View, sql: str) -> _Part:
    grain, columns = documented(view)
    return _Part(view.name, "view", view.version, sql, grain, view.description, dict(columns))


@contextmanager
def _database(
    warehouse: Warehouse, run_ids: Sequence[str], folder: Path
) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with the tables of the chosen runs only, so that views over runs see no other run."""
    import duckdb

    # One thread: several add up fractions in an order of their own, and the last digit varies.
    spill = folder / ".spill"
    connection = duckdb.connect(config={"threads": 1, "temp_directory": str(spill)})
    connection.execute("set enable_progress_bar = false")  # it goes to stdout, among our rows
    try:
        connection.execute("set timezone = 'UTC'")
        try:
            open_tables(connection, warehouse, run_ids)
        except engine_errors() as error:
            raise blame_file(error) from error
        yield connection
    finally:
        connection.close()
        shutil.rmtree(spill, ignore_errors=True)


def _keep(
    connection: duckdb.DuckDBPyConnection,
    library: Library,
    part: _Part,
    shared: Sequence[str],
    kept: set[str],
) -> None:
    """Compute the views below a part that other parts rest on too, once for all."""
    if part.kind == "view":
        for view, sql in library.kept_below({part.name}, shared, kept):
            with blame(sql):
                connection.execute(f"create table {view} as {sql}")
            kept.add(view)


def _write(
    connection: duckdb.DuckDBPyConnection, part: _Part, folder: Path, csv: bool
) -> DescribedFile:
    """Compute a part once, into Parquet; the CSV is copied from there."""
    import pyarrow.parquet as pq

    path = folder / "parquet" / f"{part.name}.parquet"
    files = [f"parquet/{path.name}"]
    sql = f"select * from ({part.sql}) order by all"
    with blame(sql):
        result = Result(connection.cursor().sql(sql), sql, QueryWatch(connection))
    rows = write_result(result, "parquet", path)
    source = f"read_parquet({quote(str(path))})"
    if csv:
        files.append(f"csv/{part.name}.csv")
        target = quote(str(folder / files[-1]))
        with blame(sql):
            connection.execute(f"copy (from {source}) to {target} (format csv, header)")
    schema = pq.read_schema(path)
    columns = tuple(
        DescribedColumn(
            field.name, str(field.type), unit_of(field.name), part.meanings.get(field.name, "")
        )
        for field in schema
    )
    runs = _runs_in(connection, source, schema.names)
    return DescribedFile(
        part.name, part.kind, part.version, part.row, part.description, rows, runs, tuple(files),
        columns,
    )  # fmt: skip


def _runs_in(
    connection: duckdb.DuckDBPyConnection, source: str, columns: Sequence[str]
) -> tuple[str, ...]:
    """The runs that any column of a file names."""
    names = [name for name in columns if name == "run_id" or name.endswith("_run_id")]
    if not names:
        return ()
    parts = " union all ".join(f"select {quote_name(name)} as run from {source}" for name in names)
    sql = f"select distinct run from ({parts}) where run is not null order by run"
    return tuple(str(run) for (run,) in connection.execute(sql).fetchall())


def _describe(
    connection: duckdb.DuckDBPyConnection,
    described: Sequence[DescribedFile],
    folder: Path,
    csv: bool,
) -> None:
    found = connection.execute("select run_id, name from runs order by run_id").fetchall()
    runs = [{"run_id": run_id, "name": name} for run_id, name in found]
    (folder / DICTIONARY).write_bytes(dictionary_json(described, runs))
    text = dictionary_markdown(described, runs)
    (folder / "DICTIONARY.md").write_text(text, encoding="utf-8", newline="\n")
    (folder / "README.md").write_text(readme(len(runs), csv), encoding="utf-8", newline="\n")


@contextmanager
def _new_folder(output: Path, force: bool) -> Iterator[Path]:
    """A folder beside `output`, which takes its place at the end."""
    output = output.resolve()
    beside = output.with_name(f".{output.name}.{os.getpid()}")
    old = output.with_name(f".{output.name}.{os.getpid()}.old")
    try:
        others = _others(output, force)
        beside.mkdir(parents=True)
        yield beside
        if others:
            _move_parts(beside, output)
            return
        if output.exists():
            output.rename(old)
        beside.rename(output)
    except OSError as error:
        raise WarehouseError(
            f"{output} cannot be written: {error.strerror or error}; name a folder with -o where "
            "there is free space and write permission"
        ) from error
    finally:
        for left in (beside, old):
            shutil.rmtree(left, ignore_errors=True)


def _others(output: Path, force: bool) -> set[str]:
    """Names of what is in the folder and not of a dataset; they are there only by force.

    Raises:
        WarehouseError: it is a file, or a folder with something else in it, and not forced.
    """
    if output.exists() and not output.is_dir():
        raise WarehouseError(f"{output} is a file; name a folder")
    names = {path.name for path in output.iterdir()} if output.is_dir() else set()
    others = names - OWN_PARTS if {DICTIONARY, "parquet"} <= names else names
    if others and not force:
        raise WarehouseError(
            f"{output} has files that are not a dataset's; give --force to write beside them, or name a "
            "new folder"
        )
    return others


def _move_parts(folder: Path, output: Path) -> None:
    """Put a dataset's files and folders in the place of those of their names."""
    for part in folder.iterdir():
        target = output / part.name
        if target.is_dir():
            shutil.rmtree(target)
        part.replace(target)
