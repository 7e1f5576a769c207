"""Every construct that views may use, on both engines, against rows worked out by hand."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest
import sqlglot
import yaml

from tests.spark.engines import differences, sorted_rows
from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse
from xlahouse.sql.portable import PORTABLE, portability
from xlahouse.sql.spark import register, to_spark

CASES = yaml.safe_load(Path(__file__).with_name("constructs.yaml").read_text())

RUNS = [
    {
        "run_id": "a",
        "name": "two",
        "mesh": [{"axis": "dp", "size": 3}, {"axis": "tp", "size": 1}],
        "mesh_device_ids": [4, 5, 6],
    },
    {"run_id": "b", "name": "none"},
    {"run_id": "c", "name": "empty", "mesh": [], "mesh_device_ids": []},
    {"run_id": "d", "name": "far", "mesh": [{"axis": "tp", "size": 4}], "mesh_device_ids": [7]},
]


@pytest.fixture(scope="module")
def engines(spark, tmp_path_factory):
    root = write_warehouse(tmp_path_factory.mktemp("constructs") / "w", {"runs": RUNS})
    session = spark.newSession()
    with Warehouse(root) as warehouse:
        register(session, warehouse, {"runs"})
        yield warehouse, session


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_construct(case, engines):
    warehouse, session = engines
    ours = warehouse.query(case["sql"]).arrow()
    theirs = session.sql(to_spark(case["sql"])).toArrow()
    assert differences(ours, theirs) == []
    columns = list(zip(*case["rows"], strict=True))
    expected = pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, ours.schema, strict=True)],
        names=ours.column_names,
    )
    assert sorted_rows(ours) == sorted_rows(expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case_keeps_to_the_list(case):
    assert list(portability(sqlglot.parse_one(case["sql"], read="duckdb"))) == []


def test_every_construct_has_a_case():
    shown = defaultdict(set)
    for case in CASES:
        for node in sqlglot.parse_one(case["sql"], read="duckdb").walk():
            parts = {key.rstrip("_") for key, value in node.args.items() if value is not None}
            shown[type(node).__name__] |= parts
    missing = {
        name: sorted(parts - shown[name])
        for name, parts in PORTABLE.items()
        if name not in shown or parts - shown[name]
    }
    assert missing == {}
