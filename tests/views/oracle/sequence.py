"""METRICS, Intervals: gaps, bursts and windows between transfers, and bytes over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.views.oracle.drawn import Row
from tests.views.oracle.reading import (
    Run,
    grouped,
    mean,
    middle,
    rank,
    ratio,
    steps_launched,
    total,
)

DELAYS = (10**6, 10**7, 10**8, 10**9, 10**10)


def traffic_interval(run: Run) -> Iterator[Row]:
    """Gaps to the latest end so far, by device and axis."""
    for rows in grouped(run.collectives, "device_id", "axis").values():
        reached = before = None
        for row in sorted(rows, key=_order):
            gap = None if reached is None else row["start_ps"] - reached
            names = ("device_id", "axis", "kind", "program_id", "op", "instance", "phase", "request",
                     "step", "start_ps", "duration_ps")  # fmt: skip
            yield {
                **{name: row[name] for name in names},
                "gap_ps": gap,
                "crosses_launch": None if before is None else before["launch"] != row["launch"],
            }
            reached = max(reached or row["end_ps"], row["end_ps"])
            before = row


def _order(row: Row) -> tuple[Any, ...]:
    return row["start_ps"], row["end_ps"], row["op"]


def traffic_interval_summary(run: Run) -> Iterator[Row]:
    """Gaps by axis and the later transfer's phase."""
    gaps = [row for row in traffic_interval(run) if row["gap_ps"] is not None]
    for (axis, phase), rows in grouped(gaps, "axis", "phase").items():
        yield {
            "axis": axis,
            "phase": phase,
            "count": len(rows),
            "crossing_count": sum(bool(row["crosses_launch"]) for row in rows),
            "overlapping_count": sum(row["gap_ps"] < 0 for row in rows),
            **spread([row["gap_ps"] for row in rows]),
        }


def spread(values: list[int]) -> Row:
    """Mean, percentiles and extremes."""
    found = {"p50_ps": middle(values), "p95_ps": rank(values, 0.95), "p99_ps": rank(values, 0.99)}
    return {"mean_ps": mean(values), **found, "min_ps": min(values), "max_ps": max(values)}


def moving(run: Run) -> list[Row]:
    """Collectives that move something between devices.

    Groups of one move nothing, nor does a device that is in no pair of a permute: S is 0 there.
    """
    there = [row for row in run.collectives if row["axis"] != "none" and row["group_size"] != 1]
    return [row for row in there if row["group_index"] is not None or row["payload_bytes"] != 0]


def _lines(run: Run) -> Iterator[tuple[str, int | None, list[Row]]]:
    """(scope, device or set of peers or rail, transfers in their order)."""
    found = moving(run)
    lines: dict[tuple[str, int | None], list[Row]] = defaultdict(list)
    for row in found:
        lines["device", row["device_id"]].append(row)
    for rows in _instances(found):
        whole = _instance(rows)
        lines["run", None].append(whole)
        devices = [run.devices[row["device_id"]] for row in rows]
        for place in {peers(run, device["device_id"]) for device in devices} - {None}:
            lines["group", place].append(whole)
        if len({device["host"] for device in devices} - {None}) > 1:
            for rail in {device["local_ordinal"] for device in devices} - {None}:
                lines["rail", rail].append(whole)
    for (scope, member), rows in lines.items():
        yield scope, member, sorted(rows, key=_order)


def peers(run: Run, device: int) -> int | None:
    """Place in the mesh of the first device with the same coordinates on the data axes."""
    if run.devices[device]["inferred"] or device not in run.places:
        return None
    found, stride = 0, 1
    for axis, size in reversed(run.axes):
        found += run.places[device][axis] * stride if axis in ("dp", "data", "fsdp") else 0
        stride *= size
    return found


def member_of(scope: str, member: int | None) -> Row:
    """The columns that name a scope and its member."""
    names = {"device_id": "device", "group_id": "group", "rail_id": "rail"}
    return {"scope": scope} | {k: member if scope == own else None for k, own in names.items()}


def _instances(rows: list[Row]) -> Iterator[list[Row]]:
    for (instance,), members in grouped(rows, "instance").items():
        yield from [members] if instance is not None else [[row] for row in members]


def _instance(rows: list[Row]) -> Row:
    first = min(rows, key=lambda row: row["device_id"])
    end = max(row["end_ps"] for row in rows)
    sizes = [row["payload_bytes"] for row in rows if row["payload_bytes"] is not None]
    return {
        "op": first["op"],
        "axis": first["axis"],
        "phase": first["phase"],
        "start_ps": min(row["start_ps"] for row in rows),
        "end_ps": end,
        "payload_bytes": max(sizes) if len(sizes) == len(rows) else None,
        "wire": total(row["wire"] for row in rows),
    }


def bursts(run: Run) -> Iterator[tuple[str, int | None, list[Row]]]:
    """(scope, member, bursts) of each line of transfers."""
    for scope, member, rows in _lines(run):
        merged: list[list[Row]] = []
        for row in rows:
            if merged and merged[-1][0]["axis"] == row["axis"]:
                merged[-1].append(row)
            else:
                merged.append([row])
        found = [
            {
                **member_of(scope, member),
                "burst_index": index,
                "axis": part[0]["axis"],
                "phase": part[0]["phase"],
                "start_ps": part[0]["start_ps"],
                "end_ps": max(row["end_ps"] for row in part),
                "count": len(part),
                "payload_bytes": total(row["payload_bytes"] for row in part),
                "bytes": total(row["wire"] for row in part),
            }
            for index, part in enumerate(merged)
        ]
        yield scope, member, found


def traffic_burst(run: Run) -> Iterator[Row]:
    """All bursts."""
    for _, _, found in bursts(run):
        yield from found


def traffic_window(run: Run) -> Iterator[Row]:
    """From the end of a burst to the start of the next."""
    for scope, member, found in bursts(run):
        for before, after in pairwise(found):
            yield {
                **member_of(scope, member),
                "burst_index": after["burst_index"],
                "from_axis": before["axis"],
                "to_axis": after["axis"],
                "phase": after["phase"],
                "start_ps": after["start_ps"],
                "window_ps": after["start_ps"] - before["end_ps"],
                "next_count": after["count"],
                "next_payload_bytes": after["payload_bytes"],
                "next_bytes": after["bytes"],
            }


def traffic_window_summary(run: Run) -> Iterator[Row]:
    """Windows by transition and the later burst's phase."""
    key = ("scope", "from_axis", "to_axis", "phase")
    for values, rows in grouped(traffic_window(run), *key).items():
        yield {
            **dict(zip(key, values, strict=True)),
            "count": len(rows),
            **spread([row["window_ps"] for row in rows]),
            "next_bytes": total(row["next_bytes"] for row in rows),
        }


def reconfiguration_fit(run: Run) -> Iterator[Row]:
    """Windows at least as long as each delay."""
    key = ("scope", "from_axis", "to_axis")
    for values, rows in grouped(traffic_window(run), *key).items():
        for delay in DELAYS:
            fitting = [row for row in rows if row["window_ps"] >= delay]
            yield {
                **dict(zip(key, values, strict=True)),
                "delay_ps": delay,
                "count": len(rows),
                "fitting_count": len(fitting),
                "fit_ratio": ratio(len(fitting), len(rows)),
                "fitting_bytes": total(row["next_bytes"] for row in fitting) if fitting else 0,
                "next_bytes": total(row["next_bytes"] for row in rows),
            }


def reconfiguration_cost(run: Run) -> Iterator[Row]:
    """Each change's delay, as far as it fits into its window and beyond."""
    key = ("scope", "device_id", "group_id", "rail_id", "phase")
    for values, rows in grouped(traffic_window(run), *key).items():
        steps = steps_launched(run, values[-1])
        for delay in DELAYS:
            hidden = sum(min(max(row["window_ps"], 0), delay) for row in rows)
            exposed = sum(delay - min(max(row["window_ps"], 0), delay) for row in rows)
            yield {
                **dict(zip(key, values, strict=True)),
                "delay_ps": delay,
                "step_count": steps,
                "change_count": len(rows),
                "exposed_change_count": sum(row["window_ps"] < delay for row in rows),
                "changes_per_step": ratio(len(rows), steps),
                "hidden_ps": hidden,
                "exposed_ps": exposed,
                "hidden_ratio": ratio(hidden, hidden + exposed),
                "step_exposed_ps": ratio(exposed, steps),
            }


def traffic_timeline(run: Run) -> Iterator[Row]:
    """Wire bytes spread over bins of the smallest width of 1, 2, 5, 10, … ps that gives at most 500."""
    sending = [row for row in run.collectives if row["wire"] != 0]
    if not sending:
        return
    begin = min(row["start_ps"] for row in sending)
    span = max(row["end_ps"] for row in sending) - begin
    width = next(w for w in _widths() if -(-span // w) <= 500)
    count = max(1, -(-span // width))
    for axis in {row["axis"] for row in sending}:
        bins: list[float | None] = [0.0] * count
        for row in sending:
            if row["axis"] == axis:
                _spread_out(row, begin, width, bins)
        for index, sent in enumerate(bins):
            yield {
                "axis": axis,
                "bin_index": index,
                "start_ps": begin + index * width,
                "duration_ps": width,
                "bytes": sent,
            }


def _widths() -> Iterator[int]:
    for power in range(19):
        yield from (10**power, 2 * 10**power, 5 * 10**power)


def _spread_out(row: Row, begin: int, width: int, bins: list[float | None]) -> None:
    start, end = row["start_ps"] - begin, row["end_ps"] - begin
    first = min(start // width, len(bins) - 1)
    last = max(first, (end - 1) // width) if end > start else first
    for index in range(first, last + 1):
        held = min(end, (index + 1) * width) - max(start, index * width)
        share = held / (end - start) if end > start else 1.0
        known = bins[index] is not None and row["wire"] is not None
        bins[index] = bins[index] + row["wire"] * share if known else None
