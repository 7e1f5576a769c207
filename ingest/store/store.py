"""Writes runs into a warehouse so that a reader finds the old state or the new one, never a mixture.

Every file of an attempt carries the attempt's token in its name and is listed in a lease beside the
tables. The run's row is written last and lists the run's files; the lease then goes. Files that a killed
attempt left are removed by a later ingest once the lease has run out; files of a replaced run get a lease
too, so that readers who opened the run before can finish. On this machine's disks each file is on the disk,
and its folder, before the row that lists it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import fsspec
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.capture.errors import WarehouseError, one_line
from xlahouse.ingest.events.files import (
    open_fs,
    open_on,
    read_parquet,
    sync_folder,
    write_whole,
)
from xlahouse.ingest.schema import BY_NAME, INGEST_VERSION, LAYOUT_VERSION
from xlahouse.ingest.store.leases import (
    FOLDER,
    Lease,
    half_written,
    is_unused,
    now_of,
    write_lease,
)
from xlahouse.ingest.store.packs import pack_of
from xlahouse.ingest.store.parquet_sink import crc_of
from xlahouse.ingest.store.run_index import dropped_path, present_runs, row_path
from xlahouse.ingest.store.run_writer import RunWriter
from xlahouse.ingest.table import FileEntry, RunRow, crcs_of


@dataclass
class Store:
    """A warehouse's folder, on any file system that fsspec knows."""

    root: str  # path or URL, as the user gave it
    fs: fsspec.AbstractFileSystem = field(init=False)  # its file system
    base: str = field(init=False)  # its path on that file system

    def __post_init__(self) -> None:
        self.fs, self.base = open_fs(self.root)

    def create(self, version: str) -> None:
        """Make the folder and its warehouse.json, unless they are there.

        Raises:
            WarehouseError: it is there, and of a newer layout.
        """
        path = f"{self.base}/warehouse.json"
        if not self.fs.exists(path):
            facts = {"layout_version": LAYOUT_VERSION, "xlahouse_version": version}
            write_whole(self.fs, path, msgspec.json.format(msgspec.json.encode(facts)) + b"\n")
            return
        self.check_layout()

    def check_layout(self) -> None:
        """Refuse to change a warehouse that a newer xlahouse wrote, or one without a description.

        Raises:
            WarehouseError: it is one of these; a folder without warehouse.json is neither.
        """
        path = f"{self.base}/warehouse.json"
        if not self.fs.exists(path):
            return
        try:
            found = int(msgspec.json.decode(self.fs.cat_file(path))["layout_version"])
        except (*JSON_FAULTS, KeyError, TypeError, ValueError):
            raise WarehouseError(
                f"{path}: not the description of a warehouse; restore it"
            ) from None
        if found > LAYOUT_VERSION:
            raise WarehouseError(
                f"{self.root}: layout {found} is newer than this xlahouse knows ({LAYOUT_VERSION}); "
                "update xlahouse"
            )

    def run_row(self, run_id: str) -> RunRow | None:
        """The run's row; None where there is no such run, or its row cannot be read."""
        path = f"{self.base}/{row_path(run_id)}"
        if not self.fs.exists(path) or self.fs.exists(f"{self.base}/{dropped_path(run_id)}"):
            return None
        try:
            rows: list[RunRow] = read_parquet(self.fs, path).to_pylist()
        except (pa.ArrowException, OSError, ValueError):
            return None  # damaged: the run is written again
        if not rows or not {"run_id", "files"} <= set(rows[0]):
            return None
        return dict.fromkeys(BY_NAME["runs"].schema.names) | rows[0]  # an older one lacks columns

    def check_version(self, row: RunRow) -> None:
        """Refuse to replace a run that a newer xlahouse wrote.

        Raises:
            WarehouseError: it is such a run.
        """
        found = row["ingest_version"] or 0
        if found > INGEST_VERSION:
            raise WarehouseError(
                f"{row['run_id']} ({row['name']}): a newer xlahouse wrote this run (ingest version {found}; "
                f"this one writes {INGEST_VERSION}), and it stays as it is; update xlahouse"
            )

    def is_whole(self, row: RunRow) -> bool:
        """Whether every file that a run's row lists is as it was written."""
        return next(self.faults_of(row), None) is None

    def faults_of(self, row: RunRow) -> Iterator[tuple[str, str]]:
        """(path, fault) of the files of a run that are not as they were written.

        Bytes are compared by their CRC-32; a file without one is there, with as many rows as were written.
        """
        crcs = crcs_of(row)
        for file in row["files"] or ():
            if fault := self._fault_of(file, crcs[file["path"]]):
                yield file["path"], fault

    def _fault_of(self, entry: FileEntry, crc: int | None) -> str:
        """What is wrong with a file; nothing where it is as it was written."""
        path = f"{self.base}/{entry['path']}"
        try:
            if crc is not None:
                return "" if crc == crc_of(self.fs, path) else "its bytes have changed"
            with open_on(self.fs, path) as file:
                rows = pq.ParquetFile(file).metadata.num_rows
        except FileNotFoundError:
            return "it is gone"
        except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
            return one_line(error)
        there = entry["rows"]
        return "" if rows == there else f"it has {rows:,} rows, and its ingest wrote {there:,}"

    def rename_run(self, row: RunRow, name: str) -> None:
        """Give a run another name; its tables stay."""
        self.write_row(row | {"name": name})

    def begin(self, run_id: str) -> RunWriter:
        """Start to write a run's tables."""
        return RunWriter(self, run_id)

    def write_row(self, row: RunRow) -> None:
        """Write a run's row: from now on readers find the files that it lists, even if it was dropped."""
        runs = pa.Table.from_pylist([row], schema=BY_NAME["runs"].schema)
        sink = pa.BufferOutputStream()
        pq.write_table(runs, sink, compression="zstd")
        write_whole(self.fs, f"{self.base}/{row_path(row['run_id'])}", sink.getvalue().to_pybytes())
        self.remove({dropped_path(row["run_id"])})

    def run_ids(self) -> list[str]:
        """Ids of all runs, including runs with damaged rows."""
        names = {path.rpartition("/")[2] for path in self.files_in("tables/runs")}
        return present_runs(names)

    def drop_row(self, run_id: str) -> None:
        """Hide a run from new readers; its row stays for readers that opened it before."""
        write_whole(self.fs, f"{self.base}/{dropped_path(run_id)}", b"")

    def clear_leftovers(self) -> int:
        """Remove files whose lease has run out and that no run lists, and half-written ones; how many."""
        self.check_layout()
        half = half_written(self.fs, self.base)
        if not half and not self.files_in(FOLDER):
            return 0
        now = now_of(self.fs, self.base)
        removed = self.remove({p for p in half if is_unused(self.fs, f"{self.base}/{p}", now)})
        leases = self.leases()
        over = [
            token
            for token in leases
            if is_unused(self.fs, f"{self.base}/{FOLDER}/{token}.json", now)
        ]
        in_use = {path for token in leases.keys() - over for path in leases[token].paths}
        # Its writer may have died before it gave up the lease.
        pack = pack_of(self)
        in_use |= set(pack.paths) if pack is not None else set()
        for token in over:
            lease = leases[token]
            row = self.run_row(lease.run_id)
            # A dropped run's row goes with its files, unless the run is back.
            listed = (
                {file["path"] for file in row["files"]} | {row_path(lease.run_id)} if row else set()
            )
            removed += self.remove(self.files_of_attempt(lease.run_id, token) - listed)
            removed += self.remove(set(lease.paths) - listed - in_use)
            self.remove({f"{FOLDER}/{token}.json"})
        return removed

    def leases(self) -> dict[str, Lease]:
        """Token -> lease; leases that are being written, or were removed meanwhile, are left out."""
        found = {}
        for path in self.files_in(FOLDER):
            if not path.endswith(".json"):
                continue
            try:
                lease = msgspec.json.decode(self.fs.cat_file(f"{self.base}/{path}"), type=Lease)
            except (FileNotFoundError, *JSON_FAULTS):
                continue
            found[path.rpartition("/")[2].removesuffix(".json")] = lease
        return found

    def files_of_attempt(self, run_id: str, token: str) -> set[str]:
        """Paths of an attempt's files, relative to the warehouse."""
        found = self.files_of_run(run_id)
        return {path for path in found if path.rpartition("/")[2].startswith(token)}

    def files_of_run(self, run_id: str) -> set[str]:
        """Paths of the files of all attempts at a run, relative to the warehouse."""
        folders = (f"tables/{table}/run_id={run_id}" for table in BY_NAME)
        return {path for folder in folders for path in self.files_in(folder)}

    def missing(self, files: Collection[FileEntry], run_id: str) -> list[str]:
        """Those of a run's files that are not there."""
        there = {
            path
            for table in {file["table"] for file in files}
            for path in self.files_in(f"tables/{table}/run_id={run_id}")
        }
        return sorted(file["path"] for file in files if file["path"] not in there)

    def remove(self, paths: set[str]) -> int:
        """Remove files, which may be gone already; how many were there.

        A dropped run's row goes before its files, and the mark that hides it goes after them: if killed in
        between, the run is still gone.
        """
        removed = 0
        for path in sorted(paths, key=_turn):
            with suppress(FileNotFoundError):  # another process may be clearing up, too
                self.fs.rm_file(f"{self.base}/{path}")
                removed += 1
                if path.startswith(("tables/runs/", "settings/")):  # in this order on the disk, too
                    sync_folder(self.fs, f"{self.base}/{path}".rpartition("/")[0])
        return removed

    def lease(self, token: str, run_id: str, paths: list[str]) -> float | None:
        """Record that files are in use for a while; see `leases.write_lease`."""
        return write_lease(self.fs, self.base, token, run_id, paths)

    def files_in(self, folder: str) -> list[str]:
        """Files in a folder of the warehouse, which may be absent; relative to the warehouse."""
        try:
            found = self.fs.ls(f"{self.base}/{folder}", detail=False, refresh=True)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [f"{folder}/{str(name).rstrip('/').rpartition('/')[2]}" for name in found]


def _turn(path: str) -> tuple[bool, bool]:
    return path.endswith(".dropped"), not path.startswith("tables/runs/")
