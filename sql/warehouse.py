"""Opens a warehouse and answers queries on it, reading only the relations that a query names."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection, Mapping
from copy import copy
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

from xlahouse.capture.commands import located
from xlahouse.capture.errors import DamagedFileError, QueryError, WarehouseError
from xlahouse.sql.blame import blame, bound, place
from xlahouse.sql.database import Database
from xlahouse.sql.guard import Checked, check
from xlahouse.sql.interrupt import OnProgress, QueryWatch
from xlahouse.sql.library import Library, shipped
from xlahouse.sql.listing import Listing, check_layout, version_lines
from xlahouse.sql.narrowing import ACROSS_RUNS, across_runs, find_filters, runs_asked
from xlahouse.sql.nearest import suggest
from xlahouse.sql.own_views import with_own_views
from xlahouse.sql.place import Place
from xlahouse.sql.result import Result, RunList, explained
from xlahouse.sql.run_hints import hints_of
from xlahouse.sql.types import NamedRow

if TYPE_CHECKING:
    import duckdb

# Columns of run_summary beyond the setup; Warehouse.metrics gives these.
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
    "request_ttft_s",
    "tpot_s",
    "output_tokens_per_s",
    "system_tokens_per_s",
    "launch_period_s",
    "measured_ttft_s",
    "measured_tpot_s",
    "window_ps",
    "comm_compute_ratio",
    "exposed_ratio",
    "overlapped_ratio",
    "sync_wait_ratio",
    "idle_ratio",
    "idle_in_step_ratio",
)


class Warehouse:
    """A warehouse, with the runs at the first use; to see later ingests, open another.

    Args:
        root: the folder, or an fsspec URL.
        on_damage: takes a line for each run that is left out because its row cannot be read, for runs
            that an older ingest wrote, and for each view of the user's that cannot be used.
        memory_limit: of queries, such as `4GB`; None: most of the machine's. Beyond it they use the
            folder for temporary files.
        threads: at most; None: one per core.
        timeout_s: of each query, counted in DuckDB; None: no limit.

    Raises:
        WarehouseError: there is no warehouse at `root`.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        on_damage: Callable[[str], None] = warnings.warn,
        *,
        memory_limit: str | None = None,
        threads: int | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self.root = os.fspath(root)
        self.place, self._on_damage = Place(self.root), on_damage
        check_layout(self.place)
        limits = {"memory_limit": memory_limit, "threads": threads}
        self._limits = {name: str(limit) for name, limit in limits.items() if limit is not None}
        self._timeout_s = timeout_s
        self._database = Database(self.place, self._limits)

    def __enter__(self) -> Warehouse:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the database; results that were not read yet are lost."""
        self._database.close()

    def of_run(self, run: str, kept: Collection[str] = (), threads: int | None = None) -> Warehouse:
        """The warehouse as if it held one run only, for many queries about that run.

        Args:
            run: id, unique prefix of one, or name.
            kept: views that are computed once, when first needed; queries then read them as tables.
            threads: of each query; on one, sums of floats are the same to the last digit each time.

        Raises:
            WarehouseError: `run` is not a run's id, prefix or name.
        """
        from xlahouse.sql.kept_database import of_run

        run_id, listing = self.resolve_run(run), self._listing
        limits = self._limits if threads is None else {**self._limits, "threads": str(threads)}
        return self._with_kept(of_run(listing, run_id), kept, limits)

    def keeping(self, kept: Collection[str]) -> Warehouse:
        """The warehouse for many queries, with some views computed once, when first needed."""
        return self._with_kept(self._listing, kept, self._limits)

    def _with_kept(
        self, listing: Listing, kept: Collection[str], limits: Mapping[str, str]
    ) -> Warehouse:
        from xlahouse.sql.kept_database import KeptDatabase

        other = copy(self)
        other.__dict__["_listing"] = listing  # whose damage was reported
        other._database = KeptDatabase(self.place, listing, kept, limits)
        return other

    @cached_property
    def _listing(self) -> Listing:
        listing = self._database.listing
        for line in listing.damaged:
            self._on_damage(line)
        for line in version_lines(listing):
            self._on_damage(line)
        return listing

    @cached_property
    def library(self) -> Library:
        """The views that come with xlahouse, and the user's own of this warehouse."""
        found = with_own_views(self.place, shipped())
        for line in found.problems:
            self._on_damage(line)
        return found.library

    @property
    def damaged(self) -> tuple[str, ...]:
        """A line for each run that is left out because its row cannot be read."""
        return self._listing.damaged

    def query(
        self,
        sql: str,
        params: Mapping[str, object] | None = None,
        on_progress: OnProgress | None = None,
    ) -> Result:
        """Run one reading statement; `params["name"]` is the value of `$name` in it.

        It runs when rows are asked for, an EXPLAIN at once; then `on_progress` is called many times a
        second, and `Result.cancel` ends it.

        Raises:
            QueryError: the statement is not allowed, does not parse, names an unknown relation, or is
                over its limit.
            WarehouseError: a file of the warehouse vanished or is damaged.
        """
        checked = check(sql, self._database.cursor())
        given = dict(params or {})
        self.check_parameters(checked, given, sql)
        cursor, tables = self._prepare(checked, sql, given)
        watch = QueryWatch(cursor, on_progress, self._timeout_s)

        def mended(error: Exception) -> bool:
            try:
                if self._database.split(error, tables, watch.connection):
                    return True
                self._database.blame(error, tables)
            except DamagedFileError as damage:
                self._leave_out(damage, checked, given)
                watch.connection, _ = self._prepare(checked, sql, given)
                return True
            return False

        def opened() -> duckdb.DuckDBPyRelation:
            return bound(watch, checked.statement, sql, given, mended)

        with blame(sql):
            relation = opened()
        result = Result(relation, sql, watch, lambda error: opened() if mended(error) else None)
        return result if checked.explains is None else explained(result, checked.explains)

    def _prepare(
        self, checked: Checked, sql: str, given: Mapping[str, object]
    ) -> tuple[duckdb.DuckDBPyConnection, set[str]]:
        """(a cursor on a database that has the relations that the query names, the tables below them)."""
        while True:
            try:
                return self._installed(checked, sql, given)
            except DamagedFileError as damage:
                self._leave_out(damage, checked, given)

    def _leave_out(
        self, damage: DamagedFileError, checked: Checked, given: Mapping[str, object]
    ) -> None:
        """Leave a run with a damaged file out from now on, unless the query is about it.

        Raises:
            DamagedFileError: it is, or there is no other run.
        """
        from xlahouse.sql.damage import without_run

        asked = runs_asked(find_filters(checked.tree), given, self._listing.names)
        self.__dict__["_listing"] = listing = without_run(self._listing, damage, asked)
        self._on_damage(listing.damaged[-1])
        self._database = self._database.over(listing)

    def _installed(
        self, checked: Checked, sql: str, given: Mapping[str, object]
    ) -> tuple[duckdb.DuckDBPyConnection, set[str]]:
        names, lists_catalogue = self.names_in(checked, sql), checked.relations.lists_catalogue
        if lists_catalogue and not names:
            return self._database.describe_all(self.library), set()
        if not names:
            return self._database.cursor(), set()
        assert self._listing  # reports damaged runs before there are rows
        every = self.library.names() if lists_catalogue else names
        library = shipped() if every <= shipped().names() else self.library
        tables = self._database.install(library, every)
        runs = None
        by_run = library is shipped() and not (lists_catalogue or checked.explains is not None)
        if by_run and not across_runs(library, names):
            runs = runs_asked(find_filters(checked.tree), given, self._listing.names)
        return self._database.cursor(tables, runs), tables

    def run_hints(self, sql: str, params: Mapping[str, object] | None = None) -> list[str]:
        """A line for each run that a query's WHERE asks for and the warehouse lacks."""
        filters = find_filters(check(sql, self._database.cursor()).tree)
        return hints_of(filters, params or {}, self._listing.names)

    def compares_runs(self, sql: str) -> list[str]:
        """The views below a query whose rows of one run need other runs."""
        names = self.names_in(check(sql, self._database.cursor()), sql)
        _, views = self.library.closure(names)
        return sorted(view.name for view in views if view.name in ACROSS_RUNS)

    def show(self, page: str, run: str) -> Any:
        """A page of a report about one run, which a notebook shows: `wh.show("time", run="tp4")`.

        Raises:
            WarehouseError: `run` is not a run's id, prefix or name.
            ReportError: there is no such page.
        """
        # Reports stand above this room: they are loaded by name.
        return import_module("xlahouse.reports.notebook").shown(self, page, self.resolve_run(run))

    def _repr_html_(self) -> str:
        """The runs, as a notebook shows them."""
        return self.runs()._repr_html_()

    def runs(self, **filters: object) -> RunList:
        """Rows of `runs` whose columns equal the filters: `runs(model="qwen3", parallelism="tp4")`.

        Raises:
            QueryError: there is no such column.
        """
        found = self.query("from runs order by captured_at nulls last, run_id")
        for name in filters:
            if name not in found.columns:
                hint = suggest(name, found.columns)
                raise QueryError(f"runs has no column {name}{hint}", "")
        rows = found.dicts()
        return RunList(
            row for row in rows if all(row[name] == want for name, want in filters.items())
        )

    def resolve_run(self, text: str) -> str:
        """The run_id of an id, a unique prefix of one, or a name.

        Raises:
            WarehouseError: no run or several match.
        """
        names = self._listing.names
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
        listing = f"; see `{located('xlahouse runs', self.root)}`"
        raise WarehouseError(f"no run {text!r} in {self.root}{hint or listing}")

    def metrics(self, run: str) -> NamedRow:
        """Headline metrics of a run, by the column names of run_summary; None where unknown.

        Raises:
            WarehouseError: `run` is not a run's id, prefix or name.
        """
        sql = f"select {', '.join(HEADLINE)} from run_summary_v2 where run_id = $run"
        return self.query(sql, {"run": self.resolve_run(run)}).dicts()[0]

    def files(self, table: str) -> list[str]:
        """The files of a table."""
        return list(self._listing.files.get(table, ()))

    @staticmethod
    def check_parameters(checked: Checked, given: Mapping[str, object], sql: str) -> None:
        """Check that the given values are those of the parameters that a query names.

        Raises:
            QueryError: one is missing, or not in the query.
        """
        for name in sorted(checked.parameters - set(given)):
            if name.isdecimal():
                raise QueryError("a parameter is written $name, not ? or $1 (-p name=VALUE)", sql)
            raise QueryError(f"the query needs a value for ${name} (-p {name}=VALUE)", sql)
        for name in sorted(set(given) - checked.parameters):
            hint = suggest(name, checked.parameters)
            raise QueryError(f"the query has no parameter ${name}{hint}", sql)

    def names_in(self, checked: Checked, sql: str) -> set[str]:
        """The tables and views that a query names.

        Raises:
            QueryError: it names an unknown one.
        """
        asked, names = checked.relations.names, shipped().names()
        if not asked <= names:
            names = self.library.names()
        for mention in checked.relations.mentions:
            if mention.name not in names:
                hint = suggest(mention.name, [name for name in names if name[0] != "_"])
                hint = hint or "; `xlahouse tables` and `xlahouse views` list them"
                line, column = place(sql, mention.offset)
                raise QueryError(f"no table or view {mention.name}{hint}", sql, line, column)
        return set(asked)
