"""The shell: what it answers, what it completes, and the prompt itself with typed keys."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse
from xlahouse.sql.cli.completion import Words
from xlahouse.sql.cli.prompt import SqlCompleter
from xlahouse.sql.cli.session import COMMANDS, Shell, history_file, is_whole, run_prompt, run_script
from xlahouse.sql.library import shipped


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    root = tmp_path_factory.mktemp("shell") / "w"
    return Warehouse(write_warehouse(root, {"devices": [{"device_id": 3}, {"device_id": 4}]}))


def said(warehouse: Warehouse, *typed: str) -> str:
    out = io.StringIO()
    shell = Shell(warehouse, out)
    shell.answer(".timer off")
    for text in typed:
        assert shell.answer(text)
    return out.getvalue()


def test_a_statement_is_answered_and_counted(warehouse: Warehouse) -> None:
    assert said(warehouse, "select device_id\nfrom devices order by 1;") == (
        "device_id\n---------\n        3\n        4\n2 rows\n"
    )
    assert said(warehouse, "select 1 as a;").endswith("\n1 row\n")
    assert said(warehouse, "from range(1001);").endswith("\nthe first 1,000 rows\n")
    assert said(warehouse, ";", "") == ""


def test_time_is_told(warehouse: Warehouse) -> None:
    out = io.StringIO()
    Shell(warehouse, out).answer("select 1;")
    assert re.search(r"^1 row, \d+\.\d{3} s\n$", out.getvalue().splitlines(keepends=True)[-1])


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("from opz;", "did you mean ops? (line 1, column 6)"),
        ("drop table ops;", "a query may only read"),
        ("select cast('x' as int);", "Could not convert string 'x'"),
        (".view", "no command .view; did you mean .views"),
        (".nonsense", "no command .nonsense; .help lists them"),
        (".timer perhaps", "no command .timer perhaps"),
        (".schema latenc", "did you mean latency"),
        (".schema", "there is no table"),
    ],
)
def test_what_is_wrong_is_said_and_the_shell_goes_on(
    warehouse: Warehouse, typed: str, answer: str
) -> None:
    text = said(warehouse, typed, "select 7 as still_here;")
    assert answer in text.splitlines()[0]
    assert "still_here" in text


def test_commands(warehouse: Warehouse) -> None:
    assert "latency_v3" in said(warehouse, ".views")
    assert "one row per device event" in said(warehouse, ".tables")
    assert "ttft_s" in said(warehouse, ".schema latency")
    assert "self_ps int" in said(warehouse, ".schema ops")
    assert said(warehouse, ".runs").splitlines()[0].split()[:2] == ["run_id", "name"]
    assert len(said(warehouse, ".help").splitlines()) == len(COMMANDS)
    assert Shell(warehouse, io.StringIO()).answer(".quit") is False


def test_long_answers_are_paged(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINES", "20")
    paged: list[str] = []
    out = io.StringIO()
    shell = Shell(warehouse, out, paged.append)
    shell.answer("from range(5);")
    assert paged == []
    shell.answer("from range(50);")
    assert paged[0].splitlines()[-1].strip() == "49"
    assert "49" not in out.getvalue().splitlines()


def test_ctrl_c_ends_a_query_and_not_the_shell(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    out = io.StringIO()
    shell = Shell(warehouse, out)
    monkeypatch.setattr(warehouse, "query", interrupted)
    assert shell.answer("select 1;") is True
    assert out.getvalue() == "interrupted\n"


def test_a_script_needs_no_prompt(warehouse: Warehouse) -> None:
    out = io.StringIO()
    lines = [".timer off\n", "select 1\n", "as a;\n", ".quit\n", "select 2 as b;\n"]
    run_script(Shell(warehouse, out), iter(lines))
    assert out.getvalue() == "a\n-\n1\n1 row\n"
    out = io.StringIO()
    run_script(Shell(warehouse, out), iter([".timer off\n", "select 3 as c"]))
    assert out.getvalue() == "c\n-\n3\n1 row\n"


@pytest.mark.parametrize(
    ("text", "whole"),
    [("", True), ("select 1", False), ("select 1;", True), ("select\n1; ", True), (".help", True)],
)
def test_a_semicolon_ends_a_statement(text: str, whole: bool) -> None:
    assert is_whole(text) is whole


@pytest.fixture(scope="module")
def words() -> Words:
    return Words(shipped())


@pytest.mark.parametrize(
    ("before", "after", "first", "never"),
    [
        ("from lat", "", "latency", "launch_instance"),
        ("select * from ops join coll", "", "collectives", "self_ps"),
        ("select sel", " from ops", "self_ps", "ttft_s"),
        ("select tt", " from latency", "ttft_s", "self_ps"),
        ("select latency.tp", " from latency", "tpot_s", "ttft_s"),
        ("select o.sel", " from ops as o", "self_ps", "select"),
        ("select o.sel", " from ops o", "self_ps", "select"),
        ("select approx_c", "", "approx_count_distinct", "getenv"),
        ("gro", "", "group by all", "ops"),
        ("describe dev", "", "device_time", "device_id"),
        ("SELECT SEL", " from ops", "self_ps", "ttft_s"),
    ],
)
def test_completion(words: Words, before: str, after: str, first: str, never: str) -> None:
    found = [suggestion.text for suggestion in words.complete(before, before + after)]
    assert first in found[:3]
    assert never not in found
    assert len(found) == len(set(found))


def test_completion_never_offers_what_is_refused_or_internal(words: Words) -> None:
    found = {suggestion.text for suggestion in words.complete("select g", "select g")}
    assert "getenv" not in found
    assert "greatest" in found
    relations = {suggestion.text for suggestion in words.complete("from _", "from _")}
    assert relations == set()
    assert list(words.complete("select x.", "select x. from nowhere as x")) == []


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        (".sch", ".schema"),
        (".schema laten", ".schema latency"),
        ("from laten", "from latency"),
        ("select o.self_p", "select o.self_p"),
    ],
)
def test_a_completion_replaces_the_word(words: Words, typed: str, completed: str) -> None:
    found = [
        typed[: len(typed) + completion.start_position] + completion.text
        for completion in SqlCompleter(words).get_completions(Document(typed), CompleteEvent())
    ]
    assert found[:1] == ([] if completed == typed else [completed])


def test_the_prompt_reads_lines_until_a_semicolon(warehouse: Warehouse, tmp_path: Path) -> None:
    out = io.StringIO()
    shell = Shell(warehouse, out)
    shell.answer(".timer off")
    history = tmp_path / "state" / "history"
    with create_pipe_input() as typed, create_app_session(input=typed, output=DummyOutput()):
        typed.send_text("select 1\ras a;\r")
        typed.send_text("half a line\x03")  # Ctrl-C drops it
        typed.send_text(".help\r")
        typed.send_text("\x04")  # Ctrl-D leaves
        run_prompt(shell, history)
    assert out.getvalue().startswith("a\n-\n1\n1 row\n")
    assert ".timer on|off" in out.getvalue()
    assert "+select 1\n+as a;" in history.read_text()


def test_the_history_lies_where_the_user_keeps_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/s")
    assert history_file() == Path("/s/xlahouse/history")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert history_file() == Path("~/.local/state/xlahouse/history").expanduser()
