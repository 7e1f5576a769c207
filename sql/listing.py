"""Lists a warehouse's runs and files; no other module reads its folders."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from xlahouse.capture.errors import WarehouseError, XlahouseError, one_line
from xlahouse.ingest.schema import INGEST_VERSION, LAYOUT_VERSION
from xlahouse.ingest.store.run_index import PACK, stamped_rows
from xlahouse.sql.place import Place
from xlahouse.sql.run_rows import ListedRuns, RunRows, find_rows, read_facts
from xlahouse.sql.types import Row, quote

if TYPE_CHECKING:
    import duckdb

    from xlahouse.ingest.store.packs import Pack
    from xlahouse.ingest.store.settings import RunSettings

SHOWN = 5  # names in a line
READINGS = 5  # of rows that ingests and drops may replace while they are read
# A query that asks for more runs opens the pack, and the rows of other runs that it holds do not matter.
FEW_RUNS = 64


@dataclass(frozen=True)
class PackedRuns:
    """A pack as it is when a warehouse is opened."""

    place: Place  # the warehouse
    pack: Pack  # names its files and their runs
    runs: frozenset[str]  # whose rows it holds as they are now

    def has(self, table: str) -> bool:
        """Whether it has rows of a table."""
        return f"{table}.parquet" in self.pack.bytes

    def rows(self, table: str) -> str:
        """The file of a table's rows, as DuckDB opens it."""
        return self.place.url(self.pack.path(table))

    def nothing(self, table: str) -> str:
        """A file of a table without rows, as DuckDB opens it."""
        return self.place.url(self.pack.nothing(table))

    @property
    def counted(self) -> str:
        """The WHERE that leaves out runs that changed or were dropped since."""
        old = sorted(self.pack.runs.keys() - self.runs)
        return f" where run_id not in ({', '.join(map(quote, old))})" if old else ""


@dataclass(frozen=True)
class Listing:
    """A warehouse's runs, oldest capture first."""

    names: dict[str, str | None]  # run_id -> the run's name
    files: dict[str, list[str]]  # table -> its files, as DuckDB opens them
    runs_sql: str | None  # a SELECT of the table `runs`; None without runs
    damaged: tuple[str, ...]  # a line for each run that is left out, since its row cannot be read
    versions: dict[str, int] = field(default_factory=dict)  # of runs that another version wrote
    own_rows_sql: str | None = None  # as runs_sql, without the index, which ingests replace
    packed: PackedRuns | None = None  # small runs whose rows are in one file per table as well

    def without(self, run_id: str, line: str) -> Listing:
        """The same without a run, one of whose files is damaged, as a line says."""
        files = {
            table: [file for file in paths if run_of(file) != run_id]
            for table, paths in self.files.items()
        }
        packed = self.packed and replace(self.packed, runs=self.packed.runs - {run_id})
        return Listing(
            {run: name for run, name in self.names.items() if run != run_id},
            {table: paths for table, paths in files.items() if paths},
            _without(self.runs_sql, run_id),
            (*self.damaged, line),
            {run: version for run, version in self.versions.items() if run != run_id},
            _without(self.own_rows_sql, run_id),
            packed if packed and packed.runs else None,
        )

    @cached_property
    def files_of_run(self) -> dict[str, dict[str, list[str]]]:
        """run_id -> table -> its files, as in `files`."""
        found: dict[str, dict[str, list[str]]] = {}
        for table, paths in self.files.items():
            for path in paths:
                found.setdefault(run_of(path), {}).setdefault(table, []).append(path)
        return found


def _without(runs_sql: str | None, run_id: str) -> str | None:
    return runs_sql and f"select * from ({runs_sql}) where run_id <> {quote(run_id)}"


def run_of(file: str) -> str:
    """The run whose rows a table's file holds, by its folder; in `runs` by its name."""
    folder, name = file.split("/")[-2:]
    return name.removesuffix(".parquet") if folder == "runs" else folder.removeprefix("run_id=")


def version_lines(listing: Listing) -> list[str]:
    """A line about the runs of older ingests, and one about those of newer ones."""
    found = []
    older = sum(version < INGEST_VERSION for version in listing.versions.values())
    if older:
        found.append(
            f"{older} of {len(listing.names)} runs were written by an older xlahouse and lack columns "
            "of newer views; ingest their traces again"
        )
    newer = [run_id for run_id, version in listing.versions.items() if version > INGEST_VERSION]
    if newer:
        named = ", ".join(f"{run_id} ({listing.names[run_id]})" for run_id in newer[:SHOWN])
        more = ", …" if len(newer) > SHOWN else ""
        found.append(
            f"{len(newer)} of {len(listing.names)} runs were written by a newer xlahouse and may mean "
            f"something else: {named}{more}; update xlahouse"
        )
    return found


