"""The rooms of the house: which folder may import which, and how large a file and a folder may be."""

from __future__ import annotations

import ast
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("capture", "ingest", "views", "sql", "reports")
# Modules of a top folder that stand below its rooms; the rest of the folder stands above them.
BASES = {
    "capture": (
        "commands",
        "errors",
        "manifest",
        "card",
        "card_file",
        "compiled_facts",
        "yaml_lines",
        "yaml_values",
        "slices",
        "advice",
        "limits",
        "opening",
        "scratch",
        "decoding",
        "words",
    ),
    "ingest": (
        "table",
        "schema",
        "schema_runs",
        "schema_devices",
        "schema_predicted",
        "schema_programs",
        "schema_findings",
        "schema_shared",
    ),
}
CAPTURE = ("capture/base",)
INGEST = (*CAPTURE, "ingest/base", "ingest/events")
# Room -> rooms that it may import, besides itself. What stands only in annotations is not counted.
ARROWS: dict[str, tuple[str, ...]] = {
    "capture/base": (),
    "capture/models": CAPTURE,
    "capture": (*CAPTURE, "capture/models"),  # plans: checked against the models that they name
    "capture/run": (*CAPTURE, "capture/models", "capture"),
    "capture/compile": (*CAPTURE, "capture/models", "capture", "capture/run"),
    "capture/tpu": (*CAPTURE, "capture", "capture/run"),
    "ingest/base": (),
    "ingest/events": (*CAPTURE, "ingest/base"),
    "ingest/hlo": INGEST,
    "ingest/serving": INGEST,
    "ingest/xplane": (*INGEST, "ingest/hlo", "ingest/serving"),
    "ingest/chrome": (*INGEST, "ingest/hlo", "ingest/serving"),
    "ingest/clocks": INGEST,
    "ingest/compiled": (*INGEST, "ingest/hlo"),
    "ingest/nesting": INGEST,
    "ingest/replay": (*INGEST, "ingest/nesting", "ingest/tables"),
    "ingest/spread": INGEST,
    "ingest/tables": (
        *INGEST,
        "ingest/spread",
        *("ingest/clocks", "ingest/compiled", "ingest/hlo", "ingest/nesting"),
        *("ingest/serving", "ingest/xplane"),
    ),
    "ingest/store": (*INGEST, "ingest/tables"),
    "ingest": (
        *INGEST,
        *(
            "ingest/clocks",
            "ingest/compiled",
            "ingest/hlo",
            "ingest/xplane",
            "ingest/chrome",
            "ingest/nesting",
            "ingest/spread",
            "ingest/tables",
            "ingest/store",
        ),
    ),
    "sql": (*INGEST, "ingest/store"),
    "sql/answers": (*CAPTURE, "sql"),
    "sql/check": (*CAPTURE, "ingest/base", "sql"),
    "sql/predict": (*INGEST, "ingest/replay", "ingest/store", "ingest/tables", "sql"),
    "sql/export": (*INGEST, "sql"),
    "sql/serve": (*CAPTURE, "sql", "sql/answers", "sql/check", "sql/export"),
    "reports/charts": CAPTURE,
    "reports/panels": (*CAPTURE, "reports/charts"),
    "reports": (*CAPTURE, "reports/charts", "reports/panels", "sql", "sql/answers"),
}
FREE = "sql/cli"  # the command line reaches every verb


def modules() -> dict[str, Path]:
    """Dotted name -> file, of all that is shipped."""
    found = {}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(("xlahouse", *parts)).removesuffix(".__init__")] = path
    return found


def room_of(path: Path) -> str:
    """The room that a file stands in; some are one room with the folders in them."""
    folder = str(path.relative_to(ROOT).parent)
    for room in ("reports/panels", "ingest/xplane"):
        if folder.startswith(room):
            return room
    return f"{folder}/base" if path.stem in BASES.get(folder, ()) else folder


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """Modules of ours that a file imports when it runs, at its top or in a function."""
    found, tree = set(), ast.parse(path.read_text("utf-8"))
    annotations_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in annotations_only:
            continue
        if isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name in known}


def test_imports_follow_the_arrows():
    known, wrong = modules(), []
    for path in known.values():
        room = room_of(path)
        if room == FREE or path.read_text("utf-8") == "":
            continue
        for name in imported(path, known):
            other = room_of(known[name])
            if other not in (room, *ARROWS[room]):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


def test_no_way_along_the_arrows_leads_back():
    TopologicalSorter(ARROWS).prepare()  # raises CycleError, which names the rooms


def test_every_room_is_shipped():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    rooms = {
        ".".join(("xlahouse", *path.parent.relative_to(ROOT).parts))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("__init__.py")
    }
    assert set(listed["packages"]) == rooms


def rooms_with_files() -> dict[str, list[Path]]:
    """Folder -> files in it, of everything that is in the repository."""
    found: dict[str, list[Path]] = {}
    for folder in (*FOLDERS, "tests"):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                found.setdefault(str(path.parent.relative_to(ROOT)), []).append(path)
    return found


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_room_says_what_it_is_for(folder):
    rooms = [name for name in rooms_with_files() if name.split("/")[0] == folder]
    pages = ("reports/panels/", "capture/plans")  # their folder above says it
    silent = [room for room in rooms if not (ROOT / room / "README.md").is_file()]
    assert [room for room in silent if not room.startswith(pages)] == []


def test_rooms_and_files_are_small():
    for room, files in rooms_with_files().items():
        assert len(files) <= (40 if room.startswith("tests") else 30), room
        for path in files:
            if path.suffix == ".py":
                assert len(path.read_text("utf-8").splitlines()) <= 350, path.relative_to(ROOT)


def test_a_class_has_a_name_of_its_own():
    """One word for one thing: a reader who searches for a name finds one class."""
    found: dict[str, list[str]] = {}
    for path in modules().values():
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
