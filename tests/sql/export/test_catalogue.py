"""The README's table of views is the one that the views give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from xlahouse.sql.export.catalogue import BEGIN, END, markdown_table
from xlahouse.sql.library import shipped

README = Path(__file__).parents[3] / "README.md"


def test_the_readme_lists_the_views_that_there_are() -> None:
    text = README.read_text(encoding="utf-8") if README.exists() else ""
    if BEGIN not in text:
        pytest.skip(f"README.md has no {BEGIN}")
    kept = text[text.index(BEGIN) : text.index(END) + len(END)]
    assert kept == markdown_table(shipped()), "run: python -m xlahouse.sql.catalogue"


def test_every_view_has_a_line() -> None:
    lines = markdown_table(shipped()).splitlines()
    assert (lines[0], lines[-1]) == (BEGIN, END)
    assert "| `traffic_volume` | run, device, phase, axis and kind of collective |" in lines
    assert len(lines) == len(shipped().public) + 4


def test_it_prints_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "xlahouse.sql.export.catalogue"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == markdown_table(shipped()) + "\n"
    assert done.stderr == ""
