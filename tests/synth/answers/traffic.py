"""Answers of views about the time between transfers, and about how long they take: naive, row by row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import count, groupby, pairwise
from statistics import fmean
from typing import Any

from tests.synth.describe import Run
from tests.synth.mesh import coordinate
from tests.synth.traffic import Row, middle
from tests.synth.transfers import Moved, moved

LINE = ("scope", "device_id", "group_id", "rail_id")
DELAYS_PS = tuple(10**power for power in range(6, 11))


def together(items: Iterable, key: Callable) -> dict[Any, list]:
    """Items by their key."""
    found: dict[Any, list] = defaultdict(list)
    for item in items:
        found[key(item)].append(item)
    return found


def percentile(values: list, percent: int) -> float:
    """The value of row ceil(p n), from 1."""
    return sorted(values)[-(-percent * len(values) // 100) - 1]


def _spread(values: list[int]) -> Row:
    row: Row = {"count": len(values), "mean_ps": fmean(values)}
    row |= {"min_ps": min(values), "max_ps": max(values)}
    row["p50_ps"] = middle(values)
    return row | {f"p{p}_ps": percentile(values, p) for p in (95, 99)}


def traffic_interval(run: Run) -> list[Row]:
    """Rows of traffic_interval_v1."""
    rows = []
    for (device, axis), ours in together(moved(run), lambda m: (m.device, m.axis)).items():
        ours.sort(key=lambda m: (m.start, m.end, m.op))
        for number, each in enumerate(ours):
            before = ours[:number]
            row: Row = {"device_id": device, "axis": axis, "kind": each.kind, "op": each.op}
            row |= {"phase": each.phase, "duration_ps": each.end - each.start}
            row |= {"gap_ps": None, "crosses_launch": None}
            if before:
                row["gap_ps"] = each.start - max(m.end for m in before)
                if None not in (each.launch, before[-1].launch):
                    row["crosses_launch"] = each.launch != before[-1].launch
            rows.append(row)
    return rows


def traffic_interval_summary(run: Run) -> list[Row]:
    """Rows of traffic_interval_summary_v2."""
    gaps = [row for row in traffic_interval(run) if row["gap_ps"] is not None]
    rows = []
    for (axis, phase), ours in together(gaps, lambda r: (r["axis"], r["phase"])).items():
        row = {"axis": axis, "phase": phase, **_spread([r["gap_ps"] for r in ours])}
        row["crossing_count"] = sum(r["crosses_launch"] is True for r in ours)
        rows.append(row | {"overlapping_count": sum(r["gap_ps"] < 0 for r in ours)})
    return rows


def _instance(members: list[Moved]) -> Moved:
    """What a transfer is to the run: from its first start to its last end."""
    first = members[0]
    return Moved(
        device=-1,
        axis=first.axis,
        kind=first.kind,
        op=first.op,
        phase=first.phase,
        launch=first.launch,
        instance=first.instance,
        start=min(m.start for m in members),
        end=max(m.end for m in members),
        payload=max(m.payload for m in members),
        wire=sum(m.wire for m in members),
    )


def _sweeps(run: Run) -> Iterator[tuple[Row, list[Moved]]]:
    """(scope and its member, transfers in order)."""
    lines: dict[tuple[str, int | None], list[Moved]] = defaultdict(list)
    place = {device: position for position, device in enumerate(run.devices)}
    for each in moved(run):
        lines["device", each.device].append(each)
    for members in together(moved(run), lambda m: m.instance).values():
        whole = _instance(members)
        lines["run", None].append(whole)
        positions = [place[m.device] for m in members]
        for first in {_first_peer(run, position) for position in positions}:
            lines["group", first].append(whole)
        if len({run.host(position) for position in positions}) > 1:
            share = len(run.devices) // run.hosts
            for rail in {run.devices[position] % share for position in positions}:
                lines["rail", rail].append(whole)
    for (scope, member), ours in lines.items():
        row: Row = {"scope": scope}
        for own in ("device", "group", "rail"):
            row[f"{own}_id"] = member if scope == own else None
        yield row, sorted(ours, key=lambda m: (m.start, m.end, m.op, m.axis))


def _first_peer(run: Run, position: int) -> int:
    """The first mesh position with the same coordinates on the data axes."""
    data = [axis for axis, _ in run.mesh if axis in ("dp", "data", "fsdp")]
    return min(
        other
        for other in range(len(run.devices))
        if all(
            coordinate(run.mesh, other, axis) == coordinate(run.mesh, position, axis)
            for axis in data
        )
    )


def traffic_burst(run: Run) -> list[Row]:
    """Rows of traffic_burst_v2; start and end are ps after the first host's profile start."""
    return [
        {
            **line,
            "burst_index": number,
            "axis": axis,
            "phase": burst[0].phase,
            "start": burst[0].start,
            "end": max(m.end for m in burst),
            "length_ps": max(m.end for m in burst) - burst[0].start,
            "count": len(burst),
            "payload_bytes": sum(m.payload for m in burst),
            "bytes": sum(m.wire for m in burst),
        }
        for line, ours in _sweeps(run)
        for number, (axis, burst) in enumerate(
            (axis, list(burst)) for axis, burst in groupby(ours, lambda m: m.axis)
        )
    ]


