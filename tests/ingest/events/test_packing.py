"""Packed numbers, against tuples."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xlahouse.ingest.events.packing import Packing

SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=4)


@given(SIZES, st.data())
def test_packed_numbers_compare_as_tuples_and_unpack_to_them(sizes, data):
    row = st.tuples(*(st.integers(0, size - 1) for size in sizes))
    rows = data.draw(st.lists(row, max_size=20))
    columns = np.array(rows or np.empty((0, len(sizes))), np.int64).T
    packing = Packing(tuple(sizes))
    before = columns.copy()
    packed = packing.pack(*columns)
    assert (columns == before).all()
    assert packing.bound == np.prod(sizes)
    assert ((packed >= 0) & (packed < packing.bound)).all()
    assert [rows[place] for place in np.argsort(packed, kind="stable")] == sorted(rows)
    assert list(zip(*(column.tolist() for column in packing.unpack(packed)), strict=True)) == rows
