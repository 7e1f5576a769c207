"""Finds where the parts of a line of HLO text end: brackets are matched, quoted text is skipped."""

from __future__ import annotations

import re

_MARKS = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|->|[()\[\]{},"]', re.DOTALL)
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|/\*.*?\*/', re.DOTALL)


class HloTextError(ValueError):
    """A piece of HLO text that cannot be read; the message says which."""


def without_comments(text: str) -> str:
    """The text without `/*index=5*/`; comments within quoted text stay."""
    if "/*" not in text:
        return text
    return _COMMENT.sub(lambda found: found[1] or "", text)


def closing(text: str, start: int) -> int:
    """Position of the bracket that closes the one at `start`.

    Raises:
        HloTextError: it is never closed.
    """
    depth = 0
    for found in _MARKS.finditer(text, start):
        mark = found[0]
        if mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
            if depth == 0:
                return found.start()
        elif mark == '"':
            break
    raise HloTextError(f"a bracket is not closed: {shown(text[start:])}")


def is_closed(text: str) -> bool:
    """Whether each bracket and quotation mark that the text opens is closed in it."""
    even = all(text.count(a) == text.count(b) for a, b in ("()", "[]", "{}"))
    if even and text.count('"') % 2 == 0:
        return True  # quick, and right but where quoted text holds brackets just so
    depth = 0
    for found in _MARKS.finditer(text):
        mark = found[0]
        if mark == '"':
            return False
        depth += (mark in ("(", "[", "{")) - (mark in (")", "]", "}"))
    return depth == 0


def split_commas(text: str) -> list[str]:
    """Pieces between the commas outside brackets and quoted text, stripped; [] for blank text."""
    if "," not in text:
        return [text.strip()] if text.strip() else []
    pieces, depth, begin = [], 0, 0
    for found in _MARKS.finditer(text):
        mark = found[0]
        if mark == ",":
            if depth == 0:
                pieces.append(text[begin : found.start()].strip())
                begin = found.end()
        elif mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
    return [*pieces, text[begin:].strip()]


def unquoted(text: str) -> str:
    """The text within quotation marks: `"a\\"b"` -> `a"b`; other text is unchanged."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
        return re.sub(r"\\(.)", r"\1", text) if "\\" in text else text
    return text


def shown(text: str) -> str:
    """The beginning of a text, for messages."""
    return text if len(text) <= 80 else f"{text[:77]}..."
