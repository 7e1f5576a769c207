"""Merges what devices did into busy_intervals, interval by interval."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tests.views.oracle.drawn import Drawn, Row

Span = tuple[int, int]
CATEGORIES = {"compute": "compute", "collective": "collective", "copy": "copy_running",
              "host_transfer": "copy_running"}  # fmt: skip


def union(spans: Iterable[Span]) -> list[Span]:
    """Half-open spans merged where they overlap or touch; those without length are nothing."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return merged


def length(spans: Iterable[Span]) -> int:
    """Time in which any of the spans runs."""
    return sum(end - start for start, end in union(spans))


def span(row: Row) -> Span:
    """Start and end of a row."""
    return row["start_ps"], row["start_ps"] + row["duration_ps"]


def runs_as(op: Row) -> str | None:
    """The category of intervals that an op belongs to; None for what does not run."""
    if op["line"] == "Async XLA Ops":
        return None
    if op["op"] == "barrier-cores" and op["category"] == "wait":
        return "sync_wait"
    return CATEGORIES.get(op["category"])


def add_busy_intervals(run: Drawn) -> None:
    """Add the table, from the run's ops and collectives."""
    found = defaultdict(list)
    for op in run.tables.get("ops", []):
        if runs_as(op):
            found[op["device_id"], op["request"], op["step"], runs_as(op)].append(span(op))
    for row in run.tables.get("collectives", []):
        key = row["device_id"], row["request"], row["step"], "collective"
        found[key].append(span(row))
    for (device, request, step, category), spans in found.items():
        for start, end in union(spans):
            run.add("busy_intervals", device_id=device, request=request, step=step,
                    category=category, start_ps=start, duration_ps=end - start)  # fmt: skip
