"""Builds small Chrome traces for tests, as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from xlahouse.ingest.chrome.columns import read_columns
from xlahouse.ingest.chrome.read import read_chrome
from xlahouse.ingest.chrome.spans import find_spans

ALWAYS = {"unknown_plane", "device_unknown"}  # said of an undamaged file too


def event(name="op", ts: Any = 1, dur: Any = 2, pid: Any = 1, tid: Any = 1, **fields: Any) -> str:
    """A complete event. ts and dur are JSON text where they are strings."""
    head = json.dumps({"ph": "X", "pid": pid, "tid": tid, "name": name} | fields)
    return f'{head[:-1]}, "ts": {ts}, "dur": {dur}}}'


def point(ph: str, ts: Any, name="op", pid: Any = 1, tid: Any = 1, **fields: Any) -> str:
    """An event of another phase, which has no duration."""
    return json.dumps({"ph": ph, "pid": pid, "tid": tid, "name": name, "ts": ts} | fields)


def named(pid: Any, process: str, **threads: str) -> list[str]:
    """Metadata events: a process's name, and of its threads by tid (`t3="XLA Ops"`)."""
    rows = [{"ph": "M", "pid": pid, "name": "process_name", "args": {"name": process}}]
    rows += [
        {"ph": "M", "pid": pid, "tid": int(tid[1:]), "name": "thread_name", "args": {"name": name}}
        for tid, name in threads.items()
    ]
    return [json.dumps(row) for row in rows]


def document(*events: str, tail: str = "}") -> bytes:
    return ('{"displayTimeUnit":"ns","traceEvents":[' + ",".join(events) + "]" + tail).encode()


def spans_of(raw: bytes, base_ns: int | None = None) -> list[tuple[str, int, int]]:
    """(name, start_ps, duration_ps) of each span, by start."""
    found = find_spans(read_columns(raw).events, base_ns, "f")
    return found.rows.sort("start_ps", "event").select("name", "start_ps", "duration_ps").rows()


def issues_of(raw: bytes) -> dict[str, int]:
    """Code -> count, of everything found in a file."""
    read = read_chrome(raw, "f.trace.json")
    found = [*read.issues, *(issue for plane in read.planes for issue in plane.issues)]
    return {issue.code: issue.count for issue in found}


def coverage_of(raw: bytes) -> dict[tuple[str, str | None], tuple[int, int, int]]:
    """(line, table) -> (events read, rows written, events rejected)."""
    columns = ("line", "table_name", "events_read", "rows_written", "events_rejected")
    return {
        (line, table): tuple(counts)
        for plane in read_chrome(raw, "f.trace.json").planes
        for line, table, *counts in plane.coverage.select(columns).iter_rows()
    }


def run_of(warehouse: Any) -> dict[str, Any]:
    """The row of the one run in a warehouse."""
    (path,) = Path(warehouse).glob("tables/runs/*.parquet")
    (row,) = pl.read_parquet(path).to_dicts()
    return row
