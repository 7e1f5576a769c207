"""The locked database behind a warehouse: it has the relations that queries named so far, and no more."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from xlahouse.capture.errors import WarehouseError
from xlahouse.sql.blame import blame_file, headline
from xlahouse.sql.describing import create_all, create_tables
from xlahouse.sql.library import RUN_SETTINGS, TABLES, Library
from xlahouse.sql.listing import READINGS, Listing, read_listing, read_run_settings
from xlahouse.sql.place import Place
from xlahouse.sql.types import DUCKDB_TYPES, quote

if TYPE_CHECKING:
    import duckdb

FILES_OF = "xlahouse_files_of_"  # variables of a connection: a query reads its own list of files


class Database:
    """A database in memory that can open only the warehouse's files.

    Args:
        place: the warehouse's folder.
        limits: settings of DuckDB that limit the memory and threads of a query.
    """

    def __init__(self, place: Place, limits: Mapping[str, str] | None = None) -> None:
        self._place, self._limits = place, dict(limits or {})
        self._installed: set[str] = set()
        self._connection = _locked_connection(place, self._limits)
        self._described: duckdb.DuckDBPyConnection | None = None

    @cached_property
    def listing(self) -> Listing:
        """The runs and their files, as they are when first asked for.

        Raises:
            WarehouseError: the folder cannot be read.
        """
        return read_listing(self._connection, self._place)

    def cursor(
        self, tables: Iterable[str] = (), runs: frozenset[str] | None = None
    ) -> duckdb.DuckDBPyConnection:
        """A cursor for one query on tables that are installed, with the files of some runs; None: of all."""
        cursor = self._connection.cursor()
        for table in tables:
            if files := self.listing.files.get(table):
                mine = files if runs is None else [file for file in files if run_of(file) in runs]
                _point(cursor, table, mine or files[:1])  # without any, DuckDB knows no columns
        return cursor

    def close(self) -> None:
        """Release everything."""
        self._connection.close()
        if self._described is not None:
            self._described.close()

    def install(self, library: Library, names: set[str]) -> set[str]:
        """Create the tables that the names rest on, and the views that they name; give the tables.

        Raises:
            WarehouseError: a file vanished, is damaged, or was written by an older ingest.
            ViewError: a view is at fault.
        """
        tables, _ = library.closure(names)
        for table in sorted(tables - self._installed):
            self._install_table(table)
        for name in sorted(names - tables - self._installed):
            self._create(name, library.statement(name))
        return tables

    def describe_all(self, library: Library) -> duckdb.DuckDBPyConnection:
        """A database that opens no file and has all relations of `library`, without rows."""
        if self._described is None:
            self._described = _locked_connection(self._place, self._limits)
            create_tables(self._described)
            create_all(self._described, library)
        return self._described.cursor()

    def _install_table(self, name: str) -> None:
        columns = TABLES[name].columns
        if name == RUN_SETTINGS.name:
            self._connection.execute(empty_table(name))
            places = ", ".join(f"${place}" for place in range(1, len(columns) + 1))
            for row in read_run_settings(self._place, list(self.listing.names)):
                self._connection.execute(f"insert into {name} values ({places})", list(row))
        elif name == "runs" and self.listing.runs_sql:
            self._create(name, self.listing.runs_sql, "table")
            own = self.listing.own_rows_sql
            if own and not self._has_the_runs():  # an ingest replaced the index since it was listed
                self._connection.execute("drop table runs")
                self._create(name, own, "table")
        elif files := self.listing.files.get(name):
            _point(self._connection, name, files[:1])  # all have the same columns
            self._create(name, table_sql(name))
        else:
            self._connection.execute(empty_table(name))
        self._installed.add(name)

    def _create(self, name: str, sql: str, kind: str = "view") -> None:
        """Create a view, or a table for rows of runs, whose files may be replaced under the same name."""
        import duckdb

        try:
            self._execute(f"create {kind} {name} as {sql}", READINGS if kind == "table" else 1)
        except duckdb.BinderException as error:
            raise WarehouseError(
                f"{name}: {headline(error)}; an older ingest wrote it: ingest again"
            ) from error
        except duckdb.Error as error:
            raise blame_file(error) from error
        self._installed.add(name)

    def _has_the_runs(self) -> bool:
        found = self._connection.execute("select run_id from runs").fetchall()
        return sorted(run_id for (run_id,) in found) == sorted(self.listing.names)

    def _execute(self, sql: str, times: int) -> None:
        """Execute a statement, again where a file that it reads was replaced meanwhile."""
        import duckdb

        for left in reversed(range(times)):
            try:
                self._connection.execute(sql)
                return
            except duckdb.Error:
                if not left:
                    raise


def table_sql(name: str) -> str:
    """A table over the files that a query's cursor points it to.

    A filter on run_id, which their folders name, opens no other run's.
    """
    names = ", ".join(column.name for column in TABLES[name].columns)
    return (
        f"select {names} from read_parquet(getvariable('{FILES_OF}{name}'), "
        "hive_partitioning = true, hive_types = {'run_id': varchar})"
    )


def _point(connection: duckdb.DuckDBPyConnection, table: str, files: list[str]) -> None:
    connection.execute(f"set variable {FILES_OF}{table} = $1", [files])


def run_of(file: str) -> str:
    """The run whose rows a table's file holds, by its folder."""
    return file.split("/")[-2].removeprefix("run_id=")


def empty_table(name: str) -> str:
    """The statement that creates a table without rows, typed as a full one."""
    columns = TABLES[name].columns
    typed = ", ".join(f"{column.name} {DUCKDB_TYPES[column.type]}" for column in columns)
    return f"create table {name} ({typed})"


def _locked_connection(place: Place, limits: dict[str, str]) -> duckdb.DuckDBPyConnection:
    """A database in memory that can open only the warehouse's files; its settings are locked."""
    import duckdb

    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,
            "temp_directory": os.path.join(tempfile.gettempdir(), f"xlahouse-{os.getpid()}"),
            **limits,
        },
    )
    if place.remote:
        connection.register_filesystem(place.system)
    folders = ", ".join(quote(place.url(name)) for name in ("tables", "index"))
    connection.execute(f"set allowed_directories = [{folders}]")
    connection.execute("set timezone = 'UTC'")  # an instant reads the same on every machine
    # Parts of a query bind the same files again; their footers are read once.
    connection.execute("set parquet_metadata_cache = true")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection
