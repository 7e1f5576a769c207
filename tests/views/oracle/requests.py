"""METRICS, Latency and Scheduling: requests, launches and hosts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from tests.views.oracle.busy import span
from tests.views.oracle.drawn import Row
from tests.views.oracle.reading import MARKED, Run, grouped, mean, median, rank, ratio

SECOND = 1e12


def markers(run: Run) -> list[Row]:
    """Markers of measured steps."""
    rows = run.rows("phases")
    return [row for row in rows if row["source"] == "marker" and row["phase"] in MARKED]


def compiling(run: Run) -> dict[Any, list[tuple[int, int]]]:
    """Host -> stretches in which it compiles."""
    names = ("backend_compile", "XlaCompile", "x::Compile")
    events = [row for row in run.rows("host_events") if row["name"] in names]
    found = {host: [span(row) for row in rows] for (host,), rows in grouped(events, "host").items()}
    return {host: stretches(spans) for host, spans in found.items()}


def stretches(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans joined where they overlap or touch, those without length too."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def counted(run: Run) -> dict[Any, list[Row]]:
    """Request -> its markers; warm-ups and those during which something was compiled are left out."""
    found = {}
    unmeasured = [piece for pieces in compiling(run).values() for piece in pieces]
    unmeasured += [span(row) for row in run.rows("phases") if row["phase"] == "warmup"]
    for (request,), rows in grouped(markers(run), "request").items():
        begin, end = min(r["start_ps"] for r in rows), max(span(r)[1] for r in rows)
        if not any(start < end and begin < stop for start, stop in unmeasured):
            found[request] = rows
    return found


def passes(run: Run) -> dict[tuple[Any, Any], tuple[int, int]]:
    """(request, step) -> start of the first op and end of the last over all devices, marked ones."""
    there = [
        op
        for op in run.rows("ops")
        if op["category"] != "control" and op["phase"] in MARKED and op["step"] is not None
    ]
    return {
        key: (min(op["start_ps"] for op in ops), max(span(op)[1] for op in ops))
        for key, ops in grouped(there, "request", "step").items()
    }


def step_latency(run: Run) -> Iterator[Row]:
    """From the end of the previous step to the end of this one; the first from its marker."""
    done = passes(run)
    for request, rows in counted(run).items():
        before = None
        for (step,), marked in sorted(grouped(rows, "step").items()):
            start = min(row["start_ps"] for row in marked)
            first, end = done.get((request, step), (None, None))
            since = start if step == 0 else before
            yield {
                "request": request,
                "step": step,
                "phase": one(marked),
                "start_ps": start,
                "first_op_ps": first,
                "end_ps": end,
                "latency_s": _lasted(since, end),
            }
            before = end


def _lasted(since: int | None, end: int | None) -> float | None:
    """Seconds; None where they are unknown, or negative."""
    return None if since is None or end is None or end < since else (end - since) / SECOND


def one(rows: list[Row]) -> Any:
    """The phase of all; mixed of several."""
    found = {row["phase"] for row in rows}
    return found.pop() if len(found) == 1 else "mixed"


def latency(run: Run) -> Iterator[Row]:
    """TTFT, TPOT and rates of each request; of a run without markers the period of a program."""
    facts = {name: run.facts[name] for name in ("measured_ttft_s", "measured_tpot_s")}
    if not any(row["source"] == "marker" for row in run.rows("phases")):
        yield from _by_module(run, facts)
        return
    for (request,), steps in grouped(step_latency(run), "request").items():
        prefill = next((s for s in steps if s["step"] == 0), None)
        decodes = [s for s in steps if s["step"] > 0]
        times = [s["latency_s"] for s in decodes if s["latency_s"] is not None]
        first = prefill and prefill["end_ps"]
        last = steps[-1]["end_ps"]
        if (
            prefill
            and first is not None
            and (first < prefill["start_ps"] or (last is not None and last < first))
        ):
            first = last = None
        begun = prefill and _begun(run, request, prefill["start_ps"])
        ttft = e2e = tpot = None
        if prefill and first is not None:
            ttft = (first - prefill["start_ps"]) / SECOND
        if prefill and last is not None:
            e2e = (last - prefill["start_ps"]) / SECOND
        if decodes and first is not None and last is not None:
            tpot = (last - first) / len(decodes) / SECOND
        queued = {
            "start_ps": begun if begun is not None else prefill and prefill["start_ps"],
            "end_ps": last,
            "queue_s": None if begun is None else (prefill["start_ps"] - begun) / SECOND,
            "request_ttft_s": None if None in (begun, first) else (first - begun) / SECOND,
            "launch_period_s": None,
            "launch_period_count": None,
        }
        row = _row(run, facts, request, "marker", ttft, tpot, e2e, len(decodes), times)
        yield row | queued


def _begun(run: Run, request: Any, prefill: int) -> int | None:
    """Start of the markers of a request that hold the start of its prefill."""
    own = [
        span(row)
        for row in run.rows("phases")
        if (row["source"], row["phase"], row["request"]) == ("marker", "request", request)
    ]
    return min((start for start, end in own if start <= prefill <= end), default=None)


def _row(
    run: Run, facts: Row, request: Any, source: str, ttft: Any, tpot: Any, e2e: Any, decodes: Any,
    times: list[float],
) -> Row:  # fmt: skip
    batch, tokens = run.facts["batch_size"], run.facts["output_tokens"]
    known = None if None in (batch, tokens) else batch * tokens
    return {
        "request": request,
        "source": source,
        "ttft_s": ttft,
        "tpot_s": tpot,
        "e2e_s": e2e,
        "decode_steps": decodes,
        "output_tokens_per_s": ratio(known, e2e),
        "decode_tokens_per_s": ratio(batch, tpot),
        "p50_step_s": median(times),
        "p90_step_s": rank(times, 0.9),
        "p95_step_s": rank(times, 0.95),
        "p99_step_s": rank(times, 0.99),
        **facts,
    }


def _by_module(run: Run, facts: Row) -> Iterator[Row]:
    found = []
    for (program,), rows in grouped(run.rows("launches"), "program_id").items():
        ends = sorted(
            max(span(row)[1] for row in devices)
            for devices in grouped(rows, "launch_instance").values()
        )
        instances = grouped(rows, "launch_instance").values()
        took = sum(
            max(span(r)[1] for r in devices) - min(r["start_ps"] for r in devices)
            for devices in instances
        )
        found.append((len(ends), took, -program, ends))
    if not found:
        return
    count, _, _, ends = max(found)
    period = (ends[-1] - ends[0]) / (count - 1) / SECOND if count > 1 else None
    unknown = dict.fromkeys(("start_ps", "end_ps", "queue_s", "request_ttft_s"))
    row = _row(run, facts, None, "module", None, None, None, None, [])
    yield row | unknown | {"launch_period_s": period, "launch_period_count": count - 1}


def launch_overhead(run: Run) -> Iterator[Row]:
    """What each launch waits for before it starts."""
    for rows in grouped(run.rows("launches"), "device_id").values():
        reached = None
        for row in sorted(rows, key=lambda r: (r["start_ps"], r["launch"])):
            enqueue, start = row["enqueue_ps"], row["start_ps"]
            early = None if enqueue is None else start < enqueue
            told = early is False
            free = enqueue if reached is None or not told else max(enqueue, reached)
            names = ("device_id", "launch", "launch_instance", "program_id", "module", "phase",
                     "request", "step", "enqueue_ps", "start_ps", "duration_ps")  # fmt: skip
            yield {
                **{name: row[name] for name in names},
                "queue_ps": start - enqueue if told else None,
                "dispatch_ps": max(0, start - free) if told else None,
                "launch_gap_ps": None if reached is None else start - reached,
                "starts_before_enqueue": early,
            }
            reached = max(span(row)[1], reached if reached is not None else span(row)[1])


def scheduling(run: Run) -> Iterator[Row]:
    """Overheads of launches by phase, time that hosts are blocked, and what they compile."""
    launched = grouped(launch_overhead(run), "phase")
    steps = [row for row in run.rows("phases") if row["source"] == "marker"]
    compiles = list(_compiles(run, steps))
    measured = any(row["phase"] in MARKED for row in steps)
    told = bool(run.rows("host_events")) or bool(steps)
    phases = {phase for (phase,) in launched} | {row["phase"] for row in steps}
    for phase in phases | {each["phase"] for each in compiles}:
        rows = launched.get((phase,), [])
        here = [each for each in compiles if each["phase"] == phase]
        found: Row = {
            "phase": phase,
            "launches": len(rows),
            "linked_launches": sum(row["enqueue_ps"] is not None for row in rows),
            "early_launches": sum(bool(row["starts_before_enqueue"]) for row in rows),
            "mean_host_blocked_ps": mean(_blocked(run, steps, phase)),
            "compiles": len(here) if told else None,
            "compile_ps": sum(each["length"] for each in here) if told else None,
            "recompiles": sum(each["late"] for each in here) if measured else None,
        }
        for name in ("queue", "dispatch", "launch_gap"):
            values = [row[f"{name}_ps"] for row in rows if row[f"{name}_ps"] is not None]
            found |= {
                f"mean_{name}_ps": mean(values),
                f"p50_{name}_ps": None if not values else math.floor(median(values)),
                f"p95_{name}_ps": rank(values, 0.95),
            }
        yield found


def _compiles(run: Run, steps: list[Row]) -> Iterator[Row]:
    """Each stretch of a host with its phase: that of the last marker opened there, if still open."""
    opened = min((row["start_ps"] for row in steps if row["phase"] in MARKED), default=None)
    for host, pieces in compiling(run).items():
        for start, end in pieces:
            before = [s for s in steps if s["host"] == host and s["start_ps"] <= start]
            last = max(before, key=lambda s: (s["start_ps"], -s["duration_ps"]), default=None)
            phase = last["phase"] if last and start < span(last)[1] else None
            late = opened is not None and start >= opened and phase != "warmup"
            yield {
                "phase": phase,
                "length": end - start,
                "late": late,
                "host": host,
                "start": start,
            }


def late_compiles(run: Run, steps: list[Row]) -> dict[tuple[Any, int], bool]:
    """(host, start) of each compile -> whether it comes after warm-up, by markers of measured steps."""
    return {(each["host"], each["start"]): each["late"] for each in _compiles(run, steps)}


def _blocked(run: Run, steps: list[Row], phase: Any) -> list[int]:
    """Of each marked step on a host: from its last enqueue to the end of marker or last launch."""
    found = []
    here = [row for row in steps if row["phase"] == phase]
    for (host, request, step), rows in grouped(here, "host", "request", "step").items():
        launches = [
            row
            for row in run.rows("launches")
            if run.devices[row["device_id"]]["host"] == host
            and (row["phase"], row["request"], row["step"]) == (phase, request, step)
        ]
        if launches and all(row["enqueue_ps"] is not None for row in launches):
            end = min(max(span(r)[1] for r in rows), max(span(r)[1] for r in launches))
            found.append(max(0, end - max(row["enqueue_ps"] for row in launches)))
    return found
