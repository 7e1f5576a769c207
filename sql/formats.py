"""Writes a result in the format that the user asked for, a batch at a time."""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

from xlahouse.capture.errors import QueryError, WarehouseError
from xlahouse.sql.drawing import (
    as_text,
    draw,
    draw_records,
    elision,
    short,
    terminal_width,
    visible,
)
from xlahouse.sql.outputs import is_stdout, is_stream, open_stream
from xlahouse.sql.result import Result, plain, values
from xlahouse.sql.types import Value

if TYPE_CHECKING:
    import pyarrow as pa

WriteRows = Callable[[Result, IO[str], int | None], int]
BY_SUFFIX = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".md": "markdown",
    ".parquet": "parquet",
    ".arrow": "arrow",
}
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet computes text that begins so
TABLE_ROWS = 1000  # a table is for reading; the other formats give every row


def write_result(
    result: Result,
    format: str,
    path: Path | None = None,
    limit: int | None = None,
    formulas: bool = False,
) -> int:
    """Write to `path`, or to stdout, and return the number of rows written.

    A file appears whole or not at all; a device or a FIFO is written into. A table on stdout stops
    at TABLE_ROWS rows unless `limit` says otherwise. In a CSV file, text that a spreadsheet would
    compute begins with an apostrophe unless `formulas`; on stdout it is as it is.

    Raises:
        WarehouseError: the file cannot be written.
        QueryError: a value is at fault while rows are computed, or the format cannot hold it.
    """
    write = _writer(format, path, limit, formulas)
    try:
        if path is None or is_stdout(path):
            return _write_to_stdout(result, write, limit)
        if is_stream(path):
            with open_stream(path) as file:
                return write(result, file, limit)
        return _write_whole(result, write, path.resolve(), limit)
    except OSError as error:
        if path is None and isinstance(error, BrokenPipeError):
            raise
        raise WarehouseError(
            f"{path or 'stdout'} cannot be written: {error.strerror or error}; "
            "name a file with -o where there is free space and write permission"
        ) from error


def _writer(format: str, path: Path | None, limit: int | None, formulas: bool) -> WriteRows:
    if format == "table" and path is None and limit is None:
        return _write_page
    if format == "csv" and path is not None and not formulas:
        return _write_csv_file
    return WRITERS[format]


def _write_to_stdout(result: Result, write: WriteRows, limit: int | None) -> int:
    sys.stdout.flush()
    text = io.TextIOWrapper(sys.stdout.buffer, "utf-8", newline="")
    try:
        return write(result, text, limit)
    finally:
        text.detach()  # flushes, and leaves stdout open


def _write_whole(result: Result, write: WriteRows, path: Path, limit: int | None) -> int:
    """Write beside the file and then put it in its place, with the rights that it had."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            rows = write(result, file, limit)
        if path.exists():
            shutil.copymode(path, partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return rows


def format_for(path: Path | None) -> str:
    """The format that a file's suffix asks for; a table where it asks for none."""
    return "table" if path is None else BY_SUFFIX.get(path.suffix.lower(), "table")


