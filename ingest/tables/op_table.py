"""Writes finished ops as rows of the ops table, with their texts as dictionaries all the way to Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.events.arrow_arrays import constant, gathered
from xlahouse.ingest.events.spans import filled
from xlahouse.ingest.schema import BY_NAME
from xlahouse.ingest.tables.device_steps import OUTSIDE
from xlahouse.ingest.tables.pieces import ROW_GROUP
from xlahouse.ingest.tables.placed_ops import OF_LAUNCH, PlacedOps

_ARRAYS = ("device_id", "start_ps", "duration_ps", "self_ps")
_ATTRIBUTED = "attributed_ps"


def op_pieces(
    ops: PlacedOps, attributed: Integers, run_id: str, device_offset: int
) -> Iterator[pa.Table]:
    """The ops table of some devices, piece by piece.

    Args:
        ops: the ops.
        attributed: time of its step that belongs to each; OUTSIDE for none.
        run_id: the run.
        device_offset: what is added to a device's number.
    """
    schema = BY_NAME["ops"].schema
    sources = {name: (ops.launches[name], ops.launch) for name in OF_LAUNCH} | {
        name: (ops.kinds[name], ops.kind) for name in ops.kinds.columns if name not in _ARRAYS
    }
    columns = {
        name: (_ColumnValues.of(values, schema.field(name).type), rows)
        for name, (values, rows) in sources.items()
        if name in schema.names
    }
    for start in range(0, len(ops.kind), ROW_GROUP):
        piece = slice(start, start + ROW_GROUP)
        count = len(ops.kind[piece])
        arrays = []
        for field in schema:
            if field.name in _ARRAYS:
                numbers = getattr(ops, field.name)[piece]
                offset = device_offset if field.name == "device_id" else 0
                array = pa.array(numbers + offset if offset else numbers)
            elif field.name == _ATTRIBUTED:
                array = _known(attributed[piece])
            elif field.name in columns:
                values, rows = columns[field.name]
                array = values.at(rows[piece])
            elif field.name == "run_id":
                array = constant(run_id, count)
            else:
                array = pa.nulls(count, field.type)
            arrays.append(array)
        yield pa.table(arrays, names=schema.names)


def _known(attributed: Integers) -> pa.Array:
    missing = attributed == OUTSIDE
    return pa.array(attributed, mask=missing if missing.any() else None)


@dataclass(frozen=True)
class _ColumnValues:
    """The few values that a column's rows point at."""

    kind: pa.DataType  # type of the column
    numbers: NDArray[np.generic]  # the values; of texts, their places in `words`
    missing: Mask | None  # which values are NULL; None where no value is
    words: pa.Array | None = None  # the distinct texts; None of a column of numbers

    @classmethod
    def of(cls, values: pl.Series, kind: pa.DataType) -> _ColumnValues:
        nulls = values.null_count()
        if nulls and nulls == len(values):
            return cls(kind, np.zeros(0, np.bool_), np.ones(nulls, np.bool_))
        missing = values.is_null().to_numpy() if nulls else None
        if pa.types.is_string(kind):
            texts = values.cast(pl.String).to_list()
            distinct = (word for word in dict.fromkeys(texts) if word is not None)
            words = {word: at for at, word in enumerate(distinct)}
            places = np.array([words.get(word, 0) for word in texts], np.int32)
            return cls(kind, places, missing, pa.array(list(words), kind))
        if pa.types.is_boolean(kind):
            return cls(kind, filled(values.cast(pl.Boolean), False), missing)
        numbers = filled(values, 0)
        return cls(kind, numbers.astype(kind.to_pandas_dtype(), copy=False), missing)

    def at(self, rows: Integers) -> pa.Array:
        """The values of rows, texts as a dictionary."""
        if self.missing is not None and self.missing.all():
            return pa.nulls(len(rows), self.kind)
        if self.words is None:
            return gathered(self.numbers, rows, self.missing, self.kind)
        places = gathered(self.numbers, rows, self.missing, pa.int32())
        return pa.DictionaryArray.from_arrays(places, self.words, safe=False)
