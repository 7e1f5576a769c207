"""No view compares rows of two sides one by one: the plans have hash joins and cross products of few.

A nested loop or a piecewise merge over intervals takes hours where a sweep takes a second.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.warehouse import write_warehouse
from xlahouse.ingest.schema import BY_NAME, INGEST_VERSION
from xlahouse.sql import Warehouse
from xlahouse.sql.check.audit import Audit
from xlahouse.sql.check.audits import AUDITS
from xlahouse.sql.check.findings import QUESTIONS, Question
from xlahouse.sql.library import View, shipped

pytestmark = pytest.mark.verify(together=True)

PUBLIC = shipped().public
INTERNAL = [view for view in shipped().views.values() if view.internal]
BY_EQUALITY = {"HASH_JOIN", "CROSS_PRODUCT"}


def joins(warehouse: Warehouse, sql: str) -> set[str]:
    """DuckDB's names of the joins in a statement's plan, those by equality left out."""
    lines = warehouse.query(f"explain (format json) {sql}").rows
    names, waiting = set(), json.loads("\n".join(line for (line,) in lines))
    assert waiting
    while waiting:
        node = waiting.pop()
        names.add(node["name"])
        waiting += node["children"]
    return {name for name in names if "JOIN" in name or "PRODUCT" in name} - BY_EQUALITY


ROWS = 40  # of different values, else statistics tell DuckDB that a join is empty


def value(kind: str, k: int) -> Any:
    """A value of a type of ingest/schema.py."""
    numbers = {"int": k, "uint": k, "float": k / 2, "bool": k % 2 == 0, "ints": [k]}
    texts = {"str": f"{k % 7}", "mesh": [{"axis": f"a{k}", "size": k + 1}]}
    return (numbers | texts).get(kind)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    """Every table full: DuckDB plans less where it knows that there are no rows."""
    tables = {
        name: [
            {column.name: value(column.type, k) for column in table.columns} | {"run_id": "r"}
            for k in range(1 if name == "runs" else ROWS)
        ]
        for name, table in BY_NAME.items()
    }
    tables["runs"][0]["ingest_version"] = INGEST_VERSION
    settings = [{"run_id": "r", "device_kind": "TPU v6 lite"}]
    root = tmp_path_factory.mktemp("plans")
    with Warehouse(write_warehouse(root, {**tables, "run_settings": settings})) as opened:
        yield opened


@pytest.mark.parametrize("view", PUBLIC, ids=lambda view: view.name)
def test_no_join_by_inequality(view: View, warehouse: Warehouse) -> None:
    """Their plans hold those of the internal views."""
    assert joins(warehouse, f"select * from {view.name}") == set()


@pytest.mark.parametrize("view", INTERNAL, ids=lambda view: view.name)
def test_nor_in_a_part_that_no_view_needs_whole(view: View, warehouse: Warehouse) -> None:
    assert joins(warehouse, f"select * from {view.name}") == set()


@pytest.mark.parametrize(
    "asked", [*AUDITS, *QUESTIONS], ids=lambda asked: getattr(asked, "name", None) or asked.code
)
def test_nor_in_what_check_asks(asked: Audit | Question, warehouse: Warehouse) -> None:
    assert joins(warehouse, asked.sql) == set()


@pytest.mark.parametrize(
    "sql",
    [
        "select * from ops as a join ops as b on a.start_ps < b.start_ps",
        "select * from ops as a join ops as b on abs(a.start_ps - b.start_ps) < 5",
        "select * from ops as a cross join ops as b where b.start_ps between a.start_ps and a.self_ps",
        "select * from ops as a left join ops as b on a.start_ps < b.start_ps or a.op = b.op",
        "select a.op from ops as a asof join ops as b on a.start_ps >= b.start_ps",
    ],
)
def test_such_joins_are_seen(sql: str, warehouse: Warehouse) -> None:
    assert joins(warehouse, sql)


def test_joins_by_equality_pass(warehouse: Warehouse) -> None:
    assert not joins(
        warehouse, "select * from ops as a join ops as b on a.op is not distinct from b.op"
    )
