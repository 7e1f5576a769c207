"""Runs that other versions wrote: columns that an older one lacks are NULL, a newer one is named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.command import run_command
from tests.layers import first_few
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import ManifestError, QueryError, WarehouseError
from xlahouse.capture.manifest import decode_manifest
from xlahouse.ingest.run import IngestError, ingest_paths
from xlahouse.ingest.schema import BY_NAME, INGEST_VERSION, LAYOUT_VERSION
from xlahouse.ingest.store.compact import compact_run
from xlahouse.ingest.store.drop import drop_run
from xlahouse.ingest.store.store import Store
from xlahouse.sql.export.duckdb_file import write_duckdb
from xlahouse.sql.warehouse import Warehouse

CASES = Path(__file__).parents[1] / "cases" / "faults"
OPS = [{"run_id": run, "op": f"{run}{n}", "flops": n} for run in ("a", "b", "c") for n in (1, 2)]
# what the runs' ops are where those of a run have no flops
LACKING = {
    run: [(op["op"], None if op["run_id"] == run else op["flops"]) for op in OPS] for run in "abc"
}
ASKED = "select op, flops from ops order by op"


def quiet(line: str) -> None:
    """Takes the lines about older runs."""


def mend(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    for path in folder.glob("*.parquet"):
        pq.write_table(change(pq.ParquetFile(path).read()), path)


def version_of(root: Path, run: str, version: int) -> None:
    """Make a run one of another version of ingest."""
    path = root / "tables" / "runs" / f"{run}.parquet"
    row = pq.ParquetFile(path).read().to_pylist()[0] | {"ingest_version": version}
    pq.write_table(pa.Table.from_pylist([row], BY_NAME["runs"].schema), path)


def without_flops(root: Path, *runs: str, version: int = INGEST_VERSION - 1) -> Path:
    """A warehouse of three runs; the ops of some lack a column."""
    write_warehouse(root, {"ops": OPS, "devices": [{"run_id": run} for run in "abc"]})
    for run in runs:
        mend(root / "tables" / "ops" / f"run_id={run}", lambda t: t.drop_columns(["flops"]))
        version_of(root, run, version)
    return root


@pytest.mark.parametrize("version", first_few([INGEST_VERSION, INGEST_VERSION - 1], 1))
@pytest.mark.parametrize("run", ["a", "b", "c"])
def test_a_column_that_a_run_lacks_is_null_for_it(run: str, version: int, tmp_path: Path) -> None:
    root = without_flops(tmp_path / "w", run, version=version)
    with Warehouse(root, quiet) as warehouse:
        assert warehouse.query(ASKED).rows == LACKING[run]
    with Warehouse(root, quiet) as warehouse:
        assert warehouse.query(ASKED).head(9) == [list(row) for row in LACKING[run]]
        assert warehouse.query("select count(*), sum(flops) from ops").rows == [(6, 6)]
    with Warehouse(root, quiet) as warehouse:
        found = [row for batch in warehouse.query(ASKED).batches() for row in batch.to_pylist()]
        assert [(row["op"], row["flops"]) for row in found] == LACKING[run]
    for asked in "abc":
        want = [row for row in LACKING[run] if row[0].startswith(asked)]
        with Warehouse(root, quiet) as warehouse:
            assert warehouse.of_run(asked).query(ASKED).rows == want
            filtered = ASKED.replace("order", f"where run_id = '{asked}' order")
            assert warehouse.query(filtered).rows == want


@pytest.mark.parametrize("run", ["a", "b", "c"])
def test_a_view_that_is_kept_has_nulls_too(run: str, tmp_path: Path) -> None:
    asked = "select run_id, flops from layer_breakdown_v1 order by run_id"
    root = without_flops(tmp_path / "w", run, version=INGEST_VERSION)
    with Warehouse(root, quiet) as warehouse:
        want = warehouse.query(asked).rows
    assert want
    with Warehouse(root, quiet) as warehouse, warehouse.keeping(["layer_breakdown_v1"]) as kept:
        assert kept.query(asked).rows == want


def test_a_column_that_all_runs_lack_is_null(tmp_path: Path) -> None:
    root = without_flops(tmp_path / "w", "a", "b", "c")
    with Warehouse(root, quiet) as warehouse:
        assert {flops for _, flops in warehouse.query(ASKED).rows} == {None}
        kinds = warehouse.query("select flops from ops").types
    assert kinds == ["DOUBLE"]


def test_a_wrong_column_is_still_an_error(tmp_path: Path) -> None:
    warehouse = Warehouse(without_flops(tmp_path / "w", "b"), quiet)
    with pytest.raises(QueryError, match="flop"):
        assert warehouse.query("select flop from ops").rows


@pytest.mark.verify
@pytest.mark.parametrize("copy", [False, True])
def test_an_export_has_nulls_too(copy: bool, tmp_path: Path) -> None:
    import duckdb

    root = without_flops(tmp_path / "w", "b")
    with Warehouse(root, quiet) as warehouse:
        write_duckdb(warehouse, ["a", "b", "c"], tmp_path / "x.duckdb", copy)
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        assert connection.execute(ASKED).fetchall() == LACKING["b"]


def test_compact_fills_the_columns_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = without_flops(tmp_path / "w", "b")
    row = root / "tables" / "runs" / "b.parquet"
    pq.write_table(pq.ParquetFile(row).read().drop_columns(["options"]), row)
    for said in ("; 1 table got the columns of this version", ": as few as possible"):
        assert run_command(monkeypatch, "compact", "b", "-w", root) == 0
        (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("b ")]
        assert line == f"b  b: 2 files{said}"
    with Warehouse(root, quiet) as warehouse:
        (file,) = [name for name in warehouse.files("ops") if "run_id=b" in name]
        assert pq.ParquetFile(file).schema_arrow.names == BY_NAME["ops"].schema.names
        assert warehouse.query(ASKED).rows == LACKING["b"]


def test_compact_merges_files_that_differ(tmp_path: Path) -> None:
    root = without_flops(tmp_path / "w", "b")
    folder = root / "tables" / "ops" / "run_id=b"
    whole = pa.Table.from_pylist([{"run_id": "b", "op": "b3", "flops": 3}], BY_NAME["ops"].schema)
    pq.write_table(whole, folder / "part-1.parquet")
    row = Store(str(root)).run_row("b")
    assert row is not None
    path = "tables/ops/run_id=b/part-1.parquet"
    row["files"].append({"table": "ops", "path": path, "rows": 1})
    Store(str(root)).write_row(row)
    compact_run(Store(str(root)), "b")
    with Warehouse(root, quiet) as warehouse:
        found = warehouse.query("select op, flops from ops where run_id = 'b' order by 1").rows
    assert found == [("b1", None), ("b2", None), ("b3", 3)]


def test_a_newer_run_is_named_and_left_alone(tmp_path: Path) -> None:
    root = tmp_path / "w"
    (result,) = ingest_paths([str(CASES / "evil_names.trace.json.gz")], str(root), name="first")
    version_of(root, result.run_id, 1_000_000)
    before = {path: path.read_bytes() for path in (root / "tables").rglob("*.parquet")}
    with pytest.raises(
        IngestError, match=rf"{result.run_id} \(first\): .*1000000.* update xlahouse"
    ):
        ingest_paths([str(CASES / "evil_names.trace.json.gz")], str(root), name="second")
    with pytest.raises(WarehouseError, match=r"\(first\): .*update xlahouse"):
        compact_run(Store(str(root)), result.run_id)
    assert {path: path.read_bytes() for path in (root / "tables").rglob("*.parquet")} == before
    said: list[str] = []
    with Warehouse(root, said.append) as warehouse:
        assert warehouse.query("select name from runs").rows == [("first",)]
    assert said == [
        "1 of 1 runs were written by a newer xlahouse and may mean something else: "
        f"{result.run_id} (first); update xlahouse"
    ]


def test_a_newer_row_of_other_types_is_not_called_damaged(tmp_path: Path) -> None:
    root = write_warehouse(tmp_path / "w", {"devices": [{"run_id": "a"}, {"run_id": "b"}]})
    version_of(root, "b", 1_000_000)
    path = root / "tables" / "runs" / "b.parquet"
    row = pq.ParquetFile(path).read()
    at = row.schema.get_field_index("files")
    pq.write_table(row.set_column(at, "files", pa.array([1.5])), path)
    said: list[str] = []
    with Warehouse(root, said.append) as warehouse:
        assert warehouse.query("select run_id from runs").rows == [("a",)]
    assert "b.parquet was written by a newer xlahouse (ingest version 1000000" in said[0]
    assert "damaged" not in said[0]


def test_a_newer_layout_is_left_alone(tmp_path: Path) -> None:
    root = write_warehouse(tmp_path / "w", {"devices": [{"run_id": "a"}]})
    (root / "warehouse.json").write_text(json.dumps({"layout_version": LAYOUT_VERSION + 1}))
    (root / "leases").mkdir()
    lease = {"who": "x:1", "until": 0.0, "run_id": "a", "paths": ["tables/runs/a.parquet"]}
    (root / "leases" / "t.json").write_text(json.dumps(lease))
    before = sorted(root.rglob("*"))
    shutil.copy(CASES / "evil_names.trace.json.gz", tmp_path)
    for act in (
        lambda: ingest_paths([str(tmp_path / "evil_names.trace.json.gz")], str(root)),
        lambda: Store(str(root)).clear_leftovers(),
        lambda: drop_run(Store(str(root)), "a", at_once=True),
        lambda: compact_run(Store(str(root)), "a"),
    ):
        with pytest.raises(WarehouseError, match=r"layout 2 is newer .*update xlahouse"):
            act()
    assert sorted(root.rglob("*")) == before


def test_a_newer_manifest_is_named() -> None:
    with pytest.raises(
        ManifestError, match=r"m.json: manifest_version 2 is newer .*update xlahouse"
    ):
        decode_manifest(b'{"manifest_version": 2, "other": 1}', "m.json")
