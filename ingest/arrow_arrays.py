"""Columns as Arrow arrays of the types that tables have, without loading all of Arrow's functions for it."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa


def arrow_array(values: pl.Series, kind: pa.DataType) -> pa.Array:
    """A column as Arrow has it; texts of few values stay a dictionary until they are Parquet.

    Args:
        values: the column, of the type or one that can be cast to it.
        kind: a column type of the schema.
    """
    if not isinstance(values.dtype, pl.Categorical | pl.Enum):
        values = values.cast(_polars_type(kind))
    return _narrow(values.to_arrow(compat_level=pl.CompatLevel.oldest()), kind)


def constant(text: str, count: int) -> pa.Array:
    """So many times the same text."""
    words = pa.array([text], pa.string())
    return pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), words, safe=False)


@cache
def _polars_type(kind: pa.DataType) -> Any:
    nothing = pl.DataFrame(pl.from_arrow(pa.schema([("column", kind)]).empty_table()))
    return nothing.schema["column"]


def _narrow(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array with offsets of 32 bits, as tables have them, where Polars has 64."""
    found = array.type
    if pa.types.is_dictionary(found):
        words = _narrow(array.dictionary, kind)
        return pa.DictionaryArray.from_arrays(array.indices, words, safe=False)
    if not (pa.types.is_large_string(found) or pa.types.is_large_list(found)):
        return array
    valid, offsets, *data = array.buffers()
    count = len(array) + array.offset + 1
    wide = np.frombuffer(offsets, np.int64, count) if offsets else np.zeros(1, np.int64)
    if wide[-1] > np.iinfo(np.int32).max:
        raise OverflowError("a piece of a table has over 2 GiB of text")
    narrow = pa.py_buffer(wide.astype(np.int32))
    if pa.types.is_large_string(found):
        data = data or [None]
        return pa.Array.from_buffers(
            kind, len(array), [valid, narrow, data[0]], array.null_count, array.offset
        )
    return pa.Array.from_buffers(
        kind, len(array), [valid, narrow], array.null_count, array.offset, [array.values]
    )
