"""Rows that every process of a Chrome trace may have: host events, markers, counters, coverage."""

from __future__ import annotations

import re

import msgspec
import polars as pl

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.capture.manifest import MARKER_PREFIX, WARMUP
from xlahouse.ingest.chrome.spans import FLOWS
from xlahouse.ingest.events import frames
from xlahouse.ingest.serving import names

_INTEGER = re.compile(r"-?\d{1,18}$")


def arguments(args: str | None) -> dict[str, object]:
    """An event's arguments; empty where they are not a JSON object."""
    try:
        return msgspec.json.decode(args or "{}", type=dict[str, object])
    except JSON_FAULTS:
        return {}


def integer(value: object) -> int | None:
    """A whole number, written as one or as text; None for anything else."""
    if isinstance(value, str) and _INTEGER.match(value):
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if abs(value) < 1 << 63 else None


def host_rows(rows: pl.DataFrame, host: str, prefix: str = "") -> pl.DataFrame:
    """Events as rows of host_events; arrows between slices are none: they link launches to their calls."""
    slices = rows.filter(~pl.col("ph").is_in(FLOWS))
    return frames.conform(
        slices.with_columns(host=pl.lit(host, pl.String), thread=pl.lit(prefix) + pl.col("thread")),
        frames.HOST_EVENTS,
    )


def marker_rows(rows: pl.DataFrame, host: str) -> pl.DataFrame:
    """Step traces with their request and step, a server's with its requests; those outside the marker
    grammar are of phase `step`."""
    found = []
    by_name = pl.col("name").str.starts_with(MARKER_PREFIX)
    numbered = pl.col("args").str.contains('"step_num"', literal=True).fill_null(False)
    timed = pl.col("ph").is_in(["X", "B"])
    marks = rows.filter(by_name | (numbered & (pl.col("ph") == "X")) | (names.IS_STEP & timed))
    for name, args, thread, start, duration in marks.select(
        "name", "args", "thread", "start_ps", "duration_ps"
    ).iter_rows():
        told = arguments(args)
        request, step = integer(told.get("request")), integer(told.get("step_num"))
        if name == WARMUP and request is not None:
            request = -1 - request  # captures number warm-ups from 0 too
        phase = name.removeprefix(MARKER_PREFIX) if name.startswith(MARKER_PREFIX) else "step"
        lists = names.stated_lists(told)
        place = (host, thread, phase, request, step, start, duration)
        found.append((*place, None, None, None, *lists.values(), name))
    schema = frames.MARKERS | {"name": pl.String}
    marked = pl.DataFrame(found, schema=schema, orient="row").pipe(names.with_stated)
    return frames.conform(marked, frames.MARKERS)


def kv_transfer_rows(rows: pl.DataFrame, host: str) -> pl.DataFrame:
    """Transfers of keys and values between servers: frames.KV_TRANSFERS."""
    found = []
    marks = rows.filter(names.IS_TRANSFER & pl.col("ph").is_in(["X", "B"]))
    columns = ("thread", "name", "start_ps", "duration_ps", "args")
    for *place, args in marks.select(columns).iter_rows():
        told = arguments(args)
        texts = {name: str(value) for name, value in told.items()}
        ids = (texts.get("request_id"), texts.get("uuid"), integer(told.get("bytes")))
        found.append((host, *place, *ids, texts.get("dimensions"), texts.get("source")))
    return pl.DataFrame(found, schema=frames.KV_TRANSFERS, orient="row")


def counter_rows(rows: pl.DataFrame, device_id: int | None) -> pl.DataFrame:
    """A row for each number of a counter event; a counter of several series names each of them."""
    found = []
    for name, args, start in rows.select("name", "args", "start_ps").iter_rows():
        told = {series: number(value) for series, value in arguments(args).items()}
        for series, value in told.items():
            named = name if len(told) == 1 else f"{name} {series}"
            found.append((device_id, named, start, value))
        if not told:
            found.append((device_id, name, start, None))
    return pl.DataFrame(found, schema=frames.COUNTERS, orient="row")


def number(value: object) -> float | None:
    """A finite number, which exports may write as text; None for any other value."""
    if not isinstance(value, str | int | float):
        return None
    try:
        found = float(value)
    except ValueError:
        return None
    return found if abs(found) < float("inf") else None


def coverage_of(source: str, plane: str, rows: pl.DataFrame, refused: pl.DataFrame) -> pl.DataFrame:
    """Coverage of a process: each event once, whether it is a row or a half of one.

    Args:
        source: the file.
        plane: name of the process.
        rows: ph, thread, table_name, folded. Arrows become times of enqueue, in launches.
        refused: thread.
    """
    is_arrow = (pl.col("ph").is_in(FLOWS)) & (pl.col("table_name") == "host_events")
    table = pl.when(is_arrow).then(pl.lit("launches")).otherwise("table_name")
    events = rows.select("thread", table.alias("table_name"), "folded")
    if not (events["folded"] == 1).all():
        events = events.select(pl.all().repeat_by("folded").explode())
    return frames.coverage_rows(source, plane, events, refused)
