"""Opens a Parquet file of a table for writing, and chooses how its columns are encoded.

Measured on two million ops of 32 devices, of drawn lengths (`python -m tests.bench.layout`): 16.2 MB,
0.47 s of CPU to write, 0.04 s to find one moment on one device.

- sorted by device and start: unsorted rows take 34.6 MB, and the search 0.20 s;
- row groups of 131,072 rows: 16,384 take a third longer to write; 1,048,576 are 5 % quicker and find the
  moment no faster, but hold eight times the rows in memory;
- differences of growing numbers: 31.1 MB without;
- dictionaries of texts and of numbers of few values: without any 0.73 s to write, and sums by op take
  twice as long; of all columns 40.2 MB and 0.88 s; args of events, which differ, have none: 2.7 million
  of a CPU capture take 8.2 MB and 0.5 s with one, 4.6 MB and 0.15 s without;
- statistics of columns that readers prune by: of all columns 0.55 s to write; without any, the search 0.06 s;
- zstd at level 1: snappy is a fifth faster and half as large again; level 3 is slower and no smaller.
"""

from __future__ import annotations

from functools import cache
from typing import Any, BinaryIO
from zlib import crc32

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from xlahouse.capture.opening import open_regular
from xlahouse.ingest.events.files import is_local
from xlahouse.ingest.tables.pieces import ROW_GROUP

# Readers prune by these, and compaction by the first column that a table is sorted by; statistics of other
# columns would cost time and not be used.
_PRUNED = ("device_id", "start_ps", "request", "step", "program_id", "name")
# Numbers that grow from row to row: their differences are a third of the bytes, and faster to write and read.
_GROWING = ("start_ps", "launch", "launch_instance", "step")
_DIFFERENT = ("args",)  # texts that mostly differ from row to row
# Numbers of few values, for which a dictionary is faster to write and read than zstd alone.
_FEW = (
    "device_id",
    "program_id",
    "request",
    "microbatch",
    "tick",
    "layer",
    "flops",
    "model_flops",
    "bytes_accessed",
    "hbm_bytes",
)

_BLOCK = 1 << 20  # bytes


def open_sink(fs: fsspec.AbstractFileSystem, path: str) -> pa.NativeFile | BinaryIO:
    """A file to write; a local one natively, or each of its many writes would wait for Python.

    Raises:
        OSError: it cannot be made.
    """
    if is_local(fs):
        return pa.OSFile(path, "wb")
    return fs.open(path, "wb")


def crc_of(fs: fsspec.AbstractFileSystem, path: str) -> int | None:
    """CRC-32 of a file's bytes; None on an object store, which checks its own bytes.

    Raises:
        OSError: it cannot be read.
    """
    if not is_local(fs):
        return None
    found = 0
    with open_regular(path) as file:
        while block := file.read(_BLOCK):
            found = crc32(block, found)
    return found


def open_writer(
    file: pa.NativeFile | BinaryIO, schema: pa.Schema, by_run: bool = False
) -> pq.ParquetWriter:
    """Writes pieces of a table to a file.

    Args:
        file: as open_sink gives it.
        schema: the table's; texts may be dictionaries.
        by_run: whether it holds many runs, so that readers prune by these too.
    """
    return pq.ParquetWriter(
        file,
        schema,
        compression="zstd",
        compression_level=1,
        # One page a column and row group, as no reader skips pages: small ones take four times the bytes.
        max_rows_per_page=ROW_GROUP,
        write_batch_size=ROW_GROUP,
        write_page_checksum=True,  # so that changed bytes are found: DuckDB would read them as other values
        store_schema=False,  # otherwise readers would find dictionaries where the schema has texts
        **_encodings(schema, by_run),
    )


@cache
def _encodings(schema: pa.Schema, by_run: bool) -> dict[str, Any]:
    """How the columns of a schema are encoded, and which have statistics."""
    texts = [
        name
        for name, kind in zip(schema.names, schema.types, strict=True)
        if name not in _DIFFERENT and (pa.types.is_string(kind) or pa.types.is_dictionary(kind))
    ]
    growing = {
        name: "DELTA_BINARY_PACKED"
        for name in _GROWING
        if name in schema.names and pa.types.is_int64(schema.field(name).type)
    }
    return {
        "use_dictionary": [*texts, *(name for name in _FEW if name in schema.names)],
        "column_encoding": growing or None,
        "write_statistics": [
            name for name in (*_PRUNED, *(["run_id"] if by_run else [])) if name in schema.names
        ],
    }
