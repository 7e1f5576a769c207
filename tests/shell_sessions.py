"""Shell sessions that a document shows: each command runs, and must print what is shown."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from functools import cache

import pytest

from tests.command import run_command
from tests.samples import SAMPLES

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TRACES = "$XLAHOUSE_TRACES"


@dataclass(frozen=True)
class Command:
    """A command after `$ `, or a block of Python.

    Attributes:
        words: the words of its line; empty for Python.
        text: the line, which may go on over several, or the block.
        shown: what the document shows below it.
    """

    words: tuple[str, ...]
    text: str
    shown: str


def commands(document: str) -> list[Command]:
    """The commands of all sessions, and the blocks of Python, in their order."""
    found: list[Command] = []
    for language, text in _BLOCK.findall(document):
        if language == "python":
            found.append(Command((), text, ""))
        elif text.startswith("$ "):
            found += [_command(part) for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]]
    return found


def _command(text: str) -> Command:
    lines = text.splitlines(keepends=True)
    for end in range(1, len(lines) + 1):
        line = "".join(lines[:end])
        try:
            words = shlex.split(line)
        except ValueError:  # a quote is open: the line goes on
            continue
        shown = "".join(lines[end:]).rstrip("\n")
        return Command(tuple(words), line, f"{shown}\n" if shown else "")
    raise ValueError(f"a quote is never closed: {text}")


def fits(printed: str, shown: str) -> bool:
    """Whether it was printed; `…` stands for any text of a line, and a line of it for any lines."""
    have, want = printed.splitlines(), shown.splitlines()

    @cache
    def rest(line: int, place: int) -> bool:
        if place == len(want):
            return line == len(have)
        if want[place] == "…":
            return rest(line, place + 1) or (line < len(have) and rest(line + 1, place))
        return line < len(have) and _fits(have[line], want[place]) and rest(line + 1, place + 1)

    return rest(0, 0)


def _fits(line: str, shown: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), line) is not None


def replay(
    session: list[Command], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run each command in this process, in the working folder, and compare output and errors.

    Args:
        session: of `commands`: xlahouse, `export NAME=VALUE`, `. .venv/bin/activate` or Python.
    """
    for command in session:
        if not command.words:
            exec(compile(command.text, "document", "exec"), {})
        elif command.words[0] == "export":
            for assignment in command.words[1:]:
                monkeypatch.setenv(*assignment.split("=", 1))
        elif command.words[0] == "xlahouse":
            run_command(monkeypatch, *(w.replace(TRACES, str(SAMPLES)) for w in command.words[1:]))
            output = capsys.readouterr()
            printed = (output.out + output.err).replace(str(SAMPLES), TRACES)
            assert fits(printed, command.shown), f"{command.text}printed:\n{printed}"
        else:
            assert command.text == ". .venv/bin/activate\n", command.text
