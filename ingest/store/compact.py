"""Rewrites a run's many files as few: readers open fewer files, each sorted as a whole.

Ingest writes a file for each plane and table, so a run of hundreds of devices has thousands.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from xlahouse.capture.errors import WarehouseError, one_line
from xlahouse.capture.scratch import scratch_folder
from xlahouse.ingest.events.files import open_native
from xlahouse.ingest.schema import BY_NAME
from xlahouse.ingest.store.run_writer import RunWriter
from xlahouse.ingest.store.store import Store
from xlahouse.ingest.table import FileEntry, RunRow, Table
from xlahouse.ingest.tables.pieces import ROW_GROUP

# Rows of one file: enough row groups to prune by, few files to list and open.
FILE_ROWS = 1 << 23
SORT_MEMORY = "2GB"  # larger sorts spill to disk


@dataclass(frozen=True)
class Compacted:
    """How many files a run had and has now, and how many tables got columns that they lacked."""

    run_id: str  # the run's id
    before: int  # files, as they were
    after: int  # files, as they are
    filled: int = 0  # tables that got columns of this version


@dataclass(frozen=True)
class _File:
    """One of thousands of files: open only while it is read."""

    store: Store  # the warehouse
    path: str  # relative to the warehouse

    @contextmanager
    def _opened(self) -> Iterator[pq.ParquetFile]:
        with open_native(self.store.fs, self.path) as file:
            yield pq.ParquetFile(file, page_checksum_verification=True)

    @property
    def schema(self) -> pa.Schema:
        with self._opened() as file:
            return file.schema_arrow

    def range_of(self, column: str) -> tuple[Any, Any] | None:
        """Least and greatest value of a column by the file's statistics; None if NULL is among them."""
        with self._opened() as file:
            if column not in file.schema_arrow.names:
                return None
            metadata, at = file.metadata, file.schema_arrow.names.index(column)
        least, greatest = [], []
        for group in range(metadata.num_row_groups):
            # Lists come after the columns that tables are sorted by, so places in file and schema agree.
            facts = metadata.row_group(group).column(at).statistics
            if facts is None or not facts.has_min_max or facts.null_count:
                return None
            least.append(facts.min)
            greatest.append(facts.max)
        return (min(least), max(greatest)) if least else None

    def row_groups(self) -> Iterator[pa.Table]:
        """Its rows, one row group in memory at a time."""
        with self._opened() as file:
            for group in range(file.metadata.num_row_groups):
                yield file.read_row_group(group)


