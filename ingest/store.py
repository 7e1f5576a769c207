"""Writes runs into a warehouse so that a reader finds the old state or the new one, never a mixture.

Every file of an attempt carries the attempt's token in its name and is listed in a lease beside the
tables. The run's row is written last and lists the files that count; the lease then goes. What a killed
attempt left is cleared by a later ingest once the lease has run out; files of a replaced run get a lease
too, so that readers who opened the run before can finish.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.files import open_fs
from xlahouse.ingest.schema import BY_NAME, LAYOUT_VERSION, Table

LEASE_S = 3600
ROW_GROUP = 1 << 17


class Lease(msgspec.Struct, frozen=True):
    """Who may still use files that no run's row lists, and until when (UNIX seconds)."""

    who: str
    until: float
    run_id: str
    paths: list[str]


@dataclass
class Store:
    """A warehouse's folder, on any file system that fsspec knows."""

    root: str
    fs: Any = field(init=False)
    base: str = field(init=False)

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
            self._write(path, msgspec.json.format(msgspec.json.encode(facts)) + b"\n")
            return
        try:
            found = int(msgspec.json.decode(self.fs.cat_file(path))["layout_version"])
        except (msgspec.DecodeError, KeyError, TypeError, ValueError):
            raise WarehouseError(f"{path}: not a warehouse's description; restore it") from None
        if found > LAYOUT_VERSION:
            raise WarehouseError(
                f"{self.root}: layout {found} is newer than this xlahouse knows ({LAYOUT_VERSION}); "
                "update xlahouse"
            )

    def run_row(self, run_id: str) -> dict[str, Any] | None:
        """The run's row; None where there is no such run, or its row cannot be read."""
        path = f"{self.base}/tables/runs/{run_id}.parquet"
        if not self.fs.exists(path):
            return None
        try:
            with self.fs.open(path, "rb") as file:
                rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
        except (pa.ArrowException, OSError, ValueError):
            return None  # damaged: the run is written anew
        return rows[0] if rows and set(BY_NAME["runs"].schema.names) <= set(rows[0]) else None

    def is_whole(self, row: dict[str, Any]) -> bool:
        """Whether every file that a run's row lists is there, with as many rows as it says."""
        try:
            return all(self._rows_in(file["path"]) == file["rows"] for file in row["files"])
        except (pa.ArrowException, OSError):
            return False

    def _rows_in(self, path: str) -> int:
        with self.fs.open(f"{self.base}/{path}", "rb") as file:
            return int(pq.ParquetFile(file).metadata.num_rows)

    def rename_run(self, row: dict[str, Any], name: str) -> None:
        """Give a run another name; its tables stay."""
        self._write_row(row | {"name": name})

    def write_run(self, row: dict[str, Any], tables: dict[str, pl.DataFrame]) -> None:
        """Write a run's tables, then its row.

        Args:
            row: the runs row without `files`.
            tables: every other table's frame, without run_id; one left out is empty.
        """
        run_id, token = row["run_id"], uuid.uuid4().hex
        names = [name for name, frame in tables.items() if not frame.is_empty()]
        paths = {name: f"tables/{name}/run_id={run_id}/{token}.parquet" for name in names}
        lease = self._lease(token, run_id, list(paths.values()))
        for name, path in paths.items():
            self._write_table(path, with_run_id(tables[name], BY_NAME[name], run_id))
        replaced = self.run_row(run_id)
        files = [
            {"table": name, "path": path, "rows": tables[name].height}
            for name, path in paths.items()
        ]
        self._write_row(row | {"files": files})
        if replaced is not None:
            self._lease(uuid.uuid4().hex, run_id, [file["path"] for file in replaced["files"]])
        self.fs.rm_file(lease)

    def _write_row(self, row: dict[str, Any]) -> None:
        runs = pa.Table.from_pylist([row], schema=BY_NAME["runs"].schema)
        sink = pa.BufferOutputStream()
        pq.write_table(runs, sink, compression="zstd")
        path = f"{self.base}/tables/runs/{row['run_id']}.parquet"
        self._write(path, sink.getvalue().to_pybytes())

    def clear_leftovers(self) -> int:
        """Remove files whose lease has run out and that no run lists; how many."""
        removed = 0
        for path in self.fs.glob(f"{self.base}/leases/*.json"):
            try:
                lease = msgspec.json.decode(self.fs.cat_file(path), type=Lease)
            except (FileNotFoundError, msgspec.DecodeError):
                continue  # another ingest cleared it, or is about to finish writing it
            if lease.until > time.time():
                continue
            row = self.run_row(lease.run_id)
            listed = {file["path"] for file in row["files"]} if row else set()
            for file in set(lease.paths) - listed:
                if self.fs.exists(f"{self.base}/{file}"):
                    self.fs.rm_file(f"{self.base}/{file}")
                    removed += 1
            self.fs.rm_file(path)
        return removed

    def _lease(self, token: str, run_id: str, paths: list[str]) -> str:
        path = f"{self.base}/leases/{token}.json"
        who = f"{socket.gethostname()}:{os.getpid()}"
        lease = Lease(who, time.time() + LEASE_S, run_id, paths)
        self._write(path, msgspec.json.encode(lease))
        return path

    def _write_table(self, path: str, table: pa.Table) -> None:
        full = f"{self.base}/{path}"
        self.fs.makedirs(full.rpartition("/")[0], exist_ok=True)
        with self.fs.open(full, "wb") as file:
            pq.write_table(table, file, compression="zstd", row_group_size=ROW_GROUP)

    def _write(self, path: str, raw: bytes) -> None:
        """Write whole or not at all: object stores do; elsewhere by renaming."""
        self.fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        if "file" not in (self.fs.protocol if isinstance(self.fs.protocol, tuple) else ()):
            self.fs.pipe_file(path, raw)
            return
        beside = f"{path}.{uuid.uuid4().hex}.tmp"
        self.fs.pipe_file(beside, raw)
        os.replace(beside, path)


def with_run_id(frame: pl.DataFrame, table: Table, run_id: str) -> pa.Table:
    """Exactly the table's columns, typed as its schema says and sorted as it asks; missing ones NULL."""
    present = set(frame.columns)
    schema = table.schema
    columns = [name for name in table.sort if name in present]
    ordered = frame.sort(columns, nulls_last=True) if columns else frame
    absent = {name: pl.lit(None) for name in schema.names if name not in present}
    full = ordered.with_columns(**absent).with_columns(run_id=pl.lit(run_id))
    return full.select(schema.names).to_arrow().cast(schema)
