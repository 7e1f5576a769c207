"""Writes a result in the format that the user asked for, a batch at a time."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import msgspec

from xlahouse.capture.errors import WarehouseError
from xlahouse.sql.result import Result, plain

if TYPE_CHECKING:
    import pyarrow as pa

BY_SUFFIX = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".md": "markdown",
    ".parquet": "parquet",
    ".arrow": "arrow",
}
CELL_WIDTH = 80
NUMERIC = {int, float, Decimal}
TABLE_ROWS = 1000  # a table is for reading; the other formats give every row


def write_result(
    result: Result, format: str, path: Path | None = None, limit: int | None = None
) -> int:
    """Write to `path`, or to stdout, and return the number of rows written.

    A file appears whole or not at all. A table on stdout stops at TABLE_ROWS rows unless `limit`
    says otherwise.

    Raises:
        WarehouseError: the file cannot be written.
        QueryError: a value is at fault while rows are computed.
    """
    write = WRITERS[format]
    if path is None:
        sys.stdout.flush()
        text = io.TextIOWrapper(sys.stdout.buffer, "utf-8", newline="")
        try:
            return write(result, text, limit)
        finally:
            text.detach()  # flushes, and leaves stdout open
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("w", encoding="utf-8", newline="") as file:
            rows = write(result, file, limit)
        partial.replace(path)
    except OSError as error:
        raise WarehouseError(f"{path} cannot be written: {error.strerror or error}") from error
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


def _rows(result: Result, limit: int | None) -> Iterator[list[Any]]:
    for batch in _batches(result, limit):
        columns = [[plain(value) for value in column.to_pylist()] for column in batch.columns]
        yield from map(list, zip(*columns, strict=True))


def _write_csv(result: Result, file: IO[str], limit: int | None) -> int:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(result.columns)
    count = 0
    for row in _rows(result, limit):
        writer.writerow(["" if value is None else _text(value) for value in row])
        count += 1
    return count


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
    encoder = msgspec.json.Encoder(enc_hook=str, decimal_format="number")
    for row in _rows(result, limit):
        yield encoder.encode(dict(zip(result.columns, row, strict=True))).decode()


def _write_markdown(result: Result, file: IO[str], limit: int | None) -> int:
    file.write(f"| {' | '.join(map(_cell, result.columns))} |\n")
    file.write(f"|{'|'.join(' --- ' for _ in result.columns)}|\n")
    count = 0
    for row in _rows(result, limit):
        cells = ["" if value is None else _cell(_short(value)) for value in row]
        file.write(f"| {' | '.join(cells)} |\n")
        count += 1
    return count


def _write_table(result: Result, file: IO[str], limit: int | None) -> int:
    shown = TABLE_ROWS if limit is None else limit
    rows = list(_rows(result, shown + 1))
    cut = limit is None and len(rows) > shown
    rows = rows[:shown]
    cells = [["NULL" if value is None else _cut(_short(value)) for value in row] for row in rows]
    numeric = [
        bool(kinds := {type(row[at]) for row in rows} - {type(None)}) and kinds <= NUMERIC
        for at in range(len(result.columns))
    ]
    _draw(result.columns, cells, numeric, file)
    if cut:
        print(f"the first {shown:,} rows; --limit N shows more, --format csv all", file=sys.stderr)
    return len(rows)


def _draw(columns: list[str], cells: list[list[str]], numeric: list[bool], file: IO[str]) -> None:
    """Columns under their names, numbers to the right; lines end without blanks."""
    widths = [
        max(len(column), *(len(row[at]) for row in cells), 1) if cells else len(column)
        for at, column in enumerate(columns)
    ]

    def line(row: list[str]) -> str:
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip() + "\n"

    file.write(line(columns))
    file.write("  ".join("-" * width for width in widths) + "\n")
    for row in cells:
        file.write(line(row))


def _write_parquet(result: Result, file: IO[str], limit: int | None) -> int:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(_binary(file), result.schema, compression="zstd") as writer:
        return _copy(result, limit, writer.write_batch)


def _write_arrow(result: Result, file: IO[str], limit: int | None) -> int:
    import pyarrow as pa

    with pa.ipc.new_file(_binary(file), result.schema) as writer:
        return _copy(result, limit, writer.write_batch)


def _copy(result: Result, limit: int | None, write: Callable[[pa.RecordBatch], None]) -> int:
    count = 0
    for batch in _batches(result, limit):
        write(batch)
        count += batch.num_rows
    return count


def _binary(file: IO[str]) -> Any:
    assert isinstance(file, io.TextIOWrapper)
    return file.buffer


def _text(value: Any) -> Any:
    """Lists and structs as JSON; all else as it is."""
    if isinstance(value, list | dict):
        return msgspec.json.encode(value, enc_hook=str).decode()
    return value


def _short(value: Any) -> str:
    """For reading: six digits of a float, but a whole number (bytes are DOUBLE) in full."""
    if isinstance(value, float):
        exact = value.is_integer() and abs(value) < 1e15
        return f"{value:.0f}" if exact else f"{value:.6g}"
    if isinstance(value, bool):
        return str(value).lower()
    return str(_text(value)).replace("\n", "\\n")


def _cut(text: str) -> str:
    return text if len(text) <= CELL_WIDTH else text[: CELL_WIDTH - 1] + "…"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


WRITERS: dict[str, Callable[[Result, IO[str], int | None], int]] = {
    "table": _write_table,
    "csv": _write_csv,
    "json": _write_json,
    "jsonl": _write_jsonl,
    "markdown": _write_markdown,
    "parquet": _write_parquet,
    "arrow": _write_arrow,
}
