"""A warehouse of one run: the same rows as the whole one gives, and what is kept is computed once."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

from tests.reports.example import RUN_PANELS, example_run, merge
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import WarehouseError
from xlahouse.reports.kept_views import KEPT_VIEWS
from xlahouse.sql import Warehouse
from xlahouse.sql.library import shipped
from xlahouse.sql.narrowing import ACROSS_RUNS

ONE, OTHER = "a" * 12, "b" * 12


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    tables = merge(
        example_run(ONE, "one", {"tp": 4}), example_run(OTHER, "two", {"dp": 2, "tp": 2})
    )
    return write_warehouse(tmp_path_factory.mktemp("wh"), tables)


@pytest.mark.verify
def test_panels_of_a_run_have_the_same_rows(root):
    with Warehouse(root) as whole, whole.of_run("two", KEPT_VIEWS) as one:
        for panel in RUN_PANELS:
            ours, theirs = (each.query(panel.sql, {"run": OTHER}).pl() for each in (one, whole))
            # Sums of floats depend on the order of rows in their last digits.
            assert_frame_equal(ours, theirs, check_exact=False, rel_tol=1e-9)
        kept = one.query("select count(*) as n from traffic_burst").dicts()
    assert kept[0]["n"] > 0


def split_files(root: Path, run_id: str) -> None:
    """Put each of a run's tables into two files, as ingests of several hosts and compaction do."""
    path = root / "tables" / "runs" / f"{run_id}.parquet"
    row = pq.read_table(path)
    files = []
    for file in row["files"].to_pylist()[0]:
        whole = pq.read_table(root / file["path"], partitioning=None)
        half = whole.num_rows // 2
        second = file["path"].replace("part-0", "part-1")
        for name, rows in ((file["path"], whole[:half]), (second, whole[half:])):
            pq.write_table(rows, root / name)
            files.append({"table": file["table"], "path": name, "rows": rows.num_rows})
    place = row.column_names.index("files")
    listed = pa.array([files], row.schema.field("files").type)
    pq.write_table(row.set_column(place, row.schema.field("files"), listed), path)


def test_what_is_kept_rests_on_every_file_of_a_table(tmp_path):
    root = write_warehouse(tmp_path / "wh", example_run(ONE, "one", {"tp": 4}))
    sql = "select axis, count(*) as n, sum(wire_bytes) as bytes from _collective_wire_v1 group by axis"
    with Warehouse(root) as whole:
        expected = whole.query(sql).dicts()
    split_files(root, ONE)
    with Warehouse(root) as whole, whole.of_run("one", ["_collective_wire_v1"]) as one:
        assert whole.query(sql).dicts() == one.query(sql).dicts() == expected


def test_other_runs_are_not_there(root):
    with Warehouse(root) as whole, whole.of_run(ONE, ["traffic_burst_v2"]) as one:
        for name in ("runs", "collectives", "traffic_burst", "traffic_burst_v2", "issues"):
            assert one.query(f"select distinct run_id from {name}").dicts() == [{"run_id": ONE}]
        assert [row["run_id"] for row in one.runs()] == [ONE]
        assert len(whole.runs()) == 2


def test_what_is_kept_is_computed_once(tmp_path):
    root = write_warehouse(tmp_path / "wh", example_run(ONE, "one", {"tp": 4}))
    sql = "select axis, sum(wire_bytes) as bytes from _collective_wire_v1 group by axis"
    with Warehouse(root) as whole, whole.of_run("one", ["_collective_wire_v1"]) as one:
        first = one.query(sql).pl()
        shutil.rmtree(root / "tables" / "collectives")
        assert_frame_equal(one.query(sql).pl(), first)
        assert first.select(pl.col("bytes").sum()).item() > 0
        with pytest.raises(WarehouseError, match="collectives"):
            one.query("select count(*) from collectives").pl()


def test_views_over_runs_are_none_of_a_runs_panels():
    for panel in RUN_PANELS:
        if panel.over_runs:
            continue
        named = {name for name in shipped().names() if name in panel.sql}
        _, views = shipped().closure(named)
        assert ACROSS_RUNS.isdisjoint(view.name for view in views)
    assert set(KEPT_VIEWS) <= set(shipped().views)


def test_a_run_that_there_is_not(root):
    with Warehouse(root) as whole, pytest.raises(WarehouseError, match="no run 'three'"):
        whole.of_run("three")
