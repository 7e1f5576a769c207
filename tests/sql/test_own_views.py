"""A user's own views: files in the warehouse, queried like ours, and never in place of ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.layers import first_few
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import QueryError
from xlahouse.sql import Warehouse
from xlahouse.sql.check.check import check_warehouse
from xlahouse.sql.export.catalogue import describe_view, list_views

GIVEN = {
    "runs": [{"run_id": "a", "name": "base"}],
    "devices": [{"run_id": "a", "device_id": device, "logical_id": device} for device in (0, 1)],
}
DOCUMENTED = """-- one row per run
-- Counts what there is.
select
    -- run
    run_id,
    -- devices of it
    count(*) as device_count
from devices
group by run_id
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "w" / "user_views").mkdir(parents=True)
    return write_warehouse(tmp_path / "w", GIVEN)


def own(root: Path, **files: str) -> tuple[Warehouse, list[str]]:
    for name, text in files.items():
        (root / "user_views" / f"{name}.sql").write_text(text)
    said: list[str] = []
    return Warehouse(root, said.append), said


def test_own_views_read_tables_and_each_other(root: Path) -> None:
    warehouse, said = own(
        root,
        counted=DOCUMENTED,
        above="select run_id, device_count + 1 as more from counted;\n",
        over_ours="select run_id, name, requests from run_summary join counted using (run_id)",
    )
    assert warehouse.query("from counted").rows == [("a", 2)]
    assert warehouse.query("select more from above").rows == [(3,)]
    assert warehouse.query("from over_ours").rows == [("a", "base", 0)]
    assert {"counted", "above"} <= {name for (name,) in warehouse.query("show tables").rows}
    assert said == []


def test_own_views_read_what_is_kept_by_its_bare_name(root: Path) -> None:
    warehouse, said = own(
        root,
        newest="select run_id, requests from run_summary",
        pair="select b.requests from run_summary as b join run_summary_v1 as o using (run_id)",
    )
    for view in ("newest", "pair"):
        with warehouse.keeping(["run_summary_v2", "run_summary_v1"]) as kept:
            assert kept.query(f"select requests from {view}").rows == [(0,)]
        assert warehouse.query(f"select requests from {view}").rows == [(0,)]
    assert said == []


@pytest.mark.verify
def test_own_views_are_documented_like_ours(root: Path) -> None:
    warehouse, _ = own(root, counted=DOCUMENTED, plain="select run_id from runs")
    text = describe_view(warehouse.library, warehouse.library.views["counted"])
    assert text.startswith("counted: one row per run\n\nCounts what there is.")
    assert "device_count  devices of it" in text
    assert dict(list_views(warehouse.library))["plain"] == "a view of this warehouse's own"
    comments = warehouse.query(
        "select comment from duckdb_columns() where table_name = 'counted' order by column_index"
    ).rows
    assert comments == [("run",), ("devices of it",)]


@pytest.mark.verify
def test_a_catalogue_takes_own_views_as_they_are_written(root: Path) -> None:
    odd = DOCUMENTED.replace("as device_count", 'as "how many?"')
    warehouse, said = own(root, odd=odd, ends="select run_id from odd -- as a comment")
    found = warehouse.query(
        "select table_name, column_name, comment from duckdb_columns() "
        "where table_name in ('odd', 'ends') order by all"
    ).rows
    assert found == [
        ("ends", "run_id", None),
        ("odd", "how many?", "devices of it"),
        ("odd", "run_id", "run"),
    ]
    kinds = warehouse.query("select distinct table_type from information_schema.tables").rows
    assert {kind for (kind,) in kinds} == {"BASE TABLE", "VIEW"}
    assert said == []


def test_versions_of_own_views_have_a_bare_name(root: Path) -> None:
    warehouse, _ = own(
        root,
        twice_v1=DOCUMENTED,
        twice_v2=DOCUMENTED.replace("count(*)", "2 * count(*)"),
        user="select device_count from twice",
    )
    assert warehouse.query("select device_count from twice").rows == [(4,)]
    assert warehouse.query("select device_count from twice_v1").rows == [(2,)]
    assert warehouse.query("from user").rows == [(4,)]


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    first_few(
        [
            ("ops", "select 1 as a", "ops is a table of xlahouse"),
            ("x", "drop table ops", "a query may only read"),
            ("x", "select * from nowhere", "it reads nowhere, which is neither"),
            ("latency", "select 1 as a", "latency is a view of xlahouse"),
            ("latency_v3", "select 1 as a", "latency is a view of xlahouse"),
            ("latency_v9", "select 1 as a", "latency is a view of xlahouse"),
            ("Upper", "select 1 as a", "lower-case letters"),
            ("x", "select 1; select 2", "a query may only read"),
            ("x", "select from from", "a query may only read"),
            ("x", "select * from read_text('/etc/passwd')", "read_text is not allowed"),
            ("x", "select * from '/etc/passwd'", "no other file"),
            ("x", "select getenv('HOME')", "getenv is not allowed"),
            ("x", "select * from x", "reads itself"),
        ],
        3,
    ),
)
def test_a_file_at_fault_costs_itself(root: Path, name: str, text: str, fault: str) -> None:
    warehouse, said = own(root, counted=DOCUMENTED, **{name: text})
    assert warehouse.query("from counted").rows == [("a", 2)]
    (line,) = said
    assert line.startswith(f"user_views/{name}.sql is left out: ")
    assert fault in line
    assert warehouse.query("select count(*) from run_summary").rows == [(1,)]
    if name == "x":
        with pytest.raises(QueryError, match="no table or view x"):
            warehouse.query("from x")


def test_what_reads_a_file_at_fault_is_left_out_too(root: Path) -> None:
    warehouse, said = own(root, low="select * from nowhere", high="select * from low")
    with pytest.raises(QueryError, match="no table or view high"):
        warehouse.query("from high")
    assert len(said) == 2


def test_not_text(root: Path) -> None:
    (root / "user_views" / "x.sql").write_bytes(b"select '\xff' as a")
    warehouse, said = own(root, counted=DOCUMENTED)
    assert warehouse.query("from counted").rows == [("a", 2)]
    assert said == ["user_views/x.sql is left out: it is not UTF-8"]


def test_check_lints_them_as_warnings(root: Path) -> None:
    warehouse, _ = own(root, plain="select count(*) as n from runs", counted=DOCUMENTED)
    report = check_warehouse(warehouse)
    (line,) = [line for line in report.lines if "plain" in line]
    assert line.startswith("warning  view plain: its first line is not `-- one row per")
    assert (report.errors, report.warnings) == (0, 1)


def test_a_query_of_ours_does_not_look_for_them(root: Path) -> None:
    warehouse, said = own(root, x="select from from")
    assert warehouse.query("select count(*) from run_summary").rows == [(1,)]
    assert said == []


def test_an_own_view_that_nests_deeply_is_a_line_of_check(root: Path) -> None:
    """DuckDB follows more levels than sqlglot: what one answers the other cannot parse."""
    depth = 300
    expression = "(1 + " * depth + "1" + ")" * depth
    text = f"-- one row\nselect\n    -- number\n    {expression} as n from runs\n"
    warehouse, said = own(root, deep=text)
    assert warehouse.query("from deep").rows == [(depth + 1,)]
    assert said == []
    line = "warning  view deep: is nested too deeply; put parts into WITH"
    assert line in check_warehouse(warehouse).lines
