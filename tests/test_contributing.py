"""CONTRIBUTING.md and the READMEs: paths that they name exist, and the map of rooms is the real one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_rooms import ARROWS, FREE

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
TOP = "capture|ingest|views|sql|reports|tests"


def section(title):
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title):
    """Cells of each row of a section's table."""
    lines = [line for line in section(title).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def paths(text):
    """Paths below a top folder in backticks or given to pytest; none with a placeholder."""
    return re.findall(rf"(?<=`)(?:{TOP})/[\w./-]*(?=`)|(?<=pytest )(?:{TOP})/[\w./-]+", text)


@pytest.mark.parametrize(
    "page",
    ["CONTRIBUTING.md", "README.md", *(f"{folder}/README.md" for folder in TOP.split("|")[:5])],
)
def test_paths_that_are_named_exist(page):
    named = paths((ROOT / page).read_text("utf-8"))
    bases = {"capture/base", "ingest/base"}  # rooms without a folder of their own
    assert [path for path in named if path not in bases and not (ROOT / path).exists()] == []


@pytest.mark.parametrize(
    "page",
    sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("[a-z]*/**/*.md")),
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_links_lead_to_files(page):
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", page.read_text("utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_front_door_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 250


def test_the_ten_questions_have_one_folder_each():
    answers = [paths(answer) for _, answer in rows("Where is …")]
    assert len(answers) == 10
    for first, *others in answers:
        assert (ROOT / first).is_file()
        assert all((ROOT / other).is_file() for other in others)


def test_the_map_of_rooms_has_the_arrows():
    found = {}
    for room, _, imports in rows("The map of rooms"):
        found[room.strip("`")] = (imports, set(re.findall(r"`([\w/]+)`", imports)))
    assert found.pop("views")[0] == "nothing"
    assert found.pop(FREE)[0] == "every room"
    assert found.keys() == ARROWS.keys()
    assert found.pop("ingest")[0] == "all rooms of `ingest/`"
    expected = {room: set(ARROWS[room]) - {"capture/base"} for room in found}
    assert {room: rooms for room, (_, rooms) in found.items()} == expected


@pytest.mark.parametrize("room", [room for room in (*ARROWS, FREE) if not room.endswith("/base")])
def test_each_room_says_what_comes_in_what_goes_out_and_what_it_never_imports(room):
    text = " ".join((ROOT / room / "README.md").read_text("utf-8").split())
    assert "In: " in text
    assert "Out: " in text
    assert re.search(
        r"\bnever (?:imports |jax|capture's)|imports (?:no|nothing)\b|No other room", text
    )


def test_the_glossary_is_in_order():
    words = [word.casefold() for word, _ in rows("Glossary")]
    assert words == sorted(words)
