"""Each field of a record says beside it what it holds."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# A class of records, up to its first method.
RECORD = re.compile(
    r"^(?:@dataclass.*\n(?:@.*\n)*class .*|class \w+\(.*(?:Struct|NamedTuple|TypedDict).*)\n"
    r"(?:(?:    (?!def |@).*)?\n)*",
    re.MULTILINE,
)


def undocumented(text):
    """`Class.field` of each that has no comment on its lines, nor on the line above."""
    for record in RECORD.findall(text):
        lines = record.split("\n")
        (node,) = ast.parse(record).body
        for field in node.body:
            if isinstance(field, ast.AnnAssign):
                own = lines[field.lineno - 1 : field.end_lineno]
                if not (lines[field.lineno - 2].lstrip().startswith("#") or "# " in "".join(own)):
                    yield f"{node.name}.{ast.unparse(field.target)}"


@pytest.mark.parametrize("room", ["capture", "ingest", "sql", "reports"])
def test_fields_have_comments(room):
    texts = {path: path.read_text("utf-8") for path in (ROOT / room).rglob("*.py")}
    assert sum(len(RECORD.findall(text)) for text in texts.values()) > 20
    assert [
        f"{path.relative_to(ROOT)}: {field}"
        for path, text in texts.items()
        for field in undocumented(text)
    ] == []


def test_a_field_without_a_comment_is_found():
    head = "@dataclass(frozen=True)\nclass A:\n"
    assert list(undocumented(f"{head}    a: int  # number\n    b: str = ''\n")) == ["A.b"]
    assert list(undocumented(f"{head}    # of both\n    a: int\n    b: int\n")) == ["A.b"]
    assert list(undocumented("class B(NamedTuple):\n    a: int\n")) == ["B.a"]
    assert list(undocumented("class C:\n    a: int = 0\n")) == []
