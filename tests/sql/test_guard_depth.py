"""Text that nests too deep ends with one line, whatever it nests."""

from __future__ import annotations

import pytest

from tests.warehouse import write_warehouse
from xlahouse.capture.errors import QueryError
from xlahouse.sql.warehouse import Warehouse


@pytest.fixture
def warehouse(tmp_path):
    return Warehouse(write_warehouse(tmp_path, {}))


@pytest.mark.parametrize(
    "sql",
    [
        f"{'select * from (' * 400}select 1 as a{')' * 400}",
        f"{'select * from (' * 4000}select 1 as a{')' * 4000}",
        f"select {'(1 + ' * 900}1{')' * 900} as a",
        f"select {'not ' * 1100}true",
        f"select {'[' * 1100}{']' * 1100}",
        f"select * from {'(values (' * 900}1{'))' * 900}",
    ],
    ids=["queries", "more queries", "sums", "not", "lists", "values"],
)
def test_deeply_nested_text_is_refused_in_one_line(warehouse, sql):
    """Without DuckDB's advice to set something, which the guard refuses."""
    with pytest.raises(QueryError) as caught:
        warehouse.query(sql)
    assert str(caught.value) == "the query nests too deep; split it with WITH"


def test_no_error_advises_what_the_guard_refuses(warehouse):
    with pytest.raises(QueryError) as caught:
        warehouse.query("select 1 // 0").head(1)
    assert str(caught.value).startswith("Division by zero in expression (1 // 0).")
    assert "SET" not in str(caught.value)
