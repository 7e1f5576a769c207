"""Writes finished ops as rows of the ops table, with their texts as dictionaries all the way to Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from xlahouse.ingest.placed_ops import OF_LAUNCH, PlacedOps
from xlahouse.ingest.schema import BY_NAME

ROWS = 1 << 17  # of a piece, and of a row group
_ARRAYS = ("device_id", "start_ps", "duration_ps", "self_ps")


def op_pieces(ops: PlacedOps, run_id: str, device_offset: int) -> Iterator[pa.Table]:
    """The ops table of some devices, piece by piece.

    Args:
        ops: the ops.
        run_id: the run.
        device_offset: what is added to a device's number.
    """
    schema = BY_NAME["ops"].schema
    sources = {name: (ops.launches[name], ops.launch) for name in OF_LAUNCH} | {
        name: (ops.kinds[name], ops.kind) for name in ops.kinds.columns if name not in _ARRAYS
    }
    columns = {
        name: (_values(values, schema.field(name).type), rows)
        for name, (values, rows) in sources.items()
        if name in schema.names
    }
    for start in range(0, len(ops.kind), ROWS):
        piece = slice(start, start + ROWS)
        arrays = []
        for field in schema:
            if field.name in _ARRAYS:
                array = pa.array(getattr(ops, field.name)[piece])
                if field.name == "device_id" and device_offset:
                    array = pa.array(ops.device_id[piece] + device_offset)
            elif field.name in columns:
                values, rows = columns[field.name]
                array = _taken(values, rows[piece])
            else:
                array = _constant(
                    run_id if field.name == "run_id" else None, field.type, ops, piece
                )
            arrays.append(array)
        yield pa.table(arrays, names=schema.names)


def _values(values: pl.Series, kind: pa.DataType) -> Any:
    """The values of a column: texts as a dictionary with each text once."""
    array = values.to_arrow().cast(kind)
    return array.dictionary_encode() if pa.types.is_string(kind) else array


def _taken(values: Any, rows: np.ndarray[Any, Any]) -> Any:
    if values.null_count == len(values):
        return pa.nulls(len(rows), values.type)
    return values.take(pa.array(rows))


def _constant(value: str | None, kind: pa.DataType, ops: PlacedOps, piece: slice) -> Any:
    count = len(ops.kind[piece])
    if value is None:
        return pa.nulls(count, kind)
    return pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), pa.array([value], kind))
