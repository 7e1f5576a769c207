"""Copies the rows of many small runs into one file per table, so that a query over all runs opens few files.

The runs' own files are authoritative, as their rows are: a run counts as packed only while its row's file has
the stamp that it had when the run was packed (run_index.py). So ingest and drop need not know of the pack,
and a pack that is gone or damaged costs time alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.ingest.schema import BY_NAME, INGEST_VERSION, TABLES
from xlahouse.ingest.store.leases import FOLDER
from xlahouse.ingest.store.run_index import (
    LEAST_NEW,
    LEAST_NEW_SHARE,
    PACK,
    indexed_files,
    stamped_rows,
)

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from xlahouse.ingest.store.store import Store
    from xlahouse.ingest.table import FileEntry

SMALL_ROWS = 20_000  # a run of more rows gains little
PACKED = tuple(table for table in TABLES if table.name != "runs")


class Pack(msgspec.Struct, frozen=True):
    """A pack: whose rows it holds, and in which files."""

    token: str  # its name, part of the names of its files
    ingest_version: int  # of the code that wrote it
    runs: dict[str, str]  # run_id -> stamp of its row
    bytes: dict[str, int]  # name of each file -> its size

    def path(self, table: str) -> str:
        """The rows of a table, relative to the warehouse."""
        return f"{self.folder}/{table}.parquet"

    def nothing(self, table: str) -> str:
        """A file with the table's columns and no rows."""
        return f"{self.empty_folder}/no_{table}.parquet"

    @property
    def folder(self) -> str:
        """The folder of its files."""
        return f"index/pack-{self.token}"

    @property
    def empty_folder(self) -> str:
        """The folder of its files without rows, named as a run's folder is."""
        return f"{self.folder}/run_id=none"

    @property
    def tables(self) -> list[str]:
        """The tables of which it has rows."""
        return [table.name for table in PACKED if f"{table.name}.parquet" in self.bytes]

    @property
    def paths(self) -> list[str]:
        """All files that it has, or has while it is written."""
        names = [table.name for table in PACKED]
        return [path(name) for name in names for path in (self.path, self.nothing)]

    def current(self, stamps: Mapping[str, str | None]) -> frozenset[str]:
        """The runs whose rows it holds as they are now; none, if another version wrote it.

        Args:
            stamps: from stamped_rows.
        """
        if self.ingest_version != INGEST_VERSION:
            return frozenset()
        return frozenset(run for run, stamp in self.runs.items() if stamps.get(run) == stamp)


def read_pack(raw: bytes) -> Pack | None:
    """A pack from the contents of PACK; None where it is damaged."""
    try:
        return msgspec.json.decode(raw, type=Pack)
    except JSON_FAULTS:
        return None


def pack_runs(store: Store) -> int:
    """Pack the small runs, where many are not packed, or some that are packed changed; how many are packed.

    Readers find the old pack or the new one; the old one's files go once their lease has run out.

    Raises:
        OSError: it cannot be written; the old pack stays.
    """
    old, stamps, kept = _packed(store)
    changed = old is not None and len(kept) < len(old.runs)
    small = _small_runs(store, stamps, kept)
    if not changed and _too_few(small, kept):
        return len(kept)
    if len(small) + len(kept) < LEAST_NEW:
        unpack(store)
        return 0
    pack = Pack(uuid.uuid4().hex, INGEST_VERSION, {}, {})
    store.lease(pack.token, "", pack.paths)
    files = _Files(store, pack)
    try:
        if old is not None and kept:
            for table in old.tables:
                files.add_packed(table, old, kept)
        packed = [*kept, *(run for run in sorted(small) if files.add_run(small[run]))]
        runs = {run: stamp for run in sorted(packed) if (stamp := stamps[run]) is not None}
        if old is not None:  # before it is replaced: if killed in between, it counts still
            store.lease(uuid.uuid4().hex, "", old.paths)
        _write(store, msgspec.structs.replace(pack, runs=runs, bytes=files.close()))
    except _DamagedPackError:
        files.abandon()
        unpack(store)
        return pack_runs(store)
    except BaseException:
        files.abandon()
        raise
    store.remove({f"{FOLDER}/{pack.token}.json"})
    return len(runs)


def runs_to_pack(store: Store) -> int:
    """How many small runs would be packed now; 0 where they are too few to matter."""
    _, stamps, kept = _packed(store)
    if _too_few(stamps.keys() - kept, kept):
        return 0
    small = _small_runs(store, stamps, kept)
    return 0 if _too_few(small, kept) else len(small)


def _packed(store: Store) -> tuple[Pack | None, dict[str, str | None], frozenset[str]]:
    """The pack, the stamp of every run's row, and the runs that the pack holds as they are now."""
    pack, stamps = pack_of(store), stamped_rows(store.root)
    return pack, stamps, pack.current(stamps) if pack is not None else frozenset()


def _too_few(small: Sized, kept: Sized) -> bool:
    """Whether packing runs beside those that are packed gains less than it costs."""
    return len(small) < max(LEAST_NEW, LEAST_NEW_SHARE * len(kept))


def files_of_compact(store: Store) -> dict[str, int]:
    """run_id -> how many files it has, of the packed runs that have one a table: compacting them changes
    nothing."""
    pack = pack_of(store)
    if pack is None:
        return {}
    packed = pack.current(stamped_rows(store.root))
    return {
        run: len(files)
        for run, stamp, _, files in indexed_files(store.fs, store.base)
        if run in packed
        and stamp == pack.runs[run]
        and len(files) == len({file["table"] for file in files})
    }


