"""Text that nests too deep ends with one line, whatever it nests."""

from __future__ import annotations

import pytest

from tests.warehouse import write_warehouse
from xlahouse.capture.errors import QueryError
from xlahouse.sql.warehouse import Warehouse


@pytest.fixture
def warehouse(tmp_path):
    return Warehouse(write_warehouse(tmp_path, {}))


@pytest.mark.parametrize("depth", [400, 4000])
def test_deeply_nested_text_is_refused_in_one_line(warehouse, depth):
    with pytest.raises(QueryError) as caught:
        warehouse.query(f"{'select * from (' * depth}select 1 as a{')' * depth}")
    assert "\n" not in str(caught.value)


def test_nested_expressions_are_refused_in_one_line(warehouse):
    with pytest.raises(QueryError) as caught:
        warehouse.query(f"select {'(1 + ' * 900}1{')' * 900} as a")
    assert "\n" not in str(caught.value)
