"""Runs a verb in this process, as the console script does."""

from __future__ import annotations

import sys

import pytest

from xlahouse.sql.cli.app import main


def run_command(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """Call main with the words of a command line, and give its exit code."""
    monkeypatch.setattr(sys, "argv", ["xlahouse", *map(str, words)])
    with pytest.raises(SystemExit) as caught:
        main()
    code = caught.value.code
    return 0 if code is None else int(code)