def traffic_window(run: Run) -> list[Row]:
    """Rows of traffic_window_v2."""
    bursts = together(traffic_burst(run), lambda r: tuple(r[name] for name in LINE))
    return [
        {
            **{name: after[name] for name in LINE},
            "burst_index": after["burst_index"],
            "from_axis": before["axis"],
            "to_axis": after["axis"],
            "phase": after["phase"],
            "window_ps": after["start"] - before["end"],
            "next_count": after["count"],
            "next_payload_bytes": after["payload_bytes"],
            "next_bytes": after["bytes"],
        }
        for ours in bursts.values()
        for before, after in pairwise(ours)
    ]


def traffic_window_summary(run: Run) -> list[Row]:
    """Rows of traffic_window_summary_v2."""
    names = ("scope", "from_axis", "to_axis", "phase")
    found = together(traffic_window(run), lambda r: tuple(r[name] for name in names))
    return [
        {
            **dict(zip(names, key, strict=True)),
            **_spread([r["window_ps"] for r in ours]),
            "next_bytes": float(sum(r["next_bytes"] for r in ours)),
        }
        for key, ours in found.items()
    ]


def reconfiguration_fit(run: Run) -> list[Row]:
    """Rows of reconfiguration_fit_v2."""
    names = ("scope", "from_axis", "to_axis")
    rows = []
    for key, ours in together(
        traffic_window(run), lambda r: tuple(r[name] for name in names)
    ).items():
        for delay in DELAYS_PS:
            fit = [r for r in ours if r["window_ps"] >= delay]
            row = {**dict(zip(names, key, strict=True)), "delay_ps": delay, "count": len(ours)}
            row |= {"fitting_count": len(fit), "fit_ratio": len(fit) / len(ours)}
            row["fitting_bytes"] = float(sum(r["next_bytes"] for r in fit))
            rows.append(row | {"next_bytes": float(sum(r["next_bytes"] for r in ours))})
    return rows


def traffic_timeline(run: Run) -> list[Row]:
    """Rows of traffic_timeline_v1: each transfer is dealt out to the bins it is in flight in."""
    sent = [m for m in moved(run) if m.wire]
    if not sent:
        return []
    first = min(m.start for m in sent)
    span = max(m.end for m in sent) - first
    width = next(w for w in _widths() if -(-span // w) <= 500)
    bins = {axis: [0.0] * -(-span // width) for axis in {m.axis for m in sent}}
    for each in sent:
        begin, end = each.start - first, each.end - first
        for number in range(begin // width, (end - 1) // width + 1):
            inside = min(end, (number + 1) * width) - max(begin, number * width)
            bins[each.axis][number] += each.wire * inside / (end - begin)
    return [
        {"axis": axis, "bin_index": number, "duration_ps": width, "bytes": value}
        for axis, values in bins.items()
        for number, value in enumerate(values)
    ]


def _widths() -> Iterator[int]:
    """1, 2, 5, 10, 20, …"""
    return (step * 10**power for power in count() for step in (1, 2, 5))


def traffic(run: Run) -> dict[str, list[Row]]:
    """All of these, by name."""
    return {
        "traffic_interval": traffic_interval(run),
        "traffic_interval_summary": traffic_interval_summary(run),
        "traffic_burst": traffic_burst(run),
        "traffic_window": traffic_window(run),
        "traffic_window_summary": traffic_window_summary(run),
        "reconfiguration_fit": reconfiguration_fit(run),
        "traffic_timeline": traffic_timeline(run),
    }
