"""Pipes, devices, folders and odd names among a user's files: each costs at most itself."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.command import run_command
from tests.samples import sample
from xlahouse.capture.errors import ManifestError
from xlahouse.capture.plan import read_plan
from xlahouse.ingest.run import IngestError, ingest_paths
from xlahouse.sql.warehouse import Warehouse

CASES = Path(__file__).parents[1] / "cases" / "faults"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A small trace in a folder of its own."""
    (tmp_path / "traces").mkdir()
    return Path(shutil.copy(CASES / "evil_names.trace.json.gz", tmp_path / "traces"))


def names(root: Path) -> list[str]:
    with Warehouse(str(root)) as warehouse:
        return [str(name) for (name,) in warehouse.query("select name from runs order by 1").rows]


def test_a_pipe_beside_a_trace_is_no_card(trace: Path, tmp_path: Path) -> None:
    for name in ("x.yaml", "y.json", "after_optimizations.hlo", "z.zip", "b.trace.json"):
        os.mkfifo(trace.parent / name)
    with pytest.raises(IngestError) as caught:  # for the pipes that are named as traces
        ingest_paths([str(trace.parent)], str(tmp_path / "w"))
    assert sorted(caught.value.problems) == [
        f"{trace.parent}/{name}: not a regular file; it is left out"
        for name in ("b.trace.json", "y.json")
    ]
    assert names(tmp_path / "w") == ["evil_names"]


def test_a_pipe_as_a_manifest_costs_its_run(trace: Path, tmp_path: Path) -> None:
    capture = trace.parent / "trace_1.trace"
    capture.mkdir()
    shutil.copy(trace, capture)
    os.mkfifo(trace.parent / "metadata_1.json")
    with pytest.raises(IngestError, match=r"metadata_1.json: a pipe, not a regular file; correct"):
        ingest_paths([str(trace.parent)], str(tmp_path / "w"))
    assert names(tmp_path / "w") == ["evil_names"]


@pytest.mark.parametrize("odd", ["pipe", "/dev/zero", "folder"])
def test_what_is_no_file_is_no_plan_card_or_query(
    odd: str, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    path = tmp_path / "plan.sql"
    if odd == "pipe":
        os.mkfifo(path)
    elif odd == "folder":
        path.mkdir()
    else:
        path.symlink_to(odd)
    said = {"pipe": "a pipe, not a", "/dev/zero": "a device, not a", "folder": "Is a directory"}
    with pytest.raises(ManifestError, match=said[odd]):
        read_plan(path)
    with pytest.raises(ManifestError, match=said[odd]):
        ingest_paths([str(trace)], str(tmp_path / "w"), card=str(path))
    ingest_paths([str(trace)], str(tmp_path / "w"))
    assert run_command(monkeypatch, "query", path, "-w", tmp_path / "w") == 1
    assert said[odd] in capsys.readouterr().err


def test_odd_own_views_cost_themselves(trace: Path, tmp_path: Path) -> None:
    root = tmp_path / "w"
    ingest_paths([str(trace)], str(root))
    own = root / "user_views"
    own.mkdir()
    os.mkfifo(own / "x.sql")
    (own / "dir.sql").mkdir()
    (own / "gone.sql").symlink_to(root / "nowhere")
    (own / "good.sql").write_text("select 1 as one from runs")
    said: list[str] = []
    with Warehouse(str(root), said.append) as warehouse:
        assert warehouse.query("from good").rows == [(1,)]
    assert said == [
        "user_views/dir.sql is left out: Is a directory",
        "user_views/gone.sql is left out: No such file or directory",
        "user_views/x.sql is left out: a pipe, not a regular file",
    ]


def test_a_pipe_as_a_runs_settings_is_one_line(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    (result,) = ingest_paths([str(trace)], str(tmp_path / "w"))
    (tmp_path / "w" / "settings").mkdir()
    os.mkfifo(tmp_path / "w" / "settings" / f"{result.run_id}.json")
    assert run_command(monkeypatch, "query", "from run_summary", "-w", tmp_path / "w") == 1
    assert "a pipe, not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"a::b", "a::b"),
        (b"memory::b", "memory::b"),
        (b"caf\xe9", "caf\\xe9"),
    ],
)
@pytest.mark.parametrize("relative", [False, True])
def test_a_name_is_only_a_name(
    name: bytes, shown: str, relative: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.fsencode(tmp_path / "t")
    os.mkdir(folder)
    path = folder + b"/" + name + b".xplane.pb"
    shutil.copy(sample("cpu/torch_xla_mlp_4dev.xplane.pb"), path)
    monkeypatch.chdir(folder)
    given = os.fsdecode(os.path.basename(path) if relative else path)
    ingest_paths([given], str(tmp_path / "w"))
    assert names(tmp_path / "w") == [shown]
    with Warehouse(str(tmp_path / "w")) as warehouse:
        (sources,) = warehouse.query("select distinct source from coverage").rows
        assert sources[0] == f"{tmp_path}/t/{shown}.xplane.pb"
        assert not warehouse.query("from issues where severity = 'error'").rows


@pytest.mark.parametrize("name", ["b.json", "b.xplane.pb"])
def test_a_file_that_cannot_be_read_costs_itself(trace: Path, tmp_path: Path, name: str) -> None:
    """As one on a disk or a server that fails: opening it works, and reading it does not."""
    path = trace.parent / name
    path.symlink_to("/proc/self/mem")
    with pytest.raises(IngestError) as caught:
        ingest_paths([str(trace.parent)], str(tmp_path / "w"))
    (problem,) = caught.value.problems
    assert str(path) in problem
    assert "Input/output error" in problem
    assert names(tmp_path / "w") == ["evil_names"]


def test_an_archive_hides_no_fault_of_its_folder(tmp_path: Path) -> None:
    """A trace under another name beside it was skipped, and nothing was said."""
    shutil.copy(CASES / "metadata_only.trace.json.gz", tmp_path / "a.json.gz")
    folder = tmp_path / "in"
    folder.mkdir()
    shutil.copy(CASES / "iota_200_x_2_20.xplane.pb", folder / "renamed")
    shutil.make_archive(str(folder / "p"), "zip", tmp_path, "a.json.gz")
    with pytest.raises(IngestError, match=r"in/renamed: .*xplane") as caught:
        ingest_paths([str(folder)], str(tmp_path / "w"))
    assert len(caught.value.results) == 1
