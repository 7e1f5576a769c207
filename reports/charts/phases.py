"""How pages name and order phases, in SQL, and how they take rows phase by phase."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

# The phase of a row, for people.
PHASE = "coalesce(phase, 'outside markers')"
# Warm-ups and compiles do not count in the measures of a run.
MEASURED = "coalesce(phase, 'none') not in ('warmup', 'compile')"


def phase_order(column: str = "phase") -> str:
    """An `order by` list: prefill, decode, then other phases by name."""
    return f"case {column} when 'prefill' then 0 when 'decode' then 1 else 2 end, {column}"


def by_phase(rows: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """Each phase with its rows, in the order of the rows."""
    for phase in rows["phase"].unique(maintain_order=True):
        yield phase, rows.filter(pl.col("phase") == phase)


def step_of(phase: object) -> str:
    """`decode step`; a step of no known phase is a `step`."""
    return "step" if phase in (None, "step") else f"{phase} step"
