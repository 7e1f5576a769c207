"""Finds the step marker that a launch belongs to: read from the thread that enqueued the launch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import accumulate, groupby, takewhile
from typing import NamedTuple

import polars as pl

STEP_KEY = ("phase", "request", "step")
# Nested calls and threads open a few. A trace may claim thousands, and each change looks at all of them.
MOST_OPEN = 256
_FOUND = {"marker": pl.Int64, "phase": pl.String, "request": pl.Int64, "step": pl.Int64}


_UNDECIDED = (*(None for _ in _FOUND), True)


class _Marker(NamedTuple):
    """A step marker."""

    # host and thread; None for the thread: markers of all its threads
    scope: tuple[str, str | None]
    thread: str | None  # name of its thread; None where unknown
    start_ps: int  # on the clock of the host
    end_ps: int  # on the clock of the host
    marker: int  # number of the marker
    phase: str | None  # of the step
    request: int | None  # number of the request; None where the marker names none
    step: int | None  # number of the step; None where the marker names none


def open_markers(launches: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Add to each launch the marker that decides on it, with its phase, request and step.

    It is the innermost one open on the thread that enqueued the launch; where that thread marks no step
    or is not known, the innermost of the host. If several are open there that do not nest, or threads
    differ, none decides: what all of them agree on counts, a step only with its request. Where more than
    MOST_OPEN are open, none decides.

    Args:
        launches: host, when, enqueue_thread, by `when`.
        steps: frames.MARKERS with `marker`, their number.

    Returns:
        launches with marker, phase, request, step, and whether markers are `undecided`.
    """
    marks = steps.with_columns(end_ps=pl.col("start_ps") + pl.col("duration_ps"))
    names = [name for name in _Marker._fields if name != "scope"]
    by_thread = [(host, thread) for host, thread in marks.select("host", "thread").iter_rows()]
    rows = list(marks.select(names).iter_rows())
    found = [
        (*scope, when, *decided)
        for scopes in (by_thread, [(host, None) for host, _ in by_thread])
        for scope, mine in groupby(
            sorted(
                (_Marker(scope, *row) for scope, row in zip(scopes, rows, strict=True)), key=_order
            ),
            key=lambda marker: marker.scope,
        )
        if scope[1] is not None or scopes is not by_thread
        for when, decided in _decided_at(list(mine))
    ]
    schema = {"host": pl.String, "scope": pl.String, "when": pl.Int64, **_FOUND}
    schema |= {"undecided": pl.Boolean}
    told = pl.DataFrame(found, schema=schema, orient="row").sort("when", maintain_order=True)
    marking = marks.select("host", scope="thread").drop_nulls().unique()
    scoped = launches.join(
        marking.with_columns(enqueue_thread="scope"),
        on=["host", "enqueue_thread"],
        how="left",
        maintain_order="left",
    )
    # asof joins match no NULL
    no_thread = pl.col("scope").fill_null("")
    return (
        scoped.with_columns(no_thread)
        .join_asof(
            told.with_columns(no_thread), on="when", by=["host", "scope"], check_sortedness=False
        )
        .with_columns(pl.col("undecided").fill_null(False))
        .drop("scope")
    )


def _order(marker: _Marker) -> tuple[str, str, int, int, int]:
    host, thread = marker.scope
    return host, thread or "", marker.start_ps, -marker.end_ps, marker.marker


def _decided_at(markers: list[_Marker]) -> Iterator[tuple[int, tuple[object, ...]]]:
    """(time, the columns of _FOUND and whether markers are undecided), wherever one begins or ends.

    Args:
        markers: of one scope, by start, and of those that start together the longer first.
    """
    opened: dict[int, _Marker] = {}  # in order
    ends: list[tuple[int, int]] = []  # a heap
    waiting = deque(enumerate(markers))
    for when in sorted({time for marker in markers for time in (marker.start_ps, marker.end_ps)}):
        while waiting and waiting[0][1].start_ps <= when:
            place, marker = waiting.popleft()
            opened[place] = marker
            heappush(ends, (marker.end_ps, place))
        while ends and ends[0][0] <= when:
            del opened[heappop(ends)[1]]
        yield when, _decided([*opened.values()]) if len(opened) <= MOST_OPEN else _UNDECIDED


def _decided(opened: list[_Marker]) -> tuple[object, ...]:
    if not opened:
        return (*(None for _ in _FOUND), False)
    opened = _without_outer(opened)
    last = opened[-1]
    if len(opened) == 1:
        return (last.marker, last.phase, last.request, last.step, False)
    phases = {marker.phase for marker in opened}
    requests = {marker.request for marker in opened}
    steps = {(marker.request, marker.step) for marker in opened}
    alike = len(steps) == 1
    return (
        last.marker if alike and len(phases) == 1 else None,
        last.phase if len(phases) == 1 else None,
        last.request if len(requests) == 1 else None,
        last.step if alike else None,
        not alike,
    )


def _without_outer(opened: list[_Marker]) -> list[_Marker]:
    """Open markers without the ones that hold all later ones of their thread, and no other's are open."""
    if len({marker.thread for marker in opened}) > 1:
        return opened
    last_ends = [*accumulate((marker.end_ps for marker in reversed(opened)), max)][::-1]
    outer = takewhile(
        lambda pair: pair[0].end_ps >= pair[1], zip(opened, last_ends[1:], strict=False)
    )
    return opened[sum(1 for _ in outer) :]
