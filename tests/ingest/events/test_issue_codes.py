"""Every finding is of a documented code, and every documented code is found."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import xlahouse.ingest.events.issues as issues
from xlahouse.ingest.events.codes_of_files import CARD_FIELD, TRUNCATED
from xlahouse.ingest.events.issue_codes import CODES
from xlahouse.ingest.events.issues import Issue, issues_found

INGEST = Path(issues.__file__).parents[1]


def names_in(path):
    return {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}


def calls_in(path):
    called = (n.func for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call))
    return {node.id for node in called if isinstance(node, ast.Name)}


def test_every_code_is_documented_and_used():
    readers = [path for path in INGEST.rglob("*.py") if not path.name.startswith("codes_of_")]
    used = set().union(*map(names_in, readers))
    assert {code.upper() for code in CODES} <= used
    # Only a code makes a finding, so none is undocumented.
    assert [path.name for path in readers if "Issue" in calls_in(path)] == ["issues.py"]
    assert [path.name for path in readers if "Code" in calls_in(path)] == []


def test_each_says_what_it_means_and_costs():
    assert list(CODES) == sorted(CODES)
    for code in CODES.values():
        assert len(code.meaning) > 10
        assert len(code.cost) > 10


def test_each_is_named_as_its_code():
    files = INGEST.glob("events/codes_of_*.py")
    assert {name for path in files for name in names_in(path) if name.isupper()} == {
        *(code.upper() for code in CODES),
        "_CAPTURE_AGAIN",
        "_WITH_DUMP",
    }


def test_a_finding_says_what_was_found_what_it_costs_and_what_to_try():
    assert TRUNCATED.found("f", 2, "cut off") == Issue(
        "error", "truncated", f"cut off; {TRUNCATED.cost}; {TRUNCATED.remedy}", "f", 2
    )
    assert issues_found("f", (TRUNCATED, 0), (TRUNCATED, 1)) == [TRUNCATED.found("f")]
    assert TRUNCATED.found("f").message.startswith(f"{TRUNCATED.meaning}; ")


def test_only_some_are_ever_only_information():
    assert CARD_FIELD.found("f").severity == "warning"
    assert CARD_FIELD.found("f", info=True).severity == "info"
    with pytest.raises(ValueError, match="never only information"):
        TRUNCATED.found("f", info=True)
