"""The commands that findings name are command lines of xlahouse, filled in for their run."""

from __future__ import annotations

import shlex

import click
import pytest
import typer

from xlahouse.capture.commands import COMMAND, TRACES, all_of, filled, shown
from xlahouse.ingest.events.issue_codes import CODES
from xlahouse.sql.check.findings import QUESTIONS
from xlahouse.sql.cli.app import app

TEXTS = {code.code: f"{code.cost}; {code.remedy}" for code in CODES.values()}
TEXTS |= {question.code: question.advice for question in QUESTIONS}
COMMANDS = [
    (code, found) for code, text in sorted(TEXTS.items()) for found in COMMAND.findall(text)
]


def parsed(command: str) -> None:
    """Let click parse a command line, as far as it would before the verb runs."""
    words = shlex.split(command)
    assert words.pop(0) == "xlahouse"
    verb: click.Command = typer.main.get_command(app)
    context = None
    while isinstance(verb, click.Group):
        name = words.pop(0)
        context = click.Context(verb, parent=context, info_name=name)
        found = verb.get_command(context, name)
        assert found is not None, command
        verb = found
    verb.make_context(verb.name, words, parent=context)


@pytest.mark.parametrize(("code", "command"), COMMANDS)
def test_each_command_is_one(code, command, tmp_path):
    stored = filled(f"`{command}`", {TRACES: "/t/a b.xplane.pb"})
    text = shown(stored, "my run", str(tmp_path / "w h"))
    (line,) = COMMAND.findall(text)
    parsed(line)
    assert "RUN" not in line
    assert line.endswith(f"-w '{tmp_path}/w h'")


def test_every_question_and_most_codes_name_a_command():
    named = {code for code, _ in COMMANDS}
    assert {question.code for question in QUESTIONS} <= named
    assert len(named) > 20


def test_a_command_names_run_traces_and_place():
    text = "do `xlahouse ingest TRACES --run RUN --group all` or TRACES"
    several = ["/t/s/h0.xplane.pb", "/t/s/h1.xplane.pb"]
    stored = filled(text, {TRACES: all_of(several)})
    assert stored == "do `xlahouse ingest /t/s --run RUN --group all` or TRACES"
    assert shown(stored, "r", "./warehouse") == (
        "do `xlahouse ingest /t/s --run r --group all` or TRACES"
    )
    one = shown(filled(text, {TRACES: all_of(several[:1])}), "it's", "gs://b/wh")
    assert one == (
        "do `xlahouse ingest /t/s/h0.xplane.pb --run 'it'\"'\"'s' --group all -w gs://b/wh` or TRACES"
    )
    assert shown("a `view`", "r", "w") == "a `view`"


def test_a_word_within_a_path_is_not_filled_in():
    stored = filled("`xlahouse ingest TRACES --run RUN`", {TRACES: "/data/RUN/my RUN.pb"})
    assert shown(stored, "r", "w") == "`xlahouse ingest '/data/RUN/my RUN.pb' --run r -w w`"


def test_a_command_that_a_trace_names_and_no_shell_could_parse_stays():
    assert shown("op `xlahouse it's RUN`", "r", "w") == "op `xlahouse it's RUN`"