def read_listing(connection: duckdb.DuckDBPyConnection, place: Place) -> Listing:
    """All runs and their files; a damaged row costs only its own run.

    Raises:
        WarehouseError: the folder cannot be read.
    """
    for _ in range(READINGS):
        with reading(place.root):
            stamps = stamped_rows(place.root)
            rows = find_rows(connection, place, stamps)
            packed = find_packed(place, stamps)
        facts, damaged = _facts(connection, rows)
        if facts is not None:
            return Listing(
                facts.names,
                facts.files,
                facts.sql,
                tuple(damaged.values()),
                facts.versions,
                facts.own_sql,
                packed,
            )
    raise WarehouseError(f"{place.root}: its runs changed while they were read; try again")


def find_packed(place: Place, stamps: Mapping[str, str | None]) -> PackedRuns | None:
    """The pack of a warehouse; None where it has no pack, or one that is not whole.

    Args:
        place: the warehouse.
        stamps: run_id -> stamp of its row, as it is now.
    """
    if not place.exists(PACK):
        return None
    from xlahouse.ingest.store.packs import read_pack

    try:
        pack = read_pack(place.read(PACK))
        if pack is None:
            return None
        there = place.sizes(pack.folder) | place.sizes(pack.empty_folder)
    except OSError:  # the pack was replaced this moment, or removed: it only saves time
        return None
    runs = pack.current(stamps)
    whole = all(there.get(name) == size for name, size in pack.bytes.items())
    return PackedRuns(place, pack, runs) if runs and whole else None


def _facts(
    connection: duckdb.DuckDBPyConnection, rows: RunRows
) -> tuple[ListedRuns | None, dict[str, str]]:
    """(the facts in the rows that are whole, None where they change; run_id -> line on a damaged row).

    Thousands of rows take a minute to read one by one: those in the index come last.
    """
    damaged: dict[str, str] = {}
    facts = read_facts(connection, rows)
    for suspects in (rows.single, rows.indexed):
        if facts is None:
            from xlahouse.sql.damage import damaged_rows

            found = damaged_rows(rows.place.root, suspects)
            if found or suspects is rows.indexed:
                damaged |= found
                facts = read_facts(connection, rows.without(damaged, suspects is rows.single))
    return facts, damaged


def check_layout(place: Place) -> None:
    """Refuse a folder that is not a warehouse, or that a newer xlahouse wrote.

    Raises:
        WarehouseError: it is one of these.
    """
    text = _marker(place)
    if text is None:
        raise WarehouseError(
            f"{place.root} is not a warehouse: it has no warehouse.json; make one with "
            f"`xlahouse ingest TRACES -w {place.root}`, or name another with -w"
        )
    version = _layout_version(text)
    if version is None:
        raise WarehouseError(
            f"{place.root}/warehouse.json has no layout_version; restore the file, or ingest again"
        )
    if version > LAYOUT_VERSION:
        raise WarehouseError(
            f"{place.root} has layout {version}; this xlahouse knows up to {LAYOUT_VERSION}: "
            "upgrade it"
        )


def _marker(place: Place) -> bytes | None:
    with reading(place.root):
        try:
            return place.read("warehouse.json")
        except (FileNotFoundError, NotADirectoryError):
            return None


def _layout_version(text: bytes) -> int | None:
    try:
        version = json.loads(text)["layout_version"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return version if type(version) is int and version > 0 else None


@contextmanager
def reading(root: str) -> Iterator[None]:
    """Raise the errors of any file system as WarehouseError; each has its own classes."""
    try:
        yield
    except XlahouseError:
        raise
    except OSError as error:
        where = error.filename or root
        raise WarehouseError(
            f"{where} cannot be read: {error.strerror or error}; check that it is a file that you may read"
        ) from error
    except Exception as error:
        raise WarehouseError(f"{root} cannot be read: {one_line(error)}; try again") from error


def read_run_settings(place: Place, run_ids: list[str]) -> list[Row]:
    """Rows of the relation run_settings: one for each run for which something was set.

    Raises:
        WarehouseError: a settings file is not valid, or cannot be read.
    """
    rows = []
    with reading(place.root):
        kept = set(place.names("settings"))
        for run_id in run_ids:
            if f"{run_id}.json" in kept:
                from xlahouse.ingest.store.settings import read_settings

                rows.append(settings_row(run_id, read_settings(place.root, run_id)))
    return rows


def settings_row(run_id: str, settings: RunSettings) -> Row:
    """A run's row of the relation run_settings."""
    import msgspec

    from xlahouse.ingest.store.settings import LatencyLimits, Peaks

    mesh = None if settings.mesh is None else msgspec.to_builtins(settings.mesh)
    peaks, limits = settings.peaks or Peaks(), settings.limits or LatencyLimits()
    numbers = (
        peaks.bf16_flops,
        peaks.hbm_bytes_per_s,
        peaks.ici_bytes_per_s,
        peaks.shared_link_bytes_per_s,
        limits.ttft,
        limits.tpot,
    )
    return (run_id, mesh, settings.device_kind, *numbers)
