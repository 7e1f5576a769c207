"""An audit: a query that must return no rows on any warehouse, and the meaning of a row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Audit:
    """A query for bad rows, and what a row means."""

    name: str  # by which `check` shows it
    meaning: str  # of a row
    sql: str  # that must return no row
