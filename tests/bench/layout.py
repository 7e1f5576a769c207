"""The cost of the ops table's layout on disk and of alternatives: `python -m tests.bench.layout`.

Two million ops of 32 devices, with random durations, are written in each layout and queried for all rows, for
one column, and for a moment of one device. It prints CPU seconds, the least of some rounds.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench.large import _collectives, _ops, _table
from xlahouse.ingest.store import parquet_sink

DEVICES, STEPS, ROUNDS = 32, 125, 5
QUERIES = {
    "sum by op": "select op, sum(self_ps) from f group by op",
    "one column": "select max(duration_ps) from f",
    "a moment of one device": "select * from f where device_id = 20 "
    "and start_ps between 3000000000000 and 3100000000000",
}


@dataclass(frozen=True)
class Layout:
    """Differences from the layout that ingest writes. options: for pyarrow's ParquetWriter."""

    name: str
    row_group: int = parquet_sink.ROW_GROUP
    sort: tuple[str, ...] = ("device_id", "start_ps")
    options: tuple[tuple[str, Any], ...] = ()


AS_WRITTEN = Layout("as ingest writes it")
LAYOUTS = (
    AS_WRITTEN,
    replace(AS_WRITTEN, name="row groups of 16,384", row_group=1 << 14),
    replace(AS_WRITTEN, name="row groups of 1,048,576", row_group=1 << 20),
    replace(AS_WRITTEN, name="sorted by start alone", sort=("start_ps",)),
    replace(AS_WRITTEN, name="not sorted", sort=()),
    replace(AS_WRITTEN, name="statistics of all columns", options=(("write_statistics", True),)),
    replace(AS_WRITTEN, name="no statistics", options=(("write_statistics", False),)),
    replace(AS_WRITTEN, name="no dictionaries", options=(("use_dictionary", False),)),
    replace(
        AS_WRITTEN,
        name="dictionaries of all columns",
        options=(("use_dictionary", True), ("column_encoding", None)),
    ),
    replace(AS_WRITTEN, name="no differences", options=(("column_encoding", None),)),
    replace(AS_WRITTEN, name="zstd, level 3", options=(("compression_level", 3),)),
    replace(
        AS_WRITTEN, name="snappy", options=(("compression", "snappy"), ("compression_level", None))
    ),
    replace(
        AS_WRITTEN, name="no compression", options=(("compression", "none"), ("compression_level", None))
    ),
)  # fmt: skip


def ops() -> pa.Table:
    """The rows, by device and start, with texts as dictionaries as ingest has them."""
    parts = []
    for device in range(DEVICES):
        drawn = np.random.default_rng(device)
        parts.append(_table("ops", _ops(_collectives(STEPS, device, drawn), drawn)))
    rows = pa.concat_tables(parts)
    for at, field in enumerate(rows.schema):
        if pa.types.is_string(field.type):
            rows = rows.set_column(at, field.name, rows[field.name].dictionary_encode())
    return rows.unify_dictionaries().combine_chunks()


def in_order(rows: pa.Table, sort: tuple[str, ...]) -> pa.Table:
    """The rows in another order; without columns to sort by, shuffled."""
    if sort == AS_WRITTEN.sort:
        return rows
    if not sort:
        return rows.take(np.random.default_rng(0).permutation(rows.num_rows))
    return rows.sort_by([(name, "ascending") for name in sort])


def write(layout: Layout, rows: pa.Table, path: Path) -> None:
    """Write the rows as ingest would, except for the layout's differences."""
    own = pq.ParquetWriter

    def writer(file: Any, schema: pa.Schema, **options: Any) -> pq.ParquetWriter:
        return own(file, schema, **options | dict(layout.options))

    parquet_sink.pq.ParquetWriter = writer
    try:
        with path.open("wb") as file, parquet_sink.open_writer(file, rows.schema) as opened:
            opened.write_table(rows, row_group_size=layout.row_group)
    finally:
        parquet_sink.pq.ParquetWriter = own


def cpu(run: Callable[[], object]) -> float:
    """User and system seconds of this process, over all threads."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    run()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def costs(folder: Path) -> Iterator[tuple[Layout, int, list[float]]]:
    """(layout, bytes, least CPU seconds of writing and of each query)."""
    rows = ops()
    given = {layout.sort: in_order(rows, layout.sort) for layout in LAYOUTS}
    least = {layout: [float("inf")] * (1 + len(QUERIES)) for layout in LAYOUTS}
    paths = {layout: folder / f"{number}.parquet" for number, layout in enumerate(LAYOUTS)}
    for _ in range(ROUNDS):
        for layout, path in paths.items():
            runs = [partial(write, layout, given[layout.sort], path)]
            taken = map(cpu, runs + [partial(ask, sql, path) for sql in QUERIES.values()])
            least[layout] = [min(pair) for pair in zip(least[layout], taken, strict=True)]
    for layout, path in paths.items():
        yield layout, path.stat().st_size, least[layout]


def ask(sql: str, path: Path) -> None:
    """Query the file, in a new database."""
    with duckdb.connect() as connection:
        connection.execute(f"create view f as from read_parquet('{path}')")
        connection.sql(sql).to_arrow_table()


def main() -> None:
    print("| ops table | MB | write, CPU s |", " | ".join(QUERIES), "|")
    print("| --- | ---: | ---: |", " | ".join("---:" for _ in QUERIES), "|")
    with TemporaryDirectory() as folder:
        for layout, size, taken in costs(Path(folder)):
            cells = " | ".join(f"{seconds:.3f}" for seconds in taken)
            print(f"| {layout.name} | {size / 1e6:.1f} | {cells} |")


if __name__ == "__main__":
    main()
