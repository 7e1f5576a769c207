"""Opens a warehouse and answers queries on it, reading only what a query names."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xlahouse.capture.errors import QueryError, WarehouseError
from xlahouse.sql.blame import blame, blame_file, place
from xlahouse.sql.guard import Checked, check
from xlahouse.sql.library import RUN_SETTINGS, TABLES, Library, shipped
from xlahouse.sql.listing import files_by_table, read_run_settings, read_runs
from xlahouse.sql.nearest import suggest
from xlahouse.sql.result import Result

if TYPE_CHECKING:
    import duckdb

# What run_summary knows beyond the setup; Warehouse.metrics gives these.
HEADLINE = (
    "device_count",
    "expected_device_count",
    "inferred",
    "duration_ps",
    "collectives",
    "payload_bytes",
    "wire_bytes",
    "unclassified_ratio",
    "requests",
    "excluded_requests",
    "ttft_s",
    "tpot_s",
    "output_tokens_per_s",
    "measured_ttft_s",
    "measured_tpot_s",
    "window_ps",
    "comm_compute_ratio",
    "exposed_ratio",
    "overlapped_ratio",
    "sync_wait_ratio",
    "idle_ratio",
)

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


class Warehouse:
    """A warehouse as it stands when it is opened; open it again to see later ingests.

    Args:
        root: the folder, or an fsspec URL.

    Raises:
        WarehouseError: there is no warehouse at `root`.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = os.fspath(root)
        self.library: Library = shipped()
        self._runs = read_runs(self.root)
        self._files = files_by_table(self.root, self._runs)
        self._installed: set[str] = set()
        self._connection = _locked_database(self.root, self._files)

    def __enter__(self) -> Warehouse:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the database; results that were not read yet are lost."""
        self._connection.close()

    def query(self, sql: str, params: Mapping[str, object] | None = None) -> Result:
        """Run one reading statement; `$name` in it stands for `params["name"]`.

        Raises:
            QueryError: the statement is not allowed, does not parse, or names what there is not.
            WarehouseError: a file of the warehouse vanished or is damaged.
        """
        checked = check(sql)
        values = dict(params or {})
        _check_parameters(checked, values, sql)
        self._install(self._named(checked, sql))
        cursor = self._connection.cursor()
        with blame(sql):
            relation = _relation(cursor, sql, values)
        return Result(relation, sql, cursor)

    def runs(self, **filters: object) -> list[dict[str, Any]]:
        """Rows of `runs` whose columns equal the filters: `runs(model="qwen3", parallelism="tp4")`.

        Raises:
            QueryError: there is no such column.
        """
        rows: list[dict[str, Any]] = self._runs.to_pylist()
        for name in filters:
            if name not in self._runs.column_names:
                hint = suggest(name, self._runs.column_names)
                raise QueryError(f"runs has no column {name}{hint}", "")
        return [row for row in rows if all(row[name] == want for name, want in filters.items())]

    def resolve_run(self, text: str) -> str:
        """The run_id that an id, a unique prefix of one, or a name means.

        Raises:
            WarehouseError: none or several are meant.
        """
        names: dict[str, str | None] = dict(
            zip(
                self._runs.column("run_id").to_pylist(),
                self._runs.column("name").to_pylist(),
                strict=True,
            )
        )
        if text in names:
            return text
        meant = [run_id for run_id, name in names.items() if name == text]
        meant = meant or [run_id for run_id in names if text and run_id.startswith(text)]
        if len(meant) == 1:
            return meant[0]
        if meant:
            listed = ", ".join(f"{run_id} ({names[run_id]})" for run_id in meant)
            raise WarehouseError(f"{text} could be any of {listed}; give more of the id")
        if not names:
            raise WarehouseError(f"no run {text!r}: {self.root} has no runs; ingest one")
        hint = suggest(text, [*names, *(name for name in names.values() if name)])
        raise WarehouseError(f"no run {text!r} in {self.root}{hint or '; see `xlahouse runs`'}")

    def metrics(self, run: str) -> dict[str, Any]:
        """Headline metrics of a run, by the column names of run_summary; None where unknown.

        Raises:
            WarehouseError: `run` is no run's id, prefix or name.
        """
        sql = f"select {', '.join(HEADLINE)} from run_summary_v1 where run_id = $run"
        return self.query(sql, {"run": self.resolve_run(run)}).dicts()[0]

    def files(self, table: str) -> list[str]:
        """The files that hold a table's rows."""
        return list(self._files.get(table, ()))

    def _named(self, checked: Checked, sql: str) -> set[str]:
        """The tables and views that a query names.

        Raises:
            QueryError: it names one that there is not.
        """
        names = self.library.names()
        if checked.lists_catalogue:
            return names
        for mention in checked.mentions:
            if mention.name not in names and mention.name not in checked.defined:
                hint = suggest(mention.name, [name for name in names if name[0] != "_"])
                hint = hint or "; `xlahouse tables` and `xlahouse views` list what there is"
                line, column = place(sql, mention.offset)
                raise QueryError(f"no table or view {mention.name}{hint}", sql, line, column)
        return {mention.name for mention in checked.mentions} & names

    def _install(self, names: set[str]) -> None:
        """Create what the names rest on, and nothing else."""
        tables, views = self.library.closure(names)
        for table in sorted(tables - self._installed):
            self._install_table(table)
        for view in views:
            if view.name not in self._installed:
                self._create(view.name, view.sql)
        for name in sorted(names & set(self.library.pointers)):
            if name not in self._installed:
                self._create(name, f"select * from {self.library.pointers[name]}")

    def _install_table(self, name: str) -> None:
        files = self._files.get(name)
        columns = TABLES[name].columns
        if files:
            names = ", ".join(column.name for column in columns)
            listed = ", ".join(_quote(file) for file in files)
            self._create(
                name, f"select {names} from read_parquet([{listed}], hive_partitioning = false)"
            )
            return
        typed = ", ".join(f"{column.name} {DUCKDB_TYPES[column.type]}" for column in columns)
        self._connection.execute(f"create table {name} ({typed})")
        if name == RUN_SETTINGS.name:
            rows = read_run_settings(self.root, self._runs.column("run_id").to_pylist())
            for row in rows:
                self._connection.execute(f"insert into {name} values ($1, $2, $3)", list(row))
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


def _check_parameters(checked: Checked, values: dict[str, object], sql: str) -> None:
    for name in sorted(checked.parameters - set(values)):
        raise QueryError(f"the query needs a value for ${name} (-p {name}=VALUE)", sql)
    for name in sorted(set(values) - checked.parameters):
        hint = suggest(name, checked.parameters)
        raise QueryError(f"the query has no parameter ${name}{hint}", sql)


def _relation(
    cursor: duckdb.DuckDBPyConnection, sql: str, values: dict[str, object]
) -> duckdb.DuckDBPyRelation:
    """The query, bound and not yet run."""
    import duckdb

    try:
        return cursor.sql(sql, params=values or None)
    except (duckdb.BinderException, duckdb.CatalogException) as error:
        if "LINE " not in str(error):
            cursor.execute(sql, values or None)  # fails alike, and says where
        raise


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _locked_database(root: str, files: dict[str, list[str]]) -> duckdb.DuckDBPyConnection:
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
        import fsspec

        connection.register_filesystem(fsspec.core.url_to_fs(root)[0])
    allowed = ", ".join(_quote(file) for listed in files.values() for file in listed)
    connection.execute(f"set allowed_paths = [{allowed}]")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection
