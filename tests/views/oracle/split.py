"""METRICS, Time split: what each instant of a step's window on a device belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tests.views.oracle.busy import length, runs_as, span, union
from tests.views.oracle.drawn import Row
from tests.views.oracle.reading import Run, grouped, mean, ratio

SUMS = ("window_ps", "compute_ps", "collective_ps", "overlapped_ps", "exposed_ps", "copy_ps",
        "exposed_copy_ps", "sync_wait_ps", "busy_ps", "idle_ps", "period_ps",
        "between_requests_ps")  # fmt: skip
Spans = list[tuple[int, int]]


def one_phase(rows: Iterable[Row]) -> str | None:
    """The phase of all; mixed where there are several."""
    found = {row["phase"] for row in rows} - {None}
    return "mixed" if len(found) > 1 else next(iter(found), None)


def windows(run: Run) -> Iterator[tuple[int, list[Row], int, int]]:
    """(device, ops, start, end) of each step, cut where the device's next one starts."""
    working = [op for op in run.rows("ops") if op["category"] != "control"]
    for (device,), ops in grouped(working, "device_id").items():
        in_steps = [op for op in ops if op["step"] is not None]
        steps = grouped(in_steps or ops, "request", "step").values()
        line = sorted(
            (min(op["start_ps"] for op in step), max(span(op)[1] for op in step), n, step)
            for n, step in enumerate(steps)
        )
        for number, (start, end, _, step) in enumerate(line):
            after = line[number + 1][0] if number + 1 < len(line) else end
            yield device, step, start, min(end, after)


def inside(spans: Iterable[tuple[int, int]], start: int, end: int) -> Spans:
    """The spans' parts within a window."""
    return [(max(a, start), min(b, end)) for a, b in spans if min(b, end) > max(a, start)]


def running(run: Run, device: int, step: list[Row], start: int, end: int) -> dict[str, Spans]:
    """What runs in a step's window, by category of busy intervals."""
    found: dict[str, Spans] = {name: [] for name in ("compute", "collective", "copy_running")}
    found["sync_wait"] = []
    for op in step:
        if runs_as(op):
            found[runs_as(op)].append(span(op))
    key = device, step[0]["request"], step[0]["step"]
    for row in run.collectives:
        if (row["device_id"], row["request"], row["step"]) == key:
            found["collective"].append(span(row))
    return {name: inside(spans, start, end) for name, spans in found.items()}


def open_requests(run: Run) -> Spans | None:
    """When any request is open; None in a run without markers of requests."""
    marks = [row for row in run.rows("phases") if row["source"] == "marker"]
    marks = [row for row in marks if row["request"] is not None]
    alone = [span(row) for row in marks if row["phase"] == "request"]
    spans = []
    for (request,), rows in grouped(marks, "request").items():
        ours = [span(row) for row in rows if row["phase"] != "request"]
        ends = [end for _, step, _, end in windows(run) if step[0]["request"] == request]
        if ours:
            last = max([end for _, end in ours] + ends)
            spans.append((min(start for start, _ in ours), last))
    return union(spans + alone) if marks else None


def periods(run: Run) -> dict[tuple[int, int, int], tuple[int, int]]:
    """(device, start, end) of a window -> its period, and the time before it with no request open."""
    found: dict[tuple[int, int, int], tuple[int, int]] = {}
    opened, ended = open_requests(run), dict[int, int]()
    for device, _, start, end in windows(run):
        before = ended.get(device, start)
        outside = 0 if opened is None else start - before - length(inside(opened, before, start))
        found[device, start, end] = end - before - outside, outside
        ended[device] = end
    return found


def device_time(run: Run) -> Iterator[Row]:
    """The split of each window."""
    of_window = periods(run)
    for device, step, start, end in windows(run):
        period, outside = of_window[device, start, end]
        spans = running(run, device, step, start, end)
        compute, transfer, copy, wait = (
            spans[name] for name in ("compute", "collective", "copy_running", "sync_wait")
        )
        with_transfer = length(compute + transfer)
        with_copy = length(compute + transfer + copy)
        with_wait = length(compute + transfer + copy + wait)
        yield {
            "device_id": device,
            "request": step[0]["request"],
            "step": step[0]["step"],
            "phase": one_phase(step),
            "core": run.devices[device]["core"],
            "inferred": run.devices[device]["inferred"],
            "start_ps": start,
            "window_ps": end - start,
            "compute_ps": length(compute),
            "collective_ps": length(transfer),
            "overlapped_ps": length(compute) + length(transfer) - with_transfer,
            "exposed_ps": with_transfer - length(compute),
            "copy_ps": length(copy),
            "exposed_copy_ps": with_copy - with_transfer,
            "sync_wait_ps": with_wait - with_copy,
            "busy_ps": with_copy,
            "idle_ps": end - start - with_wait,
            "period_ps": period,
            "between_requests_ps": outside,
        }


def on_cores(run: Run) -> list[Row]:
    """The split on all devices but SparseCores."""
    return [row for row in device_time(run) if not run.is_sparse(row["device_id"])]


def without(spans: Spans, start: int, end: int) -> Spans:
    """What is left of a time without the spans."""
    merged = union(inside(spans, start, end))
    edges = [start, *(edge for piece in merged for edge in piece), end]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]


