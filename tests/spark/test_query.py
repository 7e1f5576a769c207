"""Queries of users on Spark: what carries over gives the same rows, and all else is refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot
import yaml

from tests.warehouse import write_warehouse
from xlahouse.capture.errors import QueryError
from xlahouse.sql import Warehouse
from xlahouse.sql.portable import QUERIES
from xlahouse.sql.spark import literal_path
from xlahouse.sql.spark_query import query_spark

CASES = yaml.safe_load(Path(__file__).with_name("query_constructs.yaml").read_text())
GIVEN = {
    "runs": [{"run_id": "a", "name": "one"}, {"run_id": "b", "name": "two"}],
    "devices": [
        {"run_id": run, "device_id": device, "logical_id": device, "world": 0}
        for run in "ab"
        for device in (0, 1)
    ],
    "run_settings": [
        {"run_id": run, "mesh": [{"axis": "tp", "size": 2}], "device_kind": "v4"} for run in "ab"
    ],
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    with Warehouse(write_warehouse(tmp_path_factory.mktemp("query") / "w", GIVEN)) as opened:
        yield opened


def whole(rows):
    """Numbers compare across widths, so rows as they are."""
    return [list(row) for row in rows]


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_construct(case, spark, warehouse):
    assert whole(warehouse.query(case["sql"]).rows) == case["rows"]
    assert whole(query_spark(warehouse, spark.newSession(), case["sql"]).rows) == case["rows"]


def test_every_part_has_a_case():
    shown = {name: set() for name in QUERIES}
    for case in CASES:
        for node in sqlglot.parse_one(case["sql"], read="duckdb").walk():
            if type(node).__name__ in shown:
                parts = {key.rstrip("_") for key, value in node.args.items() if value is not None}
                shown[type(node).__name__] |= parts
    assert {name: parts - shown[name] for name, parts in QUERIES.items()} == {
        name: frozenset() for name in QUERIES
    }


@pytest.mark.xdist_group("spark")
def test_views_and_parameters(spark, warehouse):
    sql = (
        "select name, axis, device_id, coordinate from run_mesh join runs using (run_id) "
        "where name = $run and device_id >= $least order by all"
    )
    given = {"run": "two", "least": 1}
    result = query_spark(warehouse, spark.newSession(), sql, given)
    assert result.rows == warehouse.query(sql, given).rows == [("two", "tp", 1, 1)]
    assert result.columns == ["name", "axis", "device_id", "coordinate"]
    assert result.head(1) == [["two", "tp", 1, 1]]


@pytest.mark.xdist_group("spark")
def test_a_limit_collects_no_more(spark, warehouse):
    assert len(query_spark(warehouse, spark.newSession(), "from devices", limit=3).rows) == 3


REFUSED = {
    "select median(device_id) from devices": "median",
    "select quantile_cont(device_id, 0.5) from devices": "becomes approximate on Spark",
    "select device_id from devices limit 1": "LIMIT without ORDER BY keeps different rows",
    "select device_id from devices qualify row_number() over (partition by run_id) = 1": "Qualify",
    "select sum(device_id) filter (where device_id > 0) from devices": "aggregate a CASE",
    "select * from range(3)": "starts, ends and steps differ on Spark",
    "select len('x')": "len fails on lists",
    "select 1.5 as a": "a DECIMAL, whose digits differ on Spark",
    "select list_transform([1], lambda x: x + 1)": "Transform: no test shows",
    "describe devices": "DESCRIBE is not translated",
    "summarize devices": "not translated",
    "from (pivot devices on device_id in (0, 1) using count(*))": "PIVOT fails",
    "select * from (select device_id from devices limit 1)": "LIMIT without ORDER BY keeps different rows",
    "from devices where run_id in (select run_id from runs)": "use EXISTS or a join",
    "select current_date": "no test shows",
    "select * exclude (run_id) from devices": "no test shows",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_not_on_the_list_is_refused_by_name(warehouse, sql):
    with pytest.raises(QueryError) as caught:
        query_spark(warehouse, None, sql)
    assert REFUSED[sql].lower() in str(caught.value).lower()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("drop table runs", "a query may only read"),
        ("select * from read_text('/etc/passwd')", "read_text is not allowed"),
        ("from opz", "did you mean ops"),
        ("select $x", "needs a value for"),
    ],
)
def test_the_guard_is_the_same(warehouse, sql, message):
    with pytest.raises(QueryError, match=message):
        query_spark(warehouse, None, sql)


@pytest.mark.xdist_group("spark")
def test_what_spark_refuses_is_one_line(spark, warehouse):
    with pytest.raises(QueryError) as caught:
        query_spark(warehouse, spark.newSession(), "select nosuch from runs")
    assert str(caught.value).startswith("Spark: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "path"),
    [
        ("/a/b.parquet", "file:///a/b.parquet"),
        ("/a/[b]{c}?*.parquet", r"file:///a/\[b\]\{c\}\?\*.parquet"),
        ("gs://b/c.parquet", "gs://b/c.parquet"),
        ("s3://b/c.parquet", "s3a://b/c.parquet"),
    ],
)
def test_a_file_by_the_name_that_hadoop_has_for_it(file, path):
    assert literal_path(file) == path
