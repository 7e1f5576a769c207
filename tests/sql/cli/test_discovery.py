"""Finding out what there is: origins of columns, examples that run, comments, other databases' SQL."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import sqlglot

from tests.layers import first_few
from tests.synth.cases import CASES
from tests.synth.write import write_run
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import ViewError
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql import Warehouse
from xlahouse.sql.export.catalogue import describe_view
from xlahouse.sql.export.dialects import DIALECTS, write_ddl
from xlahouse.sql.export.examples import Example, examples, examples_of
from xlahouse.sql.export.lineage import origins
from xlahouse.sql.library import TABLES, Library, View, shipped
from xlahouse.sql.result import Result

LOWER = View(
    "lower_v1",
    """-- one row per run and device
with busy as (
    select run_id, device_id, sum(self_ps) as busy_ps from ops where line = 'XLA Ops' group by all
)

select
    -- run
    b.run_id,
    -- device
    b.device_id,
    -- share of the run
    b.busy_ps / nullif(r.duration_ps, 0) as busy_ratio
from busy as b
join runs as r on r.run_id = b.run_id
""",
)
UPPER = View(
    "upper_v1",
    """-- one row per run
select
    -- run
    run_id,
    -- most busy device's share
    max(busy_ratio) as most_ratio,
    -- how often
    count(*) as device_count,
    -- always one
    1 as size
from lower_v1
group by run_id
""",
)
SMALL = Library({view.name: view for view in (LOWER, UPPER)})


def test_columns_are_traced_through_views_to_tables() -> None:
    assert origins(SMALL, "upper_v1") == {
        "run_id": ("ops.run_id",),
        "most_ratio": ("ops.self_ps", "runs.duration_ps"),
        "device_count": (),
        "size": (),
    }


def test_a_view_that_cannot_be_traced_says_so() -> None:
    broken = Library(
        {"x_v1": View("x_v1", "-- one row per x\nselect\n    -- a\n    a\nfrom (ops\n")}
    )
    with pytest.raises(ViewError, match="x_v1"):
        origins(broken, "x_v1")


@pytest.mark.verify
@pytest.mark.parametrize("view", [view.name for view in shipped().public])
def test_every_origin_is_a_tables_column(view: str) -> None:
    found = origins(shipped(), view)
    assert list(found) == shipped().views[view].column_names
    known = {f"{table.name}.{column.name}" for table in TABLES.values() for column in table.columns}
    assert {origin for made in found.values() for origin in made} <= known
    assert any(found.values())


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    folder = tmp_path_factory.mktemp("examples")
    write_run(CASES["dp_tp"], folder / "t" / "whole")
    write_run(replace(CASES["dp_tp"], name="half", traced_hosts=(0,)), folder / "t" / "half")
    assert len(ingest_paths([str(folder / "t")], str(folder / "w"))) == 2
    return Warehouse(folder / "w")


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.question)
def test_examples_run_and_find_something(warehouse: Warehouse, example) -> None:
    assert asked(warehouse, example).rows
    assert example.question.endswith("?")


@pytest.mark.parametrize("view", [view.name for view in shipped().public])
def test_the_examples_of_every_view_bind(warehouse: Warehouse, view: str) -> None:
    """Their names and types are right; planning and running them takes ten times as long."""
    for example in examples_of(shipped(), shipped().views[view]):
        assert example.question.endswith("?")
        assert asked(warehouse, example).columns


@pytest.mark.verify
@pytest.mark.parametrize("view", [view.name for view in shipped().public])
def test_the_examples_of_every_view_run(warehouse: Warehouse, view: str) -> None:
    for example in examples_of(shipped(), shipped().views[view]):
        asked(warehouse, example).arrow()


def asked(warehouse: Warehouse, example: Example) -> Result:
    return warehouse.query(example.sql, {"run": "dp_tp"} if "$run" in example.sql else {})


def test_a_view_shows_its_examples_and_origins() -> None:
    text = describe_view(shipped(), shipped().views["traffic_volume_v1"])
    assert "-- How much does each parallelism send, in which phase?\nselect name, axis" in text
    assert "\nmade of:\n" in text


@pytest.mark.verify
def test_comments_are_in_the_database(tmp_path: Path) -> None:
    with Warehouse(write_warehouse(tmp_path, {})) as warehouse:
        ((grain,),) = warehouse.query(
            "select comment from duckdb_views() where view_name = 'latency'"
        ).rows
        assert grain.startswith("one row per run and request")
        said = dict(
            warehouse.query(
                "select table_name || '.' || column_name, comment from duckdb_columns() "
                "where table_name in ('latency_v3', 'ops', 'run_settings')"
            ).rows
        )
    assert said["latency_v3.ttft_s"] == "time to first token, from the start of the prefill"
    meanings = {column.name: column.meaning for column in TABLES["ops"].columns}
    assert said["ops.self_ps"] == meanings["self_ps"]
    assert None not in said.values()


@pytest.mark.verify
def test_a_catalogue_may_be_joined_with_a_table(tmp_path: Path) -> None:
    root = write_warehouse(tmp_path, {"devices": [{"device_id": 7}]})
    with Warehouse(root) as warehouse:
        found = warehouse.query(
            "select device_id, count(*) > 50 from devices, duckdb_views() group by all"
        ).rows
    assert found == [(7, True)]


@pytest.mark.parametrize("dialect", first_few(DIALECTS, 1))
def test_every_view_can_be_created_elsewhere(dialect: str) -> None:
    text = "\n".join(write_ddl(shipped(), set(shipped().pointers), dialect))
    made = [
        statement.find(sqlglot.exp.Table).name
        for statement in sqlglot.parse(text, read=dialect)
        if statement is not None
    ]
    assert set(made) >= {*shipped().pointers, *shipped().pointers.values()}
    assert made.index("step_latency_v1") < made.index("latency_v3") < made.index("latency")


def test_a_view_in_bigquery_keeps_its_documentation_and_where_null_sorts() -> None:
    view = View(
        "x_v1",
        "-- one row per run\n-- it's new\nselect\n    -- run\n    run_id,\n    -- its 'place'\n"
        "    row_number() over (partition by model order by name, layers desc) as place_index\n"
        "from runs\n",
    )
    *_, text = write_ddl(Library({"x_v1": view}), {"x_v1"}, "bigquery")
    assert "place_index options (description = 'its \\'place\\'')" in text
    assert "options (description = 'one row per run. it\\'s new') as" in text
    words = " ".join(text.split())
    # DuckDB sorts NULL last both ways; BigQuery first where it ascends.
    assert "ORDER BY ( name IS NULL ), name ASC, layers DESC" in words.replace(" NULLS LAST", "")
    (create,) = sqlglot.parse(text, read="bigquery")
    assert isinstance(create, sqlglot.exp.Create)
