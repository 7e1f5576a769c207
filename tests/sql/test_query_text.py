"""A query's text: the argument itself, or the file that it names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import run_command as run
from tests.warehouse import write_warehouse


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_warehouse(tmp_path / "w", {"runs": [{"run_id": "a", "name": "base"}]})


@pytest.mark.parametrize("name", ["volume.sql", "of two words.sql"])
def test_a_file_that_holds_a_query(name: str, root: Path, tmp_path: Path, monkeypatch, capsys):
    path = tmp_path / name
    path.write_bytes(b"\xef\xbb\xbf-- named\nselect name from runs\nwhere name = $run;\n")
    arguments = ("query", str(path), "-w", root, "-p", "run=base", "--format", "csv")
    assert run(monkeypatch, *arguments) == 0
    assert capsys.readouterr().out == "name\nbase\n"


def test_a_file_at_fault(root: Path, tmp_path: Path, monkeypatch, capsys):
    assert run(monkeypatch, "query", str(tmp_path / "none.sql"), "-w", root) == 1
    assert "none.sql: No such file or directory" in capsys.readouterr().err
    (tmp_path / "bad.sql").write_text("select name,\n  nam\nfrom runs")
    assert run(monkeypatch, "query", str(tmp_path / "bad.sql"), "-w", root) == 1
    assert "did you mean name" in (said := capsys.readouterr().err)
    assert "(line 2, column 3)" in said
    (tmp_path / "empty.sql").write_text("")
    assert run(monkeypatch, "query", str(tmp_path / "empty.sql"), "-w", root) == 1
    assert "this is nothing" in capsys.readouterr().err


def test_a_query_that_ends_like_a_file_is_a_query(root: Path, monkeypatch, capsys):
    assert run(monkeypatch, "query", "select 1 as a.sql", "-w", root) == 1
    assert "syntax error" in capsys.readouterr().err
