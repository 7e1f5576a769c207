"""The locked database behind a warehouse: holds what queries named so far, and nothing else."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.files import open_fs
from xlahouse.sql.blame import blame_file
from xlahouse.sql.library import RUN_SETTINGS, TABLES, Library
from xlahouse.sql.listing import read_run_settings

if TYPE_CHECKING:
    import duckdb

# The types of ingest/schema.py, for tables that no run has rows of.
DUCKDB_TYPES = {
    "str": "varchar",
    "bool": "boolean",
    "int": "bigint",
    "uint": "ubigint",
    "float": "double",
    "time": "timestamptz",
    "ints": "bigint[]",
    "mesh": "struct(axis varchar, size bigint)[]",
    "source_files": "struct(path varchar, bytes bigint, sha256 varchar)[]",
    "files": 'struct("table" varchar, path varchar, rows bigint)[]',
}


class Database:
    """A database in memory that can open the listed files and no others.

    Args:
        root: the warehouse's folder or URL.
        files: table -> its files.
        run_ids: the warehouse's runs.
    """

    def __init__(self, root: str, files: dict[str, list[str]], run_ids: list[str]) -> None:
        self._root, self._files, self._run_ids = root, files, run_ids
        self._installed: set[str] = set()
        self._connection = _locked_connection(root, files)

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A cursor for one query."""
        return self._connection.cursor()

    def close(self) -> None:
        """Release everything."""
        self._connection.close()

    def install(self, library: Library, names: set[str]) -> None:
        """Create what the names rest on.

        Raises:
            WarehouseError: a file vanished, is damaged, or was written by an older ingest.
            ViewError: a view is at fault.
        """
        tables, views = library.closure(names)
        for table in sorted(tables - self._installed):
            self._install_table(table)
        for view in views:
            if view.name not in self._installed:
                self._create(view.name, view.sql)
        for name in sorted(names & set(library.pointers) - self._installed):
            self._create(name, f"select * from {library.pointers[name]}")

    def _install_table(self, name: str) -> None:
        files = self._files.get(name)
        columns = TABLES[name].columns
        if files:
            names = ", ".join(column.name for column in columns)
            listed = ", ".join(_quote(file) for file in files)
            # An older run's row lacks columns and still counts; other tables have to be ingested again.
            self._create(
                name,
                f"select {names} from read_parquet([{listed}], hive_partitioning = false, "
                f"union_by_name = {name == 'runs'})",
            )
            return
        typed = ", ".join(f"{column.name} {DUCKDB_TYPES[column.type]}" for column in columns)
        self._connection.execute(f"create table {name} ({typed})")
        if name == RUN_SETTINGS.name:
            places = ", ".join(f"${place}" for place in range(1, len(columns) + 1))
            for row in read_run_settings(self._root, self._run_ids):
                self._connection.execute(f"insert into {name} values ({places})", list(row))
        self._installed.add(name)

    def _create(self, name: str, sql: str) -> None:
        import duckdb

        try:
            self._connection.execute(f"create view {name} as {sql}")
        except duckdb.BinderException as error:
            text = str(error).partition("\n")[0]
            raise WarehouseError(
                f"{name}: {text}; an older ingest wrote it, ingest again"
            ) from error
        except duckdb.Error as error:
            raise blame_file(error) from error
        self._installed.add(name)


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _locked_connection(root: str, files: dict[str, list[str]]) -> duckdb.DuckDBPyConnection:
    """A database in memory that can open the listed files and nothing else, for good."""
    import duckdb

    connection = duckdb.connect(
        ":memory:",
        config={
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "python_enable_replacements": False,
            "temp_directory": os.path.join(tempfile.gettempdir(), f"xlahouse-{os.getpid()}"),
        },
    )
    if "://" in root:
        connection.register_filesystem(open_fs(root)[0])
    allowed = ", ".join(_quote(file) for listed in files.values() for file in listed)
    connection.execute(f"set allowed_paths = [{allowed}]")
    # Views over views bind the same files many times; their footers are read once.
    connection.execute("set parquet_metadata_cache = true")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection
