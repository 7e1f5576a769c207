"""Columns between Polars and Arrow: types that tables have, in memory that Python does not own."""

from __future__ import annotations

import gzip

import numpy as np
import polars as pl
import pyarrow as pa

from xlahouse.ingest.chrome.columns import read_columns
from xlahouse.ingest.events.arrow_arrays import arrow_array, constant, native_buffer

COUNT = 1000


def test_texts_and_lists_have_offsets_of_32_bits():
    texts = arrow_array(pl.Series(["ab", None, "", "c"])[1:], pa.string())
    assert (texts.type, texts.to_pylist()) == (pa.string(), [None, "", "c"])
    lists = arrow_array(pl.Series([[1], None, [2, 3]]), pa.list_(pa.int64()))
    assert (lists.type, lists.to_pylist()) == (pa.list_(pa.int64()), [[1], None, [2, 3]])
    words = pl.Series(["x", "y", "x"], dtype=pl.Categorical)
    assert arrow_array(words, pa.string()).to_pylist() == ["x", "y", "x"]
    assert arrow_array(words, pa.string()).type.value_type == pa.string()


def test_memory_that_outlives_a_call_is_arrows_own():
    """Arrow counts what it allocates, and not what it borrows from Python."""
    before = pa.total_allocated_bytes()
    buffer, numbers = native_buffer(np.int64, COUNT)
    assert pa.total_allocated_bytes() - before >= buffer.size == numbers.nbytes == 8 * COUNT
    series = pl.Series(["text"] * COUNT)
    before = pa.total_allocated_bytes()
    array = arrow_array(series, pa.string())
    assert pa.total_allocated_bytes() - before >= 4 * len(array)
    before = pa.total_allocated_bytes()
    repeated = constant("run", COUNT)
    assert repeated.to_pylist() == ["run"] * COUNT
    assert pa.total_allocated_bytes() - before >= 4 * COUNT


def test_arguments_of_a_chrome_trace_are_arrows_own():
    event = '{"ph":"X","pid":1,"tid":1,"ts":%d,"dur":1,"name":"n","args":{"a long argument":%d}}'
    events = ",".join(event % (n, n) for n in range(COUNT))
    raw = gzip.compress(f'{{"traceEvents":[{events}]}}'.encode())
    before = pa.total_allocated_bytes()
    trace = read_columns(raw)
    assert trace.events["args"][7] == '{"a long argument":7}'
    assert pa.total_allocated_bytes() - before >= COUNT * len('{"a long argument":7}')
