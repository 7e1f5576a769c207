"""Events of a Chrome trace become spans on one clock: pairs closed, times checked, time zero found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import polars as pl

from xlahouse.ingest.chrome.times import PS
from xlahouse.ingest.events.codes_of_files import BAD_TIME, UNKNOWN_PHASE, UNPAIRED_EVENT
from xlahouse.ingest.events.frames import LATEST_PS
from xlahouse.ingest.events.issues import Issue, issues_found

# Phases of the Trace Event Format that are points in time; flows link two places.
INSTANTS = ("i", "I", "R", "n", "T", "p", "P", "N", "O", "D", "c", "v", "V", "(", ")")
FLOWS = ("s", "t", "f")
COUNTER = "C"
COMPLETE = "X"
_BEGINS, _ENDS = ("B", "b", "S"), ("E", "e", "F")
_UNIX_US = 10**14  # the year 1973: later times are UNIX time, earlier ones count from some start
_LONE_US = 3_600_000_000  # a time of 0 so long before all other times is not a time
_MOST_US = LATEST_PS // PS
# Of a begin or an end: event, line, phase, name, category, id, us, ps.
_Half: TypeAlias = tuple[int, int, str, str | None, str | None, str | None, int | None, int | None]


@dataclass(frozen=True)
class ChromeSpans:
    """Spans of all lines of a Chrome trace."""

    # event, line, ph, name, cat, id, args, start_ps, duration_ps, and `folded`: events that a row stands for
    rows: pl.DataFrame
    refused: pl.DataFrame  # (event, line) of events that are not spans
    start_ns: int | None  # UNIX time of time zero; None where unknown
    issues: list[Issue]  # findings about them


def find_spans(events: pl.DataFrame, base_ns: int | None, source: str) -> ChromeSpans:
    """Spans of all lines.

    Args:
        events: columns.CHROME_EVENTS with `event`.
        base_ns: UNIX time that times count from, where the file states it.
        source: the file, for issues.
    """
    phase = pl.col("ph")
    points = phase.is_in([*INSTANTS, *FLOWS, COUNTER])
    single = events.filter(points | (phase == COMPLETE)).with_columns(
        duration_ps=pl.when(points).then(pl.lit(0, pl.Int64)).otherwise("duration_ps"),
        folded=pl.lit(1, pl.Int64),
    )
    halves = events.filter(phase.is_in([*_BEGINS, *_ENDS]))
    paired, alone = _paired(halves)
    known = [*INSTANTS, *FLOWS, COUNTER, COMPLETE, *_BEGINS, *_ENDS]
    unknown = events.filter(~phase.is_in(known)).select("event", "line")
    spans = single if paired.is_empty() else pl.concat([single, paired]).sort("event")
    good, bad = _checked(spans)
    zero, start_ns = _zero(good, base_ns)
    start = (pl.col("us") - zero) * PS + pl.col("ps")
    rows = good.with_columns(start_ps=start).drop("us", "ps")
    key = ["event", "line", "folded"]
    early = rows.filter(pl.col("start_ps") < 0)
    bad = _repeated(pl.concat([bad.select(key), early.select(key)]))
    rows = rows.filter(pl.col("start_ps") >= 0) if not early.is_empty() else rows
    far = "events without a time, with a negative one, or with one far from all others"
    return ChromeSpans(
        rows,
        pl.concat([bad.select("event", "line"), alone, unknown]),
        start_ns,
        issues_found(
            source,
            (BAD_TIME, bad.height, far),
            (UNPAIRED_EVENT, alone.height),
            (UNKNOWN_PHASE, unknown.height),
        ),
    )


def _repeated(rows: pl.DataFrame) -> pl.DataFrame:
    """A row for each event that a row stands for."""
    if (rows["folded"] == 1).all():
        return rows
    return rows.select(pl.all().repeat_by("folded").explode())


def _checked(spans: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(spans whose times can be trusted, all other spans)."""
    good = pl.col("us").is_not_null() & pl.col("duration_ps").is_between(0, LATEST_PS)
    positive = spans.filter(good & (pl.col("us") > 0))["us"]
    earliest, middle = positive.min(), positive.median()
    if isinstance(earliest, int) and earliest > _LONE_US:
        good &= pl.col("us") != 0
    if isinstance(middle, float):
        good &= (pl.col("us") - int(middle)).abs() <= _MOST_US // 2
    good = good.fill_null(False)
    return spans.filter(good), spans.filter(~good)


def _zero(spans: pl.DataFrame, base_ns: int | None) -> tuple[int, int | None]:
    """(us of time zero, its UNIX time in ns or None)."""
    earliest = spans["us"].min()
    if not isinstance(earliest, int):
        return 0, base_ns
    if earliest >= _UNIX_US:
        return earliest, earliest * 1000
    if base_ns is not None:
        return earliest, base_ns + earliest * 1000
    # Counted from the profile's start, or from the machine's start, which is long ago.
    return (earliest if earliest > _LONE_US else 0), None


def _paired(halves: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(spans of begins and ends, (event, line) of those without a partner).

    An end closes the innermost begin of its name on its line, or of its category, id and name where the
    pair is asynchronous. An end without a name closes the innermost begin.
    """
    ordered = halves.sort("us", "ps", "event", nulls_last=True)
    rows = ordered.select("event", "line", "ph", "name", "cat", "id", "us", "ps").iter_rows()
    partner = _partners(rows)
    begins = ordered.filter(pl.col("event").is_in(list(partner)))
    ends = ordered.select(
        pl.col("event").alias("end_event"),
        pl.col("us").alias("end_us"),
        pl.col("ps").alias("end_ps"),
        pl.col("args").alias("end_args"),
    )
    numbers = begins["event"].to_list()
    closed = begins.with_columns(
        end_event=pl.Series([partner[number] for number in numbers], dtype=halves.schema["event"])
    ).join(ends, on="end_event", how="left", maintain_order="left")
    length = (pl.col("end_us") - pl.col("us")) * PS + pl.col("end_ps") - pl.col("ps")
    near = (pl.col("end_us") - pl.col("us")).abs() <= _MOST_US
    spans = closed.with_columns(
        duration_ps=pl.when(near).then(length),
        args=pl.coalesce("args", "end_args"),
        folded=pl.lit(2, pl.Int64),
    ).select(*halves.columns, "folded")
    used = [*partner, *partner.values()]
    return spans, halves.filter(~pl.col("event").is_in(used)).select("event", "line")


def _partners(rows: Iterable[_Half]) -> dict[int, int]:
    """Begin event -> end event; rows of (event, line, phase, name, cat, id, us, ps) by time."""
    open_by_key: dict[tuple[object, ...], list[int]] = {}
    open_by_line: dict[int, list[tuple[int, tuple[object, ...]]]] = {}
    partner: dict[int, int] = {}
    for event, line, phase, name, cat, number, us, _ in rows:
        if us is None:
            continue
        nested = phase in "BE"
        key: tuple[object, ...] = (line, name) if nested else (phase in "SF", cat, number, name)
        if phase in _BEGINS:
            open_by_key.setdefault(key, []).append(event)
            if nested:
                open_by_line.setdefault(line, []).append((event, key))
            continue
        if nested and not name:  # closes the innermost that is still open
            stack = open_by_line.get(line, [])
            while stack and stack[-1][0] in partner:
                stack.pop()
            key = stack[-1][1] if stack else key
        if open_by_key.get(key):
            partner[open_by_key[key].pop()] = event
    return partner
