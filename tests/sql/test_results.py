"""Results of queries: their forms, their types, and how long they last."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlahouse.capture.errors import QueryError
from xlahouse.sql import Warehouse


def test_metrics(root: Path) -> None:
    metrics = Warehouse(root).metrics("base")
    assert metrics["requests"] == 0
    assert metrics["ttft_s"] is None
    assert metrics["wire_bytes"] is None


def test_result_forms(root: Path) -> None:
    result = Warehouse(root).query("select device_id, 'x' as t from devices order by 1, 2 limit 2")
    assert result.columns == ["device_id", "t"]
    assert result.types == ["BIGINT", "VARCHAR"]
    assert result.schema.names == ["device_id", "t"]
    assert result.rows == [(0, "x"), (0, "x")]
    assert result.dicts()[0] == {"device_id": 0, "t": "x"}
    assert result.pl().shape == (2, 2)
    assert result.arrow().num_rows == 2
    assert sum(batch.num_rows for batch in result.batches()) == 2


def test_results_stay_apart(root: Path) -> None:
    warehouse = Warehouse(root)
    first = warehouse.query("select 1 as a")
    second = warehouse.query("select 2 as a")
    assert (second.rows, first.rows) == ([(2,)], [(1,)])


def test_sums_are_whole_numbers(root: Path) -> None:
    ((total,),) = Warehouse(root).query("select sum(device_id) from devices").rows
    assert total == 2
    assert type(total) is int


def test_pandas_is_asked_for_only_where_it_is_used(root: Path) -> None:
    try:
        import pandas as pd
    except ImportError:
        with pytest.raises(QueryError, match="pip install pandas"):
            Warehouse(root).query("select 1 as a").df()
    else:
        assert isinstance(Warehouse(root).query("select 1 as a").df(), pd.DataFrame)
