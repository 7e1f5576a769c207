"""Names and types of the views' columns are what others rely on: drift shows as a diff."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import sqlglot

from tests.views.contract import CONTRACT, contract
from xlahouse.sql.check.lint import lint, lint_unit
from xlahouse.sql.library import TABLES, View, shipped

VIEWS = list(shipped().views.values())
A_KEY = "-- one row per x\nselect\n    -- a\n    {} as a\nfrom ops as o\n"


def test_columns_and_types_are_those_of_the_contract(tmp_path: Path) -> None:
    kept = json.loads(CONTRACT.read_text())
    assert contract(tmp_path) == kept, "if it is meant: python -m tests.views.contract"


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_lint(view: View) -> None:
    assert lint(view) == []


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_spark_can_be_told(view: View) -> None:
    (text,) = sqlglot.transpile(
        view.sql, read="duckdb", write="spark", unsupported_level=sqlglot.ErrorLevel.RAISE
    )
    assert text


@pytest.mark.parametrize("name", json.loads(CONTRACT.read_text()))
def test_units_are_part_of_names(name: str) -> None:
    columns = json.loads(CONTRACT.read_text())[name]
    faults = [lint_unit(column, kind) for column, kind in columns.items()]
    assert [fault for fault in faults if fault] == []


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_columns_are_documented_in_the_order_of_the_view(view: View) -> None:
    kept = json.loads(CONTRACT.read_text())
    if not view.internal:
        assert [column.name for column in view.columns] == list(kept[view.name])


def test_views_read_tables_and_views_only() -> None:
    library = shipped()
    tables, views = library.closure(set(library.views))
    assert tables <= set(TABLES)
    assert {view.name for view in views} == set(library.views)


def test_replaced_versions_stand_apart_and_no_newer_view_reads_them() -> None:
    library = shipped()
    newest = set(library.pointers.values())
    replaced = {view.name for view in VIEWS if view.folder.startswith("superseded")}
    assert {view.name for view in library.public} - newest <= replaced
    assert not replaced & newest
    readers = {v.name: v.dependencies & replaced for v in VIEWS if v.name not in replaced}
    assert {name: read for name, read in readers.items() if read} == {}


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        ("select 1 as a\n", "one row per"),
        ("-- one row per x\nselect\n    a\nfrom ops\n", "a comment above every column"),
        ("-- one row per x\nselect\n    -- a\n    a\nfrom ops; select 1\n", "must be one SELECT"),
        ("-- one row per x\ndrop table ops\n", "must be one SELECT"),
        ("-- one row per x\nselect from from\n", "does not parse"),
        ("-- one row per x\nselect\n    -- a\n    len(op) as a\nfrom ops\n", "len fails"),
        ("-- one row per x\nselect\n    -- a\n    a / b as a_ratio\nfrom ops\n", "nullif"),
        ("-- one row per x\nselect\n    -- a\n    *\nfrom ops\n", "names its columns"),
        (
            "-- one row per x\nselect\n    -- a\n    row_number() over (order by a) as a\nfrom ops\n",
            "PARTITION BY",
        ),
        (A_KEY.format("a * 1048576 + b"), "a power of two is a unit"),
        (A_KEY.format("4096 * a + b"), "a power of two is a unit"),
        (A_KEY.format("a // 1099511627776"), "a power of two is a unit"),
        (A_KEY.format("a % (1048576)"), "a power of two is a unit"),
        (A_KEY.format("run_key + 1048576"), "a power of two is a unit"),
        (A_KEY.format("2 * window_key"), "a key is added to"),
        (A_KEY.format("o.row_key // 2"), "a key is added to"),
        (A_KEY.format("o.row_key % 4"), "a key is added to"),
    ],
)
def test_lint_finds(sql: str, fault: str) -> None:
    assert fault in " ".join(lint(View("x_v1", sql)))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("_run_key_v1", "a * 1099511627776"),
        ("_axis_key_v1", "run_key + a * axis_unit"),
        ("_x_v1", "window_key + 1"),
        ("_x_v1", "row_key % 2"),
        ("_x_v1", "8 * a"),
        ("_x_v1", "a * 1000000"),
        ("_x_v1", "cast(a as double) / 1073741824e0"),
    ],
)
def test_lint_lets_the_scheme_of_keys_pass(name: str, key: str) -> None:
    assert lint(View(name, A_KEY.format(key))) == []


def test_a_user_may_multiply_by_any_power_of_two() -> None:
    assert lint(View("x_v1", A_KEY.format("a * 1048576"), own=True)) == []


def test_a_view_is_named_with_its_version() -> None:
    assert "<name>_v<N>.sql" in lint(View("volume", "-- one row per x\nselect 1 as a\n"))[0]
