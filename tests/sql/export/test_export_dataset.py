"""The dataset for people without xlahouse: complete, described, the same bytes each time."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import polars as pl
import pytest

from tests.command import run_command
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import ViewError, WarehouseError
from xlahouse.ingest.schema import BY_NAME
from xlahouse.sql import Warehouse
from xlahouse.sql.export.dataset import RUN_TABLES, write_dataset
from xlahouse.sql.export.dictionary import unit_of

HOSTILE = "a|<b>"
GIVEN = {
    "runs": [
        {"run_id": run, "name": name, "setup": "s", "batch_size": 2, "device_kind": "TPU v6 Lite"}
        for run, name in (("a", HOSTILE), ("b", "plain"))
    ],
    "devices": [
        {"run_id": run, "device_id": device, "logical_id": device, "world": 0, "traced": True}
        for run in "ab"
        for device in (1, 0)
    ],
    "issues": [{"run_id": "b", "severity": "info", "code": "x", "message": 'say "no",\nthen'}],
    "run_settings": [{"run_id": "a", "mesh": [{"axis": "tp", "size": 2}]}],
}
VIEWS = ["run_mesh", "setup_summary_v2"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_warehouse(tmp_path_factory.mktemp("it's") / "w", GIVEN)


def export(root: Path, path: Path, runs: str = "ab", csv: bool = True) -> dict[str, bytes]:
    with Warehouse(root) as warehouse:
        write_dataset(warehouse, list(runs), path, VIEWS, csv)
    return {
        str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()
    }


@pytest.mark.verify
def test_every_public_view_is_there(root: Path, tmp_path: Path) -> None:
    with Warehouse(root) as warehouse:
        write_dataset(warehouse, ["a", "b"], tmp_path / "d")
        names = {*RUN_TABLES, *(view.name for view in warehouse.library.public)}
        rows = warehouse.query("select count(*) from run_comparison_v2").rows[0][0]
    for kind in ("parquet", "csv"):
        found = {path.name for path in (tmp_path / "d" / kind).iterdir()}
        assert found == {f"{name}.{kind}" for name in names}
    files = json.loads((tmp_path / "d" / "dictionary.json").read_bytes())["files"]
    assert {file["name"] for file in files} == names
    assert all(column["meaning"] for file in files for column in file["columns"])
    [compared] = [file for file in files if file["name"] == "run_comparison_v2"]
    assert compared["rows"] == rows == len(pl.read_parquet(tmp_path / "d" / compared["files"][0]))


def test_rows_and_their_order(root: Path, tmp_path: Path) -> None:
    export(root, tmp_path / "d")
    mesh = pl.read_parquet(tmp_path / "d" / "parquet" / "run_mesh_v1.parquet")
    assert mesh.select("run_id", "axis", "device_id", "coordinate").rows() == [
        ("a", "tp", 0, 0),
        ("a", "tp", 1, 1),
    ]
    with (tmp_path / "d" / "csv" / "issues.csv").open(encoding="utf-8", newline="") as file:
        [issue] = csv.DictReader(file)
    assert issue["message"] == 'say "no",\nthen'
    assert (issue["run_id"], issue["source"]) == ("b", "")
    runs = pl.read_parquet(tmp_path / "d" / "parquet" / "runs.parquet")
    assert runs["name"].to_list() == [HOSTILE, "plain"]
    omitted = {"files", "file_crcs"}
    assert runs.columns == [c.name for c in BY_NAME["runs"].columns if c.name not in omitted]


def test_the_dictionary(root: Path, tmp_path: Path) -> None:
    files = export(root, tmp_path / "d")
    told = json.loads(files["dictionary.json"])
    assert told["runs"] == [{"run_id": "a", "name": HOSTILE}, {"run_id": "b", "name": "plain"}]
    by_name = {file["name"]: file for file in told["files"]}
    assert list(by_name) == [*RUN_TABLES, "run_mesh_v1", "setup_summary_v2"]
    mesh = by_name["run_mesh_v1"]
    assert (mesh["kind"], mesh["version"], mesh["rows"], mesh["runs"]) == ("view", 1, 2, ["a"])
    assert mesh["files"] == ["parquet/run_mesh_v1.parquet", "csv/run_mesh_v1.csv"]
    assert (by_name["runs"]["version"], by_name["runs"]["rows"]) == (None, 2)
    [duration] = [c for c in by_name["runs"]["columns"] if c["name"] == "duration_ps"]
    [documented] = [c for c in BY_NAME["runs"].columns if c.name == "duration_ps"]
    assert duration == {
        "name": "duration_ps",
        "type": "int64",
        "unit": "ps",
        "meaning": documented.meaning,
    }
    text = files["DICTIONARY.md"].decode()
    assert "| a | a\\|&lt;b> |" in text
    assert "## run_mesh_v1" in text
    assert "No rows of: b." in text
    assert "2 runs" in files["README.md"].decode()


@pytest.mark.verify
def test_views_over_runs_see_only_those_that_are_named(root: Path, tmp_path: Path) -> None:
    export(root, tmp_path / "one", "b")
    export(root, tmp_path / "both")
    counts = [
        pl.read_parquet(tmp_path / name / "parquet" / "setup_summary_v2.parquet")["runs"].to_list()
        for name in ("one", "both")
    ]
    assert counts == [[1], [2]]  # both runs are of one setup
    devices = pl.read_parquet(tmp_path / "one" / "parquet" / "devices.parquet")
    assert devices["run_id"].to_list() == ["b", "b"]


@pytest.mark.verify
def test_the_same_bytes_and_nothing_left_behind(root: Path, tmp_path: Path) -> None:
    first = export(root, tmp_path / "first")
    assert export(root, tmp_path / "second") == first
    without = export(root, tmp_path / "second", csv=False)  # takes the place of the earlier one
    assert {name for name in first if not name.startswith("csv/")} == set(without)
    parquet = {name: data for name, data in first.items() if name.startswith("parquet/")}
    assert parquet.items() <= without.items()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


def test_other_peoples_files_stay(root: Path, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("x")
    with pytest.raises(WarehouseError, match="not a dataset's"):
        export(root, tmp_path / "home")
    export(root, tmp_path / "d")
    (tmp_path / "d" / "notes.md").write_text("x")
    with pytest.raises(WarehouseError, match="not a dataset's"):
        export(root, tmp_path / "d")
    assert (tmp_path / "d" / "notes.md").read_text() == "x"
    (tmp_path / "file").write_text("x")
    with pytest.raises(WarehouseError, match="is a file"):
        export(root, tmp_path / "file")
    with pytest.raises(WarehouseError, match="cannot be written"):
        export(root, tmp_path / "file" / "below")


def test_a_failure_leaves_nothing(root: Path, tmp_path: Path) -> None:
    copy = write_warehouse(tmp_path / "w", GIVEN)
    [victim] = (copy / "tables" / "devices" / "run_id=a").iterdir()
    export(root, tmp_path / "d")
    before = (tmp_path / "d" / "dictionary.json").read_bytes()
    with Warehouse(copy) as warehouse:
        assert warehouse.files("devices")
        victim.write_bytes(b"PAR1 damaged PAR1")
        with pytest.raises(WarehouseError, match="ingest the run again"):
            write_dataset(warehouse, ["a", "b"], tmp_path / "d", VIEWS)
    assert (tmp_path / "d" / "dictionary.json").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "w"]


def test_a_view_that_there_is_not(root: Path, tmp_path: Path) -> None:
    with Warehouse(root) as warehouse, pytest.raises(ViewError, match="latency"):
        write_dataset(warehouse, ["a"], tmp_path / "d", ["latencyy"])
    assert not (tmp_path / "d").exists()


def test_the_verb(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("export", "dataset", "plain", "-w", root, "-o", tmp_path / "d", "--no-csv")
    assert run_command(monkeypatch, *words, "--views", "run_mesh, latency") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'd'}\n"
    found = {path.stem for path in (tmp_path / "d" / "parquet").iterdir()}
    assert found == {*RUN_TABLES, "run_mesh_v1", "latency_v3"}
    assert not (tmp_path / "d" / "csv").exists()
    assert run_command(monkeypatch, *words, "--views", ",") == 2


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        ("duration_ps", "ps"),
        ("ttft_s", "s"),
        ("algbw_bytes_per_s", "bytes/s"),
        ("chip_flops_per_s", "FLOP/s"),
        ("output_tokens_spread_per_s", "tokens/s"),
        ("kv_bytes_per_token", "bytes/token"),
        ("bytes", "bytes"),
        ("model_flops", "FLOP"),
        ("idle_ratio", "ratio"),
        ("captured_at", "UTC"),
        ("devices", ""),
        ("ops", ""),
    ],
)
def test_units(column: str, unit: str) -> None:
    assert unit_of(column) == unit
