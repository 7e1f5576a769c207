"""Reads the rows of `runs` all at once, from the index and from the runs' own files."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from xlahouse.ingest.schema import BY_NAME, INGEST_VERSION
from xlahouse.ingest.store.run_index import INDEX, STAMP, row_path
from xlahouse.sql.blame import engine_errors, is_interrupt
from xlahouse.sql.place import Place
from xlahouse.sql.types import DUCKDB_TYPES, quote

if TYPE_CHECKING:
    import duckdb

# Table, its files in the order of the runs, and whether all of them are this warehouse's.
FILES = """
    select
        f."table",
        list(f.path order by captured_at nulls last, run_id, f.path),
        bool_and(starts_with(f.path, 'tables/') and not contains('/' || f.path || '/', '/../'))
    from (select run_id, captured_at, unnest(files) as f from listed) where f.rows > 0 group by all
"""


@dataclass(frozen=True)
class RunRows:
    """Where the rows of `runs` are, by run_id."""

    place: Place  # the warehouse
    single: tuple[str, ...]  # runs whose row is in a file of its own
    indexed: tuple[str, ...] = ()  # runs whose row is in the index
    stale: tuple[str, ...] = ()  # runs whose row in the index is out of date

    @property
    def singles(self) -> list[str]:
        """The files of one row."""
        return [self.place.url(row_path(run_id)) for run_id in self.single]

    def without(self, damaged: Collection[str], by_index: bool) -> RunRows:
        """The rows of the other runs. by_index: whether the index is used still."""
        single = tuple(run for run in self.single if run not in damaged)
        if by_index:
            return replace(self, single=single)
        indexed = tuple(run for run in self.indexed if run not in damaged)
        return RunRows(self.place, tuple(sorted((*single, *indexed))))

    def select(self, columns: str) -> str:
        """A SELECT over all rows, with `filename` among the columns there are."""
        index = quote(self.place.url(INDEX))
        files = ", ".join(([index] if self.indexed else []) + [quote(f) for f in self.singles])
        old = ", ".join(map(quote, self.stale))
        count = f" where filename <> {index} or run_id not in ({old})" if self.stale else ""
        return (
            f"select {columns} from read_parquet([{files}], hive_partitioning = false, "
            f"union_by_name = true, filename = true){count if self.indexed else ''}"
        )


@dataclass(frozen=True)
class ListedRuns:
    """The facts in the rows that opening a warehouse needs; see listing.Listing."""

    names: dict[str, str | None]  # run_id -> name
    files: dict[str, list[str]]  # table -> its files
    sql: str | None  # a SELECT of all rows; None without runs
    versions: dict[str, int] = field(default_factory=dict)  # of runs that another version wrote
    own_sql: str | None = None  # as sql, from the runs' own files alone


def find_rows(
    connection: duckdb.DuckDBPyConnection, place: Place, stamps: dict[str, str | None]
) -> RunRows:
    """Rows from the index where it has them as they are now, else from their own files."""
    known: dict[str, str] = {}
    if place.exists(INDEX):
        sql = f"select run_id, {STAMP} from read_parquet({quote(place.url(INDEX))})"
        try:
            known = dict(connection.execute(sql).fetchall())
        except engine_errors():  # damaged, or of another layout: the index only saves time
            known = {}
    indexed = tuple(
        run_id for run_id, stamp in stamps.items() if stamp and known.get(run_id) == stamp
    )
    current = set(indexed)
    single = tuple(run_id for run_id in stamps if run_id not in current)
    return RunRows(place, single, indexed, tuple(sorted(known.keys() - current)))


def read_facts(connection: duckdb.DuckDBPyConnection, rows: RunRows) -> ListedRuns | None:
    """The facts in the rows; None where one of them is not the row of its run, or cannot be read."""
    if not rows.single and not rows.indexed:
        return ListedRuns({}, {}, None)
    try:
        every = _columns(connection, rows)
        if every is None:
            return None
        few = ", ".join(
            every[name] for name in ("run_id", "name", "captured_at", "ingest_version", "files")
        )
        connection.execute(
            f"create or replace temp table listed as {rows.select(few + ', filename')}"
        )
        found = connection.execute(
            "select run_id, name, filename, ingest_version from listed "
            "order by captured_at nulls last, run_id"
        ).fetchall()
        by_table = connection.execute(FILES).fetchall()
        connection.execute("drop table listed")
    except engine_errors():
        return None
    except RuntimeError as error:  # a column whose name is not UTF-8
        if is_interrupt(error):
            raise
        return None
    if not _are_whole(rows, found) or not all(ours for _, _, ours in by_table):
        return None
    url = rows.place.url
    names = {run_id: name for run_id, name, *_ in found}
    versions = {run_id: v or 0 for run_id, _, _, v in found if v != INGEST_VERSION}
    files = {table: [url(path) for path in paths] for table, paths, _ in by_table}
    files["runs"] = [url(row_path(run_id)) for run_id in names]
    columns = ", ".join(every.values())
    own = RunRows(rows.place, tuple(names)).select(columns)
    return ListedRuns(names, files, rows.select(columns), versions, own)


def _columns(connection: duckdb.DuckDBPyConnection, rows: RunRows) -> dict[str, str] | None:
    """Column of `runs` -> its expression, NULL where only older ingests wrote; None: wrong types."""
    relation = connection.sql(rows.select("*"))
    found = dict(zip(relation.columns, map(str, relation.types), strict=True))
    kinds = {column.name: DUCKDB_TYPES[column.type] for column in BY_NAME["runs"].columns}
    typed = {name: f"cast(null as {kind}) as {name}" for name, kind in kinds.items()}
    expected = connection.sql(f"select {', '.join(typed.values())}")
    for name, kind in zip(expected.columns, map(str, expected.types), strict=True):
        if name in found and found[name] != kind:
            return None
    return {name: name if name in found else text for name, text in typed.items()}


def _are_whole(rows: RunRows, found: list[tuple[str, str | None, str, int | None]]) -> bool:
    """Whether there is one row per run, in the file of that run."""
    index = rows.place.url(INDEX)
    own = [(run_id, file) for run_id, _, file, _ in found if file != index]
    wanted = list(zip(rows.single, rows.singles, strict=True))
    return set(own) == set(wanted) and len(found) == len(wanted) + len(rows.indexed)
