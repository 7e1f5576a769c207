"""Every finding's code is documented, and every documented code is found."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import xlahouse.ingest.events.issue_codes as issue_codes
from xlahouse.ingest.events.issue_codes import CODES

INGEST = Path(issue_codes.__file__).parents[1]
_CODE = re.compile(r"[a-z]+(_[a-z]+)+|truncated")


def is_message(node):
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and " " in node.value
    return isinstance(node, (ast.JoinedStr, ast.BinOp))


def code_in(elements):
    """The code among the elements of a row `(count, code, message)`; None where it is no such row."""
    texts = [node.value for node in elements if isinstance(node, ast.Constant)]
    codes = [text for text in texts if isinstance(text, str) and _CODE.fullmatch(text)]
    is_row = len(elements) in (3, 4) and any(is_message(node) for node in elements)
    is_row = is_row or (len(elements) == 4 and texts[:1] in (["error"], ["warning"], ["info"]))
    return codes[0] if is_row and len(codes) == 1 else None


def codes_used():
    found = set()
    for path in INGEST.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Issue":
                if isinstance(node.args[1], ast.Constant):
                    found.add(node.args[1].value)
            elif isinstance(node, ast.Tuple) and (code := code_in(node.elts)):
                found.add(code)
    return found


def test_every_code_is_documented_and_used():
    assert codes_used() == set(CODES)


def test_each_says_what_it_means_and_costs():
    assert list(CODES) == sorted(CODES)
    for code in CODES.values():
        assert len(code.meaning) > 10
        assert len(code.cost) > 10