def unpack(store: Store) -> None:
    """Remove the pack; readers that opened it before fail."""
    old = pack_of(store)
    if old is None:
        return
    store.lease(old.token, "", old.paths)  # if killed in between, its files go later
    store.remove({PACK})
    store.remove(set(old.paths))
    store.remove({f"{FOLDER}/{old.token}.json"})


def pack_of(store: Store) -> Pack | None:
    """The pack, if there is one that can be read: its files stay, whatever leases say."""
    try:
        return read_pack(store.fs.cat_file(f"{store.base}/{PACK}"))
    except FileNotFoundError:
        return None


def _write(store: Store, pack: Pack) -> None:
    from xlahouse.ingest.events.files import sync_files, write_whole

    written = [path(table) for table in pack.tables for path in (pack.path, pack.nothing)]
    sync_files(store.fs, [f"{store.base}/{path}" for path in written])
    write_whole(store.fs, f"{store.base}/{PACK}", msgspec.json.encode(pack))


def _small_runs(
    store: Store, stamps: Mapping[str, str | None], kept: frozenset[str]
) -> dict[str, list[FileEntry]]:
    """run_id -> files of the small runs of this version that are indexed and not packed."""
    return {
        run: files
        for run, stamp, version, files in indexed_files(store.fs, store.base)
        if stamp == stamps.get(run)
        and run not in kept
        and version == INGEST_VERSION
        and sum(file["rows"] for file in files) <= SMALL_ROWS
    }


class _DamagedPackError(Exception):
    """The earlier pack cannot be read."""


@dataclass
class _Files:
    """The files of a pack, as they are written."""

    store: Store  # the warehouse
    pack: Pack  # as it will be
    # of each table the pieces that are not written yet, and how many rows they have
    held: dict[str, list[pa.Table]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)  # of each table, rows in `held`
    # of each table, its open file
    writers: dict[str, tuple[pa.NativeFile, pq.ParquetWriter]] = field(default_factory=dict)

    def add_run(self, files: list[FileEntry]) -> bool:
        """Add a run; whether it was, as its files are whole."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from xlahouse.ingest.events.files import open_native

        found: list[tuple[str, pa.Table]] = []
        try:
            for file in files:
                with open_native(self.store.fs, f"{self.store.base}/{file['path']}") as opened:
                    piece = pq.ParquetFile(opened, page_checksum_verification=True).read()
                if piece.num_rows != file["rows"]:
                    return False
                found.append((file["table"], piece.select(BY_NAME[file["table"]].schema.names)))
        except (OSError, KeyError, pa.ArrowException):  # damaged: queries say so
            return False
        for table, piece in found:
            self._add(table, piece)
        return True

    def add_packed(self, table: str, old: Pack, kept: frozenset[str]) -> None:
        """Add the rows of the runs that are in an earlier pack as they are now.

        Raises:
            _DamagedPackError: it cannot be read.
        """
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        from xlahouse.ingest.events.files import open_native

        runs = pa.array(sorted(kept), pa.string())
        try:
            with open_native(self.store.fs, f"{self.store.base}/{old.path(table)}") as opened:
                file = pq.ParquetFile(opened, page_checksum_verification=True)
                for group in range(file.metadata.num_row_groups):
                    piece = file.read_row_group(group)
                    self._add(table, piece.filter(pc.is_in(piece["run_id"], runs)))
        except (OSError, pa.ArrowException) as error:
            raise _DamagedPackError from error

    def close(self) -> dict[str, int]:
        """Write what is left, and a file without rows of each table; name of each file -> its size."""
        sizes = {}
        for table in list(self.rows):
            self._write(table)
            empty = self.pack.nothing(table)
            for path, (sink, writer) in (
                (self.pack.path(table), self.writers.pop(table)),
                (empty, self._opened(empty, BY_NAME[table].schema)),
            ):
                writer.close()
                sizes[path.rpartition("/")[2]] = sink.tell()
                sink.close()
        return sizes

    def abandon(self) -> None:
        """Close and remove everything."""
        for sink, writer in self.writers.values():
            writer.close()
            sink.close()
        self.store.remove({*self.pack.paths, f"{FOLDER}/{self.pack.token}.json"})

    def _add(self, table: str, piece: pa.Table) -> None:
        from xlahouse.ingest.tables.pieces import ROW_GROUP

        self.held.setdefault(table, []).append(piece)
        self.rows[table] = self.rows.get(table, 0) + piece.num_rows
        if self.rows[table] >= ROW_GROUP:
            self._write(table)

    def _write(self, table: str) -> None:
        import pyarrow as pa

        _, writer = self._writer(table)
        if pieces := self.held.pop(table, []):
            schema = BY_NAME[table].schema
            writer.write_table(pa.concat_tables(piece.cast(schema) for piece in pieces))
        self.rows[table] = 0

    def _writer(self, table: str) -> tuple[pa.NativeFile, pq.ParquetWriter]:
        if table not in self.writers:
            path = self.pack.path(table)
            self.writers[table] = self._opened(path, BY_NAME[table].schema)
        return self.writers[table]

    def _opened(self, path: str, schema: pa.Schema) -> tuple[pa.NativeFile, pq.ParquetWriter]:
        from xlahouse.ingest.store.parquet_sink import open_sink, open_writer

        full = f"{self.store.base}/{path}"
        self.store.fs.makedirs(full.rpartition("/")[0], exist_ok=True)
        sink = open_sink(self.store.fs, full)
        return sink, open_writer(sink, schema, by_run=True)
