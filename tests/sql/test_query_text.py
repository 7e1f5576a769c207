"""A query's text: the argument itself, or the file that it names; DuckDB parses it twice, not more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.command import run_command as run
from tests.layers import first_few
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import QueryError
from xlahouse.sql import Warehouse
from xlahouse.sql.database import Database


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


class Counting:
    """A connection that counts the texts that hold a query, itself or as a value."""

    def __init__(self, connection: Any, counts: list[int]) -> None:
        self._connection, self._counts = connection, counts

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def _counted(self, method: str, query: Any, params: Any) -> Any:
        values = params.values() if isinstance(params, dict) else params or ()
        self._counts.append(sum("nothing_else" in str(part) for part in (query, *values)))
        return getattr(self._connection, method)(query, params)

    def extract_statements(self, query: str) -> Any:
        self._counts.append(1)
        return self._connection.extract_statements(query)

    def execute(self, query: Any, params: Any = None) -> Any:
        return self._counted("execute", query, params)

    def sql(self, query: Any, params: Any = None) -> Any:
        self._counts.append(isinstance(query, str))
        return self._connection.sql(query, params=params)


@pytest.mark.parametrize(
    ("sql", "parses"),
    first_few(
        [
            ("select name as nothing_else from runs where run_id = $run", 2),
            ("select count(*) as nothing_else from run_summary where name = $run", 2),
            ("select $run as nothing_else", 2),
            (
                "explain select name as nothing_else from runs where run_id = $run",
                4,
            ),  # and its plan
            ("select count(*) as nothing_else from duckdb_views() where view_name = $run", 2),
        ],
        2,
    ),
)
def test_a_text_is_parsed_once_for_its_statement_and_once_for_its_tree(
    root: Path, monkeypatch, sql: str, parses: int
):
    counts: list[int] = []
    cursor = Database.cursor
    monkeypatch.setattr(Database, "cursor", lambda *given: Counting(cursor(*given), counts))
    describe = Database.describe_all
    monkeypatch.setattr(Database, "describe_all", lambda *given: Counting(describe(*given), counts))
    with Warehouse(root) as warehouse:
        warehouse.query(sql, {"run": "a"}).head(1)
    assert sum(counts) == parses


def test_a_query_at_fault_is_bound_again_and_not_parsed_again(root: Path, monkeypatch):
    counts: list[int] = []
    cursor = Database.cursor
    monkeypatch.setattr(Database, "cursor", lambda *given: Counting(cursor(*given), counts))
    with Warehouse(root) as warehouse, pytest.raises(QueryError, match="did you mean name"):
        warehouse.query("select nam as nothing_else from runs")
    assert sum(counts) == 2
