"""Columns as Arrow arrays of the tables' types, without loading all of Arrow's functions."""

from __future__ import annotations

from functools import cache
from typing import TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)
_SHORT = 64  # rows of a column that is quicker to make from a list than to narrow


def arrow_array(values: pl.Series, kind: pa.DataType) -> pa.Array:
    """A column as an Arrow array; texts of few values stay a dictionary until they are Parquet.

    Args:
        values: the column, of the type or one that can be cast to it.
        kind: a column type of the schema.
    """
    found, wanted = values.dtype, _polars_type(kind)
    if found == wanted and len(values) <= _SHORT:
        return pa.array(values.to_list(), kind)
    if found != wanted and not isinstance(found, pl.Categorical | pl.Enum):
        values = values.cast(wanted)
    return _narrow(values.to_arrow(compat_level=pl.CompatLevel.oldest()), kind)


def series_of(array: pa.Array) -> pl.Series:
    """An Arrow array as a column, which `pl.Series` makes with all of Arrow's functions."""
    return pl.DataFrame(pl.from_arrow(pa.RecordBatch.from_arrays([array], [""]))).to_series()


def bytes_at(values: pa.BinaryArray, places: NDArray[np.int64]) -> list[bytes]:
    """The values at some places, none of which is NULL."""
    if not len(places):
        return []
    _, offsets, data = values.buffers()
    kind = np.int64 if pa.types.is_large_binary(values.type) else np.int32
    ends, held = np.frombuffer(offsets, kind)[values.offset :], memoryview(data)
    bounds = zip(ends[places].tolist(), ends[places + 1].tolist(), strict=True)
    return [bytes(held[begin:end]) for begin, end in bounds]


def constant(text: str, count: int) -> pa.Array:
    """One text, `count` times."""
    words = pa.array([text], pa.string())
    buffer, places = native_buffer(np.int32, count)
    places[:] = 0
    numbers = pa.Array.from_buffers(pa.int32(), count, [None, buffer])
    return pa.DictionaryArray.from_arrays(numbers, words, safe=False)


def gathered(
    values: NDArray[np.generic],
    rows: NDArray[np.int64],
    missing: NDArray[np.bool_] | None,
    kind: pa.DataType,
) -> pa.Array:
    """The values that rows point at.

    Args:
        values: few.
        rows: places among them.
        missing: which of the values are NULL; None for none.
        kind: the column's type, as `values` have it.
    """
    count, valid = len(rows), None
    absent = None if missing is None else missing.take(rows)
    if absent is not None and absent.any():
        valid = _bits(~absent)
    if values.dtype == np.bool_:
        return pa.Array.from_buffers(
            kind, count, [valid, _bits(values.take(rows).astype(np.bool_, copy=False))]
        )
    buffer, numbers = native_buffer(values.dtype, count)
    np.take(values, rows, out=numbers, mode="clip")  # other modes copy the numbers first
    return pa.Array.from_buffers(kind, count, [valid, buffer])


def _bits(mask: NDArray[np.bool_]) -> pa.Buffer:
    packed = np.packbits(mask, bitorder="little")
    buffer, bits = native_buffer(np.uint8, len(packed))
    bits[:] = packed
    return buffer


def native_buffer(
    kind: type[Scalar] | np.dtype[Scalar], count: int
) -> tuple[pa.Buffer, NDArray[Scalar]]:
    """Memory of Arrow's own for `count` numbers, and the numbers in it, to be filled.

    Arrow and Polars release memory on threads of their own; memory of Python they would have to return
    to an interpreter that may be waiting for them, or gone.
    """
    buffer = pa.allocate_buffer(count * np.dtype(kind).itemsize)
    return buffer, np.frombuffer(buffer, kind, count)


@cache
def _polars_type(kind: pa.DataType) -> pl.DataType:
    nothing = pl.DataFrame(pl.from_arrow(pa.schema([("column", kind)]).empty_table()))
    return nothing.schema["column"]


def _narrow(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array with 32-bit offsets, as tables have, where Polars has 64-bit ones."""
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
    narrow, ends = native_buffer(np.int32, count)
    ends[:] = wide
    if pa.types.is_large_string(found):
        data = data or [None]
        return pa.Array.from_buffers(
            kind, len(array), [valid, narrow, data[0]], array.null_count, array.offset
        )
    return pa.Array.from_buffers(
        kind, len(array), [valid, narrow], array.null_count, array.offset, [array.values]
    )
