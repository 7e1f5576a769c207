"""Suggests known names for a misspelt one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def suggest(name: str, known: Iterable[str], count: int = 3) -> str:
    """`; did you mean a, b or c?`, nearest first; empty where nothing is near."""
    by_lower = {word.lower(): word for word in known}
    close = get_close_matches(name.lower(), by_lower, n=count, cutoff=0.6)
    found = [by_lower[word] for word in close]
    if not found:
        return ""
    *head, last = found
    return f"; did you mean {', '.join(head)}{' or ' if head else ''}{last}?"
