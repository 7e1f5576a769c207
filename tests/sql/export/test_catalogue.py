"""The catalogue in views/README.md is the one that the views give."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from xlahouse.sql.export.catalogue import BEGIN, END, catalogue
from xlahouse.sql.library import Library, View, shipped

README = Path(__file__).parents[3] / "views" / "README.md"
WRITE = [sys.executable, "-m", "xlahouse.sql.export.catalogue"]


def test_the_readme_lists_the_views_that_there_are() -> None:
    text = README.read_text(encoding="utf-8")
    kept = text[text.index(BEGIN) : text.index(END) + len(END)]
    assert kept == catalogue(shipped()), (
        "run: python -m xlahouse.sql.export.catalogue views/README.md"
    )


def test_every_view_has_a_line_in_the_table_of_its_folder() -> None:
    lines = catalogue(shipped()).splitlines()
    assert (lines[0], lines[-1]) == (BEGIN, END)
    folder, found = "", set()
    for line in lines:
        folder = line.removeprefix("## ") if line.startswith("## ") else folder
        if line.startswith("| `"):
            found.add((folder, line.split("`")[1]))
    newest = [shipped().views[name] for name in shipped().pointers.values()]
    assert found == {(view.folder, view.base) for view in newest}
    assert any(
        line.startswith("| `traffic_volume` | run, device, phase, axis and kind of collective |")
        for line in lines
    )


def test_a_line_holds_grain_and_first_sentence() -> None:
    sql = "-- one row per a|b\n-- Rows of 1.5 and a|b. not this.\nselect\n    -- a\n    a\nfrom runs\n"
    library = Library({"x_v1": View("x_v1", sql, folder="time")})
    assert catalogue(library).splitlines()[-3] == "| `x` | a\\|b | Rows of 1.5 and a\\|b. |"


def test_it_rewrites_the_file_between_the_markers(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    subprocess.run([*WRITE, str(readme)], check=True)
    assert readme.read_text(encoding="utf-8") == f"before\n{catalogue(shipped())}\nafter\n"
    shutil.copy(README, readme)
    subprocess.run([*WRITE, str(readme)], check=True)
    assert readme.read_text(encoding="utf-8") == README.read_text(encoding="utf-8")