def compact_run(store: Store, run_id: str) -> Compacted:
    """Write a run's tables again where they are in more files than they need.

    Readers find the old files or the new ones; the old ones go once their lease has expired. If killed,
    it leaves the run as it was.

    Args:
        store: the warehouse.
        run_id: the run's id, whole.

    Raises:
        WarehouseError: there is no such run, its row or files are damaged, or it was ingested again
            or dropped meanwhile.
    """
    row = store.run_row(run_id)
    if row is None:
        raise WarehouseError(f"{run_id}: no such run, or its row is damaged; see `xlahouse runs`")
    store.check_layout()
    store.check_version(row)
    kept: list[FileEntry] = []
    filled = 0
    writer = store.begin(run_id)
    try:
        for name, files in _by_table(row).items():
            rows = sum(file["rows"] for file in files)
            whole = all(_has_all_columns(store, file) for file in files)
            if whole and len(files) <= -(-rows // FILE_ROWS):
                kept += files
            else:
                filled += not whole
                _rewrite(writer, BY_NAME[name], [file["path"] for file in files], rows)
        if len(kept) == len(row["files"]):
            writer.abandon()
            return Compacted(run_id, len(kept), len(kept))
        if store.run_row(run_id) != row:
            raise WarehouseError(
                f"{run_id}: ingested again or dropped while it was compacted; compact it again"
            )
        writer.commit(row, kept)
    except (pa.ArrowException, OSError) as error:
        writer.abandon()
        raise WarehouseError(f"{run_id}: {one_line(error)}; the run stays as it was") from error
    except BaseException:
        writer.abandon()
        raise
    return Compacted(run_id, len(row["files"]), len(kept) + len(writer.files), filled)


def _has_all_columns(store: Store, file: FileEntry) -> bool:
    """Whether a file has the columns of its table; an older ingest's may lack some."""
    names = _File(store, f"{store.base}/{file['path']}").schema.names
    return set(BY_NAME[file["table"]].schema.names) <= set(names)


def _by_table(row: RunRow) -> dict[str, list[FileEntry]]:
    tables: dict[str, list[FileEntry]] = {}
    for file in row["files"]:
        tables.setdefault(file["table"], []).append(file)
    return tables


def _rewrite(writer: RunWriter, table: Table, paths: list[str], rows: int) -> None:
    """Rewrite the files of a table as fewer files, in the table's order.

    Raises:
        WarehouseError: their number of rows differs from that in the run's row.
    """
    store = writer.store
    files = [_File(store, f"{store.base}/{path}") for path in paths]
    batches = _pieces(_in_order(files, table), table)
    written = _write_files(writer, table.name, batches)
    if written != rows:
        raise WarehouseError(
            f"{writer.run_id}: {table.name} has {written:,} rows where the run's row says {rows:,}; "
            "ingest the run again"
        )


def _write_files(writer: RunWriter, name: str, pieces: Iterator[pa.Table]) -> int:
    """Write pieces as files of at most FILE_ROWS; the number of rows."""
    rows = part = 0
    ahead = next(pieces, None)
    while ahead is not None:
        held: list[pa.Table | None] = [ahead]

        def one_file(held: list[pa.Table | None] = held) -> Iterator[pa.Table]:
            filled = 0
            while held[0] is not None and filled < FILE_ROWS:
                yield held[0]
                filled += held[0].num_rows
                held[0] = next(pieces, None)

        before = writer.rows().get(name, 0)
        writer.write_pieces(name, one_file(), part)
        rows += writer.rows()[name] - before
        ahead, part = held[0], part + 1
    return rows


def _in_order(files: list[_File], table: Table) -> Iterator[pa.Table]:
    """Rows of all files in the table's order: file by file where files do not overlap, else sorted."""
    if not table.sort:
        return _row_groups(files)
    ranges = [file.range_of(table.sort[0]) for file in files]
    known = [found for found in ranges if found is not None]
    if len(known) == len(files):
        order = sorted(range(len(files)), key=lambda at: known[at])
        if all(known[one][1] < known[two][0] for one, two in pairwise(order)):
            return _row_groups([files[at] for at in order])
    return _sorted(files, table)


def _row_groups(files: list[_File]) -> Iterator[pa.Table]:
    for file in files:
        yield from file.row_groups()


def _sorted(files: list[_File], table: Table) -> Iterator[pa.Table]:
    """Rows of all files, sorted by DuckDB, which spills to disk what does not fit in memory."""
    import duckdb

    pieces = (_filled(piece, table) for piece in _row_groups(files))
    rows = pa.RecordBatchReader.from_batches(
        table.schema, (batch for piece in pieces for batch in piece.to_batches())
    )
    order = ", ".join(f"{column} nulls last" for column in table.sort)
    with tempfile.TemporaryDirectory(dir=scratch_folder()) as spill, duckdb.connect() as connection:
        connection.execute("set enable_progress_bar = false")  # it goes to stdout, among our rows
        connection.execute(f"set memory_limit = '{SORT_MEMORY}'")
        connection.execute("set temp_directory = $spill", {"spill": spill})
        connection.register("unsorted", rows)
        try:
            found = connection.sql(f"select * from unsorted order by {order}")
            for batch in found.to_arrow_reader(ROW_GROUP):
                yield pa.Table.from_batches([batch])
        except duckdb.Error as error:  # such as no free space to spill
            raise OSError(str(error)) from error


def _filled(piece: pa.Table, table: Table) -> pa.Table:
    """Rows as the schema has them: columns that an older ingest lacks are NULL."""
    for field in table.schema:
        if field.name not in piece.column_names:
            piece = piece.append_column(field, pa.nulls(piece.num_rows, field.type))
    return piece.select(table.schema.names).cast(table.schema)


def _pieces(tables: Iterator[pa.Table], table: Table) -> Iterator[pa.Table]:
    """Row groups of full size, as the schema has them."""
    held: list[pa.Table] = []
    rows = 0
    for piece in tables:
        held.append(_filled(piece, table))
        rows += piece.num_rows
        while rows >= ROW_GROUP:
            whole = pa.concat_tables(held)
            yield whole.slice(0, ROW_GROUP)
            held, rows = [whole.slice(ROW_GROUP)], rows - ROW_GROUP
    if rows:
        yield pa.concat_tables(held)
