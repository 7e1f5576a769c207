"""A disk that is full while runs are dropped, compacted or exported: what is done, and what is not."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.command import run_command
from tests.warehouse import write_warehouse

RUNS = [{"run_id": letter * 12, "name": f"run-{letter}"} for letter in "abc"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    devices = [{"run_id": run["run_id"], "device_id": 0, "traced": True} for run in RUNS]
    return write_warehouse(tmp_path / "w", {"runs": RUNS, "devices": devices})


def full(where: str, real):
    """The function, on a disk that has no room for whatever names `where`."""

    def write(*given, **named):
        if any(where in str(part) for part in given):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*given, **named)

    return write


def names_left(root, monkeypatch, capsys) -> list[str]:
    run_command(
        monkeypatch, "query", "select name from runs order by 1", "-w", root, "--format", "csv"
    )
    return capsys.readouterr().out.split()[1:]


def test_drop(root, monkeypatch, capsys):
    from xlahouse.ingest.store.store import Store

    monkeypatch.setattr(Store, "drop_row", full("b" * 12, Store.drop_row))
    assert run_command(monkeypatch, "drop", "run-a", "run-b", "run-c", "-y", "-w", root) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "xlahouse: run-b: No space left on device; dropped: run-a; not dropped: run-b, run-c; "
        "free some space and repeat the command for these"
    )
    assert names_left(root, monkeypatch, capsys) == ["run-b", "run-c"]


def test_compact(root, monkeypatch, capsys):
    from xlahouse.ingest.store import run_index
    from xlahouse.ingest.store.store import Store

    monkeypatch.setattr(Store, "begin", full("b" * 12, Store.begin))
    monkeypatch.setattr(run_index, "write_index", full(str(root), run_index.write_index))
    assert run_command(monkeypatch, "compact", "-w", root) == 1
    said = capsys.readouterr().err
    assert f"xlahouse: {'b' * 12}: No space left on device; the run stays as it was" in said
    assert f"{'c' * 12}  run-c: 1 file" in said
    assert "the index of runs is not written again: No space left on device" in said
    assert names_left(root, monkeypatch, capsys) == ["run-a", "run-b", "run-c"]


def test_export(root, monkeypatch, capsys, tmp_path):
    from xlahouse.sql.export import chakra

    monkeypatch.setattr(chakra, "write_trace", full("run-b", chakra.write_trace))
    out = tmp_path / "out"
    words = ("export", "chakra", "run-a", "run-b", "run-c", "-w", root, "-o", out)
    assert run_command(monkeypatch, *words) == 1
    found = capsys.readouterr()
    assert found.out == f"{out / 'run-a'}\n"
    assert found.err.startswith(
        "xlahouse: run-b: No space left on device; written: run-a; not written: "
    )
    assert not [path for path in out.rglob("*") if "partial" in path.name]
