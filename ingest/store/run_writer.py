"""Writes one run's tables piece by piece, so that only a piece is in memory."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import polars as pl
import pyarrow as pa

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.events.files import sync_files
from xlahouse.ingest.schema import BY_NAME
from xlahouse.ingest.store.leases import FOLDER, is_safe
from xlahouse.ingest.store.parquet_sink import crc_of, open_sink, open_writer
from xlahouse.ingest.table import FileEntry, RunRow, crcs_of
from xlahouse.ingest.tables.pieces import ROW_GROUP, TableWriter, pieces_of

if TYPE_CHECKING:
    from xlahouse.ingest.store.store import Store

RENEW_S = 600  # a lease lasts much longer


class Written(NamedTuple):
    """A file of an attempt."""

    table: str  # name of the table
    rows: int  # number of its rows
    crc: int | None  # as crc_of gives it
    stated: frozenset[str]  # columns that are not NULL in all rows


@dataclass
class RunWriter:
    """An attempt at a run: its files count from the moment that `commit` writes the run's row.

    Files may be written by several threads at once, and by copies of the writer in other processes, whose
    files it takes. A copy has a name: one whose process is thought dead may still write.
    """

    store: Store  # the warehouse
    run_id: str  # the run's id
    # of the attempt, part of the names of its files
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    # path -> the file, of all that were written
    files: dict[str, Written] = field(default_factory=dict)
    # held while `files` and the lease change
    lock: threading.Lock = field(default_factory=threading.Lock)
    leased_at: float = float("-inf")  # by this machine's clock since it started
    lease_time: float | None = None  # by the storage's clock
    copy: str = ""  # what a copy adds to the names of its files
    copied: bool = False  # whether copies wrote files of it

    def write(self, table: str, frame: pl.DataFrame, part: int = 0, in_order: bool = False) -> None:
        """Write a frame without run_id as a sorted file of a table; nothing if empty.

        Args:
            table: the table.
            frame: its rows; texts may be categorical.
            part: number of the file among the table's.
            in_order: whether the frame is sorted already.
        """
        if not frame.is_empty():
            pieces = pieces_of(frame, BY_NAME[table], self.run_id, in_order)
            self.write_pieces(table, pieces, part)

    def write_pieces(self, table: str, pieces: Iterable[pa.Table], part: int = 0) -> None:
        """Write pieces of a table as one file of it; nothing if there are none.

        Args:
            table: the table.
            pieces: its rows, with run_id; texts may be dictionaries.
            part: number of the file among the table's.
        """
        pieces = iter(pieces)
        first = next(pieces, None)
        if first is None:
            return
        self._renew()
        path = f"tables/{table}/run_id={self.run_id}/{self.token}-{part:04}{self.copy}.parquet"
        full = f"{self.store.base}/{path}"
        self.store.fs.makedirs(full.rpartition("/")[0], exist_ok=True)
        rows, stated = 0, set[str]()
        with open_sink(self.store.fs, full) as file, open_writer(file, first.schema) as writer:
            for piece in _chain(first, pieces):
                self._renew()
                writer.write_table(piece, row_group_size=ROW_GROUP)
                rows += piece.num_rows
                columns = zip(piece.column_names, piece.columns, strict=True)
                stated |= {name for name, each in columns if each.null_count < piece.num_rows}
        written = Written(table, rows, crc_of(self.store.fs, full), frozenset(stated))
        with self.lock:
            self.files[path] = written

    def __reduce__(self) -> tuple[object, ...]:
        return _copied, (self.store.root, self.run_id, self.token, self.files, self.lease_time)

    def take(self, other: TableWriter) -> None:
        """Make the files that a copy wrote part of the attempt."""
        if other is self or not isinstance(other, RunWriter):
            return
        self.copied = True
        self.files |= other.files
        if other.lease_time is not None:
            self.lease_time = max(self.lease_time or other.lease_time, other.lease_time)

    def rows(self) -> dict[str, int]:
        """Rows written so far, by table."""
        counts: dict[str, int] = {}
        for file in self.files.values():
            counts[file.table] = counts.get(file.table, 0) + file.rows
        return counts

    def stated(self) -> dict[str, frozenset[str]]:
        """Columns with a value in any row written so far, by table."""
        columns: dict[str, frozenset[str]] = {}
        for file in self.files.values():
            columns[file.table] = columns.get(file.table, frozenset()) | file.stated
        return columns

    def commit(self, row: RunRow, kept: Iterable[FileEntry] = ()) -> None:
        """Make the written files the run.

        Args:
            row: of `runs`; its `files` and `file_crcs`, if any, are replaced.
            kept: entries of `files`, of an earlier attempt, that stay part of the run.

        Raises:
            WarehouseError: a file is gone, or the lease ran out; the run stays as it was.
        """
        replaced = self.store.run_row(self.run_id)
        files = [
            FileEntry(table=file.table, path=path, rows=file.rows)
            for path, file in sorted(self.files.items())
        ] + list(kept)
        with suppress(FileNotFoundError):  # what is not there is reported below
            sync_files(self.store.fs, [f"{self.store.base}/{path}" for path in self.files])
        self._renew(at_once=True)
        if missing := self.store.missing(files, self.run_id):
            raise WarehouseError(
                f"{self.run_id}: {missing[0]} is gone, which is part of the run: it was removed by hand, or "
                "a clock jumped so that its lease seemed to have run out; ingest again"
            )
        if replaced is not None:  # before the row: if killed after it, nothing would list them
            old = [file["path"] for file in replaced["files"]]
            self.store.lease(uuid.uuid4().hex, self.run_id, old)
        crcs = crcs_of(replaced or {}) | {path: file.crc for path, file in self.files.items()}
        sums = {"file_crcs": [crcs.get(file["path"]) for file in files]}
        self.store.write_row(row | {"files": files} | sums)
        strays = self.store.files_of_attempt(self.run_id, self.token) if self.copied else set()
        self.store.remove(strays - self.files.keys())  # of copies whose process died
        self.store.remove({f"{FOLDER}/{self.token}.json"})
        self._lease_unlisted({file["path"] for file in files})

    def _lease_unlisted(self, listed: set[str]) -> None:
        """Lease the files that nothing names after two commits of the run at the same time, so that they go.

        The lease of this commit is gone by now. Whichever of the two looks after both rows are written sees
        the files of the one whose row was replaced: its own, or those of the other. listed: by this commit.
        """
        # Commits of one run have the same tables: one folder, which is quick to list, shows another.
        folder = min(listed, default="").rpartition("/")[0]
        if not folder or set(self.store.files_in(folder)) <= listed:
            return
        row = self.store.run_row(self.run_id)
        if row is None:  # dropped: its files have a lease
            return
        leases = self.store.leases()
        named = {path for lease in leases.values() for path in lease.paths}
        named |= {file["path"] for file in row["files"]}
        unlisted = self.store.files_of_run(self.run_id) - named
        orphans = sorted(path for path in unlisted if _token_of(path) not in leases)
        if orphans:
            self.store.lease(uuid.uuid4().hex, self.run_id, orphans)

    def abandon(self) -> None:
        """Remove the written files; a file that cannot be removed now goes with its lease."""
        with suppress(Exception):
            self.store.remove(self.store.files_of_attempt(self.run_id, self.token))
            self.store.remove({f"{FOLDER}/{self.token}.json"})

    def _renew(self, at_once: bool = False) -> None:
        """Renew the lease where it is time to, or at once.

        Raises:
            WarehouseError: it is too late: others may remove the files.
        """
        with self.lock:
            if not at_once and time.monotonic() - self.leased_at <= RENEW_S:
                return
            before, self.lease_time = self.lease_time, self.store.lease(self.token, self.run_id, [])
            if not is_safe(self.lease_time, before):
                raise WarehouseError(
                    f"{self.run_id}: its lease on the files that it writes ran out before they were a run: "
                    "the process stood still, or the clock of the warehouse's storage jumped; ingest again"
                )
            self.leased_at = time.monotonic()


def _copied(
    root: str,
    run_id: str,
    token: str,
    files: dict[str, Written],
    lease_time: float | None,
) -> RunWriter:
    """A copy of a writer, as another process has it."""
    from xlahouse.ingest.store.store import Store

    name = f"-{uuid.uuid4().hex[:8]}"
    return RunWriter(Store(root), run_id, token, files, lease_time=lease_time, copy=name)


def _token_of(path: str) -> str:
    return path.rpartition("/")[2].partition("-")[0]


def _chain(first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from rest
