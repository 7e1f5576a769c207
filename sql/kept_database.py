"""A database that computes views once that many queries share, and keeps them as tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from xlahouse.capture.errors import WarehouseError
from xlahouse.sql.database import Database
from xlahouse.sql.library import Library
from xlahouse.sql.listing import Listing
from xlahouse.sql.place import Place
from xlahouse.sql.types import quote


class KeptDatabase(Database):
    """A database of some runs' files that computes each of some views once.

    Args:
        place: the warehouse's folder.
        listing: the runs and their files.
        kept: views that are computed when first needed, and then read as tables.
        limits: settings of DuckDB that limit the memory and threads of a query.
    """

    def __init__(
        self, place: Place, listing: Listing, kept: Collection[str], limits: Mapping[str, str]
    ) -> None:
        super().__init__(place, limits)
        self._kept = frozenset(kept)
        self.listing = listing

    def install(self, library: Library, names: set[str]) -> set[str]:
        """Create the tables that the names rest on, kept views among them, and the views that they name.

        Raises:
            WarehouseError: a file vanished, is damaged, or was written by an older ingest.
            ViewError: a view is at fault.
        """
        ready = self._installed & self._kept
        tables, _ = library.closure(names, ready)
        for table in sorted(tables - self._installed):
            self._install_table(table)
        for table in tables:  # bound to one file of each kind: kept views need the others too
            self._point_all(self._connection, table, None)
        for view, sql in library.kept_below(names, self._kept, ready):
            self._keep(view, sql, tables)
        for name in sorted(names - tables - self._installed):
            self._create(name, library.statement(name, self._kept))
        return tables

    def _keep(self, view: str, sql: str, tables: set[str]) -> None:
        """Compute a view; once more where files of its tables lack columns, which then have NULLs."""
        try:
            self._create(view, sql, "table")
        except WarehouseError as error:
            cause = error.__cause__
            if not self.split(cause or error, tables, self._connection):
                if isinstance(cause, Exception):
                    self.blame(cause, tables)
                raise
            self._create(view, sql, "table")

    def over(self, listing: Listing) -> KeptDatabase:
        """Another database of some of the runs, which computes its views again."""
        return KeptDatabase(self._place, listing, self._kept, self._limits)


def of_run(listing: Listing, run: str) -> Listing:
    """A listing of one run's files."""
    files = listing.files_of_run.get(run, {})
    sql = f"select * from ({listing.runs_sql}) where run_id = {quote(run)}"
    versions = {run: listing.versions[run]} if run in listing.versions else {}
    return Listing({run: listing.names[run]}, files, sql, (), versions)
