"""One run's database: it computes views that many queries share once, and keeps them as tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xlahouse.sql.database import Database, run_of
from xlahouse.sql.library import Library
from xlahouse.sql.listing import Listing
from xlahouse.sql.place import Place
from xlahouse.sql.types import quote


class RunDatabase(Database):
    """A database that opens the files of one run.

    Args:
        place: the warehouse's folder.
        listing: that of the whole warehouse.
        run: the run's id.
        kept: views that are computed when first needed, and then read as tables.
        limits: settings of DuckDB that limit the memory and threads of a query.
    """

    def __init__(
        self,
        place: Place,
        listing: Listing,
        run: str,
        kept: Collection[str],
        limits: Mapping[str, str],
    ) -> None:
        # On one thread sums of floats are the same to the last digit each time.
        super().__init__(place, {**limits, "threads": "1"})
        self._kept = frozenset(kept)
        self.listing = _of_run(listing, run)

    def install(self, library: Library, names: set[str]) -> set[str]:
        """Create the tables that the names rest on, kept views among them, and the views that they name.

        Raises:
            WarehouseError: a file vanished, is damaged, or was written by an older ingest.
            ViewError: a view is at fault.
        """
        tables, views = library.closure(names, self._installed & self._kept)
        for table in sorted(tables - self._installed):
            self._install_table(table)
        for table in tables:  # bound to one file of each kind: kept views need the others too
            self._point_all(self._connection, table, None)
        for view in views:
            if view.name in self._kept:
                ready = frozenset(self._installed & self._kept)
                self._create(view.name, library.statement(view.name, ready), "table")
        for name in sorted(names - tables - self._installed):
            self._create(name, library.statement(name, self._kept))
        return tables


def _of_run(listing: Listing, run: str) -> Listing:
    """A listing of one run's files."""
    files = {
        table: mine
        for table, paths in listing.files.items()
        if (mine := [path for path in paths if run_of(path) == run])
    }
    sql = f"select * from ({listing.runs_sql}) where run_id = {quote(run)}"
    versions = {run: listing.versions[run]} if run in listing.versions else {}
    return Listing({run: listing.names[run]}, files, sql, (), versions)
