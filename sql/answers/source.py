"""What answers the questions about a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Answer(Protocol):
    """Rows of a query."""

    def dicts(self) -> list[dict[str, Any]]:
        """Rows by column."""
        ...


class Source(Protocol):
    """What answers SQL: a warehouse, or one of its runs."""

    @property
    def root(self) -> str:
        """The warehouse's folder or URL."""
        ...

    def query(self, sql: str, params: Mapping[str, object] | None = None) -> Answer:
        """Run one SELECT with `$name` parameters."""
        ...
