"""How pages name and order phases, as pieces of SQL that their queries share."""

from __future__ import annotations

# The phase of a row, for people.
PHASE = "coalesce(phase, 'outside markers')"
# Warm-ups and compiles are no part of what a run is judged by.
MEASURED = "coalesce(phase, 'none') not in ('warmup', 'compile')"


def phase_order(column: str = "phase") -> str:
    """An `order by` list: prefill, decode, then others by name."""
    return f"case {column} when 'prefill' then 0 when 'decode' then 1 else 2 end, {column}"