def _batches(result: Result, limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in result.batches():
        part = batch if left is None else batch.slice(0, left)
        yield part
        if left is not None:
            left -= part.num_rows
            if left <= 0:
                return


def _rows(result: Result, limit: int | None) -> Iterator[list[Value]]:
    for batch in _batches(result, limit):
        columns = [[plain(value) for value in values(column)] for column in batch.columns]
        yield from map(list, zip(*columns, strict=True))


def _write_csv(result: Result, file: IO[str], limit: int | None) -> int:
    return _csv(result.columns, _rows(result, limit), file, as_text)


def _write_csv_file(result: Result, file: IO[str], limit: int | None) -> int:
    return _csv(list(map(inert, result.columns)), _rows(result, limit), file, _inert_value)


def write_csv_safely(result: Result, file: IO[str]) -> int:
    """Write all rows as CSV in which no spreadsheet computes a text; the number of rows."""
    return _write_csv_file(result, file, None)


def _csv(
    columns: list[str],
    rows: Iterator[list[Value]],
    file: IO[str],
    cell: Callable[[object], object],
) -> int:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    count = 0
    for row in rows:
        writer.writerow(["" if value is None else cell(value) for value in row])
        count += 1
    return count


def _inert_value(value: object) -> object:
    """Text that no spreadsheet computes; numbers as they are."""
    return inert(value) if isinstance(value, str) else as_text(value)


def inert(text: str) -> str:
    """The text, after an apostrophe where a spreadsheet would take it for a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text


def _write_json(result: Result, file: IO[str], limit: int | None) -> int:
    count = 0
    for count, line in enumerate(_json_lines(result, limit), start=1):
        file.write("[\n" if count == 1 else ",\n")
        file.write(line)
    file.write("\n]\n" if count else "[]\n")
    return count


def _write_jsonl(result: Result, file: IO[str], limit: int | None) -> int:
    count = 0
    for line in _json_lines(result, limit):
        file.write(line + "\n")
        count += 1
    return count


def _json_lines(result: Result, limit: int | None) -> Iterator[str]:
    import msgspec

    encoder = msgspec.json.Encoder(enc_hook=str, decimal_format="number")
    for row in _rows(result, limit):
        yield encoder.encode(dict(zip(result.columns, row, strict=True))).decode()


def _write_markdown(result: Result, file: IO[str], limit: int | None) -> int:
    file.write(f"| {' | '.join(map(_cell, result.columns))} |\n")
    file.write(f"|{'|'.join(' --- ' for _ in result.columns)}|\n")
    count = 0
    for row in _rows(result, limit):
        cells = ["" if value is None else _cell(short(value)) for value in row]
        file.write(f"| {' | '.join(cells)} |\n")
        count += 1
    return count


def _write_page(result: Result, file: IO[str], limit: int | None) -> int:
    """A table of TABLE_ROWS rows at most, and a word on stderr where there are more."""
    rows = result.head(TABLE_ROWS + 1)
    _draw(result, rows[:TABLE_ROWS], file)
    if len(rows) > TABLE_ROWS:
        print(
            f"the first {TABLE_ROWS:,} rows; --limit N shows more, --format csv all",
            file=sys.stderr,
        )
    return min(len(rows), TABLE_ROWS)


def _write_table(result: Result, file: IO[str], limit: int | None) -> int:
    rows = list(_rows(result, None)) if limit is None else result.head(limit)
    _draw(result, rows, file)
    return len(rows)


def _draw(result: Result, rows: list[list[Value]], file: IO[str]) -> None:
    hidden = draw(result.columns, rows, file, terminal_width(file))
    if hidden:
        file.flush()
        print(elision(hidden, "--format line shows all"), file=sys.stderr)


def _write_line(result: Result, file: IO[str], limit: int | None) -> int:
    count = 0
    for count, row in enumerate(_rows(result, limit), start=1):
        draw_records(result.columns, [row], file, count)
    return count


def _write_parquet(result: Result, file: IO[str], limit: int | None) -> int:
    import pyarrow.parquet as pq

    with (
        _holding(result, "Parquet"),
        pq.ParquetWriter(_binary(file), result.schema, compression="zstd") as writer,
    ):
        return _copy(result, limit, writer.write_batch)


def _write_arrow(result: Result, file: IO[str], limit: int | None) -> int:
    import pyarrow as pa

    with _holding(result, "Arrow"), pa.ipc.new_file(_binary(file), result.schema) as writer:
        return _copy(result, limit, writer.write_batch)


@contextmanager
def _holding(result: Result, format: str) -> Iterator[None]:
    """Say so where a format has no place for a value, such as an infinite second."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        text = " ".join(str(error).split())
        raise QueryError(
            f"{format} cannot hold a value: {text}; cast the column to varchar, or write csv",
            result.sql,
        ) from error


def _copy(result: Result, limit: int | None, write: Callable[[pa.RecordBatch], None]) -> int:
    count = 0
    for batch in _batches(result, limit):
        write(batch)
        count += batch.num_rows
    return count


def _binary(file: IO[str]) -> BinaryIO:
    assert isinstance(file, io.TextIOWrapper)
    binary: BinaryIO = file.buffer
    return binary


def _cell(text: str) -> str:
    return visible(text).replace("|", "\\|")


WRITERS: dict[str, WriteRows] = {
    "table": _write_table,
    "line": _write_line,
    "csv": _write_csv,
    "json": _write_json,
    "jsonl": _write_jsonl,
    "markdown": _write_markdown,
    "parquet": _write_parquet,
    "arrow": _write_arrow,
}
