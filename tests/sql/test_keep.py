"""The verbs compact and drop, as a user types them."""

from __future__ import annotations

import pytest

from tests.command import run_command as run
from tests.ingest.traces import tpu_trace, write
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.store.run_index import INDEX
from xlahouse.ingest.store.store import Store


@pytest.fixture
def root(tmp_path):
    for number in (0, 1):
        path = write(tmp_path / f"run{number}.xplane.pb", tpu_trace(number))
        ingest_paths([path], str(tmp_path / "wh"))
    return tmp_path / "wh"


def runs(root):
    return Store(str(root)).run_ids()


def test_compact_says_what_it_did_and_writes_the_index(root, monkeypatch, capsys):
    assert run(monkeypatch, "compact", "-w", root) == 0
    said = capsys.readouterr()
    assert said.out == ""
    *lines, last = said.err.splitlines()
    assert [line.split()[1] for line in lines] == ["run0:", "run1:"]
    assert all(line.endswith("files: as few as possible") for line in lines)
    assert last == "2 runs in the index"
    assert (root / INDEX).exists()


def test_drop_without_a_terminal_wants_yes(root, monkeypatch, capsys):
    assert run(monkeypatch, "drop", "run0", "-w", root) == 2
    assert "give --yes" in capsys.readouterr().err
    assert len(runs(root)) == 2


def test_drop_takes_runs_by_name_and_prefix_and_the_index_follows(root, monkeypatch, capsys):
    assert run(monkeypatch, "compact", "-w", root) == 0
    gone, left = runs(root)
    assert run(monkeypatch, "drop", gone[:5], "--yes", "--now", "-w", root) == 0
    assert f"{gone}  run" in capsys.readouterr().err
    assert runs(root) == [left]
    assert run(monkeypatch, "query", "select run_id from runs", "--format", "csv", "-w", root) == 0
    assert capsys.readouterr().out.split() == ["run_id", left]
    assert run(monkeypatch, "drop", left, "--yes", "-w", root) == 0
    assert runs(root) == []
    assert not (root / INDEX).exists()


def test_drop_of_no_run_drops_none(root, monkeypatch, capsys):
    assert run(monkeypatch, "drop", "run0", "nope", "--yes", "-w", root) == 1
    assert "no run 'nope'" in capsys.readouterr().err
    assert len(runs(root)) == 2


def test_a_damaged_run_is_dropped_by_its_id(root, monkeypatch, capsys):
    damaged, left = runs(root)
    (root / f"tables/runs/{damaged}.parquet").write_bytes(b"?")
    assert run(monkeypatch, "drop", damaged, "--yes", "-w", root) == 0
    assert f"{damaged}  damaged: dropped" in capsys.readouterr().err
    assert runs(root) == [left]


def test_no_warehouse(tmp_path, monkeypatch, capsys):
    for verb in (("compact",), ("drop", "r", "--yes")):
        assert run(monkeypatch, *verb, "-w", tmp_path / "nowhere") == 1
        assert "xlahouse: " in capsys.readouterr().err
        assert not (tmp_path / "nowhere").exists()
