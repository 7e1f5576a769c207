"""Runs a verb in this process, as the console script does."""

from __future__ import annotations

import sys

import pytest

from xlahouse.sql.cli import app


def run_command(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """Call main with the words of a command line, and give its exit code."""
    monkeypatch.setattr(sys, "argv", ["xlahouse", *map(str, words)])
    # A query that does not end in time, on a busy machine, would have main end this process: the tests'.
    monkeypatch.setattr(app, "left_behind", lambda: False)
    with pytest.raises(SystemExit) as caught:
        app.main()
    code = caught.value.code
    return 0 if code is None else int(code)
