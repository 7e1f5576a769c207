"""The locked database behind a warehouse: it has the relations that queries named so far, and no more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from xlahouse.capture.errors import DamagedFileError, WarehouseError
from xlahouse.sql.blame import blame_file, blame_row, engine_errors, headline
from xlahouse.sql.describing import create_all, create_tables
from xlahouse.sql.interrupt import left_behind
from xlahouse.sql.library import RUN_SETTINGS, TABLES, Library
from xlahouse.sql.limits import spill_folder
from xlahouse.sql.listing import (
    FEW_RUNS,
    READINGS,
    Listing,
    PackedRuns,
    read_listing,
    read_run_settings,
    run_of,
)
from xlahouse.sql.place import Place
from xlahouse.sql.types import DUCKDB_TYPES, quote

if TYPE_CHECKING:
    import duckdb

HIVE = "hive_types = {'run_id': varchar}"
FILES_OF = "xlahouse_files_of_"  # variables of a connection: a query reads its own list of files
PACK_OF = "xlahouse_pack_of_"  # the same of the file of many runs
# Both walk the whole plan for each projection in it: on deep views a third of a query on a small run,
# and hardly anything is won on one of 17 million ops.
SLOW_OPTIMIZERS = "projection_pullup,projection_placement"


class Database:
    """A database in memory that can open only the warehouse's files.

    Args:
        place: the warehouse's folder.
        limits: settings of DuckDB that limit the memory and threads of a query.
    """

    def __init__(self, place: Place, limits: Mapping[str, str] | None = None) -> None:
        self._place, self._limits = place, dict(limits or {})
        self._installed: set[str] = set()
        self._split: set[str] = set()  # tables whose files were found to lack columns
        # table -> variable of a connection -> run -> the files that it lists, which have the same columns
        self._groups: dict[str, dict[str, dict[str, list[str]]]] = {}
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
            self._point_all(cursor, table, runs)
        return cursor

    def split(
        self, error: BaseException, tables: Iterable[str], cursor: duckdb.DuckDBPyConnection
    ) -> bool:
        """Whether a query failed for files that lack columns, which have NULLs from now on.

        Args:
            error: of the query.
            tables: that it reads.
            cursor: it ran on; it is then pointed to all runs.
        """
        # The rows of `runs` are not files of columns: _install_runs reads them, whatever they lack.
        read = {table for table in tables if self.listing.files.get(table)}
        lacking = [t for t in sorted(read - self._split - {"runs"}) if _lacks(error, t)]
        for table in lacking:
            self._split_table(table)
            self._point_all(cursor, table, None)
        return bool(lacking)

    def blame(self, error: Exception, tables: Iterable[str]) -> None:
        """Raise the error of a query again as that of the file that is at fault, if one is.

        Raises:
            WarehouseError: a file of the tables is gone, or cannot be reached.
            DamagedFileError: it is there, and damaged.
        """
        from xlahouse.sql.damage import damaged_file

        files = [file for table in tables for file in self.listing.files.get(table, ())]
        file = damaged_file(error, files, self._connection.cursor())
        if file is None:
            return
        found = blame_file(error, file)
        if self._place.can_be_opened(file):
            found = DamagedFileError(str(found), file, headline(error))
        raise found from error

    def over(self, listing: Listing) -> Database:
        """Another database of some of the runs: results of this one can be read on."""
        other = Database(self._place, self._limits)
        other.listing = listing
        return other

    def _point_all(
        self, connection: duckdb.DuckDBPyConnection, table: str, runs: frozenset[str] | None
    ) -> None:
        packed = self._packed(table)
        if packed is not None and runs is not None and len(runs) > FEW_RUNS:
            runs = None
        for variable, by_run in self._groups.get(table, {}).items():
            mine = [
                file
                for run, files in by_run.items()
                if (run in runs if runs is not None else packed is None or run not in packed.runs)
                for file in files
            ]
            # without any, DuckDB knows no columns
            none = next(iter(by_run.values()))[:1] if packed is None else [packed.nothing(table)]
            connection.execute(f"set variable {variable} = $1", [mine or none])
        if packed is not None:
            file = packed.rows(table) if runs is None else packed.nothing(table)
            connection.execute(f"set variable {PACK_OF}{table} = $1", [[file]])

    def _packed(self, table: str) -> PackedRuns | None:
        """The pack, where a table reads it: not one of whose files some lack columns."""
        packed = self.listing.packed
        return packed if packed and packed.has(table) and table not in self._split else None

    def _split_table(self, name: str) -> None:
        """Read each kind of file of a table for itself, with NULL for the columns that it lacks."""
        self._split.add(name)
        every = self._split_by_version(name, all_of_them=True)
        self._connection.execute(f"create or replace view {name} as {every}")

    def _split_by_version(self, name: str, all_of_them: bool = False) -> str:
        """The SELECT of a table. Files of other versions may lack columns; those of this one have all."""
        files = self.listing.files[name]
        versions = self.listing.versions
        odd = [file for file in files if all_of_them or (versions and run_of(file) in versions)]
        ours = [file for file in files if file not in set(odd)] if odd else files
        kinds: dict[str, list[str]] = {table_columns(name): ours} if ours else {}
        for file in odd:
            kinds.setdefault(self._columns_in(file, name), []).append(file)
        variables = [f"{FILES_OF}{name}"] + [
            f"{FILES_OF}{name}_{at}" for at in range(1, len(kinds))
        ]
        self._groups[name] = dict(zip(variables, map(_by_run, kinds.values()), strict=True))
        self._point_all(self._connection, name, frozenset())  # to one file of each kind
        parts = [
            table_sql(variable, columns) for variable, columns in zip(variables, kinds, strict=True)
        ]
        packed = self._packed(name)
        if packed is not None:
            parts.append(
                f"select {table_columns(name)} from read_parquet(getvariable('{PACK_OF}{name}'), "
                f"hive_partitioning = false){packed.counted}"
            )
        return " union all ".join(parts)

    def _columns_in(self, file: str, table: str) -> str:
        """The columns of a table as one of its files has them; NULL, typed, for one that it lacks."""
        reading = f"describe from read_parquet({quote(file)}, hive_partitioning = true, {HIVE})"
        found = {row[0]: row[1] for row in self._connection.execute(reading).fetchall()}
        parts = []
        for column in TABLES[table].columns:
            given = column.name if column.name in found else "null"
            kind = DUCKDB_TYPES[column.type]
            same = found.get(column.name) == kind
            parts.append(column.name if same else f"cast({given} as {kind}) as {column.name}")
        return ", ".join(parts)

    def close(self) -> None:
        """Release everything, unless a call that did not end uses it: DuckDB refuses to close then."""
        for connection in (self._connection, self._described):
            if connection is not None and not left_behind():
                connection.close()

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
        if name == RUN_SETTINGS.name:
            self._connection.execute(empty_table(name))
            insert = f"insert into {name} values ({', '.join('?' * len(TABLES[name].columns))})"
            for row in read_run_settings(self._place, list(self.listing.names)):
                self._connection.execute(insert, list(row))
        elif name == "runs" and self.listing.runs_sql:
            self._install_runs(self.listing.runs_sql, self.listing.own_rows_sql)
        elif self.listing.files.get(name):
            self._create_table(name)
        else:
            self._connection.execute(empty_table(name))
        self._installed.add(name)

    def _install_runs(self, sql: str, own_rows: str | None) -> None:
        """Create `runs` from the index, else from the runs' own rows: it may be replaced or removed."""
        try:
            self._create("runs", sql, "table")
        except WarehouseError:
            if own_rows is None:
                raise
            self._create("runs", own_rows, "table")
            return
        if own_rows and not self._has_the_runs():
            self._connection.execute("drop table runs")
            self._create("runs", own_rows, "table")

    def _create_table(self, name: str) -> None:
        """Create a table over its files; one that lacks columns, as an older ingest's may, has NULLs.

        Raises:
            WarehouseError: a file vanished or is damaged.
        """
        import duckdb

        try:
            try:
                self._connection.execute(f"create view {name} as {self._split_by_version(name)}")
            except duckdb.BinderException:
                self._split_table(name)
        except engine_errors() as error:
            self.blame(error, [name])
            raise blame_file(error) from error

    def _create(self, name: str, sql: str, kind: str = "view") -> None:
        """Create a view, or a table for rows of runs, whose files may be replaced under the same name."""
        import duckdb

        try:
            self._execute(f"create {kind} {name} as {sql}", READINGS if kind == "table" else 1)
        except duckdb.BinderException as error:
            raise WarehouseError(
                f"{name}: {headline(error)}; an older ingest wrote it: ingest again"
            ) from error
        except engine_errors() as error:
            if name == "runs":
                blame_row(error, self._place, self.listing.names)
            raise blame_file(error) from error
        self._installed.add(name)

    def _has_the_runs(self) -> bool:
        found = self._connection.execute("select run_id from runs").fetchall()
        return sorted(run_id for (run_id,) in found) == sorted(self.listing.names)

    def _execute(self, sql: str, times: int) -> None:
        """Execute a statement, again where a file that it reads was replaced meanwhile."""
        for left in reversed(range(times)):
            try:
                self._connection.execute(sql)
                return
            except engine_errors():
                if not left:
                    raise


def table_columns(name: str) -> str:
    """The columns of a table, as a SELECT lists them."""
    return ", ".join(column.name for column in TABLES[name].columns)


def table_sql(variable: str, columns: str) -> str:
    """Columns of the files that a variable of a query's cursor lists.

    A filter on run_id, which their folders name, opens no other run's.
    """
    return f"select {columns} from read_parquet(getvariable('{variable}'), hive_partitioning = true, {HIVE})"


def _lacks(error: BaseException, table: str) -> bool:
    """Whether DuckDB's error is about a column of a table that a file of it lacks."""
    text = str(error)
    named = re.search(r'column (?:named )?"([^"]+)"', text)
    known = {column.name for column in TABLES[table].columns}
    return named is not None and named[1] in known


def _by_run(files: list[str]) -> dict[str, list[str]]:
    """Run -> its files among these."""
    found: dict[str, list[str]] = {}
    for file in files:
        found.setdefault(run_of(file), []).append(file)
    return found


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
            "disabled_optimizers": SLOW_OPTIMIZERS,
            "temp_directory": spill_folder(),
            **limits,
        },
    )
    connection.execute("set enable_progress_bar = false")  # it goes to stdout, among our rows
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