def before_steps(run: Run) -> Iterator[tuple[int, list[Row], Spans]]:
    """(device, ops, idle time before) of each window: since the one before, a request being open."""
    opened, ended = open_requests(run), dict[int, int]()
    for device, step, start, end in windows(run):
        ran = [op for op in run.rows("ops") if op["device_id"] == device and op["step"] is None]
        spans = [span(op) for op in ran if runs_as(op)]
        free = without(spans, ended.get(device, start), start)
        if opened is not None:
            free = [piece for a, b in free for piece in inside(opened, a, b)]
        yield device, step, free
        ended[device] = end


def comm_compute(run: Run) -> Iterator[Row]:
    """Sums by phase."""
    waited: dict[str | None, int] = {}
    for device, step, free in before_steps(run):
        if not run.is_sparse(device):
            phase = one_phase(step)
            waited[phase] = waited.get(phase, 0) + length(free)
    for (phase,), rows in grouped(counted(run), "phase").items():
        sums = {name: sum(row[name] for row in rows) for name in SUMS}
        sums["between_steps_ps"] = waited.get(phase, 0)
        sums["outside_ps"] = sums["period_ps"] - sums["window_ps"] - waited.get(phase, 0)
        yield {
            "phase": phase,
            "device_steps": len(rows),
            "devices": len({row["device_id"] for row in rows}),
            **sums,
            "comm_compute_ratio": ratio(sums["collective_ps"], sums["compute_ps"]),
            "exposed_ratio": ratio(sums["exposed_ps"], sums["collective_ps"]),
            "idle_ratio": ratio(sums["idle_ps"] + waited.get(phase, 0), sums["period_ps"]),
            "idle_in_step_ratio": ratio(sums["idle_ps"], sums["window_ps"]),
        }


def counted(run: Run) -> list[Row]:
    """The split in steps, on all devices but SparseCores; outside every step only in a run without any."""
    rows = on_cores(run)
    return [row for row in rows if row["step"] is not None] or rows


def steps(run: Run) -> dict[tuple[Any, ...], list[Row]]:
    """(request, step) -> its devices' rows."""
    return grouped(counted(run), "request", "step")


def step_time(run: Run) -> Iterator[Row]:
    """Windows of a step over its devices, and the time to the start of the request's next."""
    starts = {key: min(row["start_ps"] for row in rows) for key, rows in steps(run).items()}
    for (request, step), rows in steps(run).items():
        longest = max(row["window_ps"] for row in rows)
        start = starts[request, step]
        here = (start, step)
        later = [
            s for (r, n), s in starts.items() if r == request and n is not None and (s, n) > here
        ]
        yield {
            "request": request,
            "step": step,
            "phase": one_phase(rows),
            "devices": len(rows),
            "inferred": any(row["inferred"] for row in rows),
            "start_ps": start,
            "span_ps": max(row["start_ps"] + row["window_ps"] for row in rows) - start,
            "longest_window_ps": longest,
            "longest_device_id": min(r["device_id"] for r in rows if r["window_ps"] == longest),
            "mean_window_ps": mean([row["window_ps"] for row in rows]),
            "start_to_start_ps": min(later) - start if later else None,
        }


def load_balance(run: Run) -> Iterator[Row]:
    """Busiest device / mean - 1."""
    for (request, step), rows in steps(run).items():
        found: Row = {"request": request, "step": step, "phase": one_phase(rows)}
        found |= {"devices": len(rows), "inferred": any(row["inferred"] for row in rows)}
        for kind, device, name in (
            ("busy", "busiest_device_id", "imbalance_ratio"),
            ("compute", "most_compute_device_id", "compute_imbalance_ratio"),
        ):
            times = [row[f"{kind}_ps"] for row in rows]
            most, average = max(times), mean(times)
            share = ratio(most, average)
            found |= {
                f"max_{kind}_ps": most,
                f"mean_{kind}_ps": average,
                device: min(row["device_id"] for row in rows if row[f"{kind}_ps"] == most),
                name: None if share is None else share - 1,
            }
        yield found


def sync_wait(run: Run) -> Iterator[Row]:
    """Time in barriers, by the axis of the collective that each stands directly before."""
    for device, step, start, end in windows(run):
        if run.is_sparse(device):
            continue
        key = device, step[0]["request"], step[0]["step"]
        before = {
            row["arrival_ps"]: row["axis"]
            for row in run.collectives
            if (row["device_id"], row["request"], row["step"]) == key
            and row["arrival_ps"] is not None
            and row["arrival_ps"] < row["start_ps"]
        }
        barriers = union(span(op) for op in step if runs_as(op) == "sync_wait")
        waits = [
            {"axis": before.get(opened), "ps": min(closed, end) - opened}
            for opened, closed in barriers
            if opened < end
        ]
        for (axis,), rows in grouped(waits, "axis").items():
            waited = sum(row["ps"] for row in rows)
            yield {
                "device_id": device,
                "request": step[0]["request"],
                "step": step[0]["step"],
                "axis": axis,
                "phase": one_phase(step),
                "wait_count": len(rows),
                "sync_wait_ps": waited,
                "window_ps": end - start,
                "sync_wait_ratio": ratio(waited, end - start),
            }
