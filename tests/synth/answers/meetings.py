"""Answers of views about who comes late, and whose clock is off: every meeting of devices, one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from tests.synth.clocks import comparable
from tests.synth.describe import Run
from tests.synth.traffic import Row
from tests.synth.walk import schedule


@dataclass(frozen=True)
class Meeting:
    """An instance that several traced devices took part in: position -> how late it came."""

    late: dict[int, int]
    is_sync: bool
    kind: str


def meetings(run: Run) -> Iterator[Meeting]:
    """Every such instance."""
    for times in schedule(run):
        for _, visits in times.visits(run):
            for visit in visits:
                if visit.segment.what not in ("sync", "done"):
                    continue
                arrivals = visit.start_late if visit.segment.what == "done" else visit.late
                for _, _, seen in times.seen(run, visit):
                    late = {p: arrivals[p] for p in seen}
                    kind = visit.segment.transfer.kind
                    if len(seen) > 1 and comparable(run, seen):
                        meeting = Meeting(late, visit.segment.what == "sync", kind)
                        yield from [meeting] * times.per_step


def straggler(run: Run) -> list[Row]:
    """Rows of straggler_v2: every meeting counts whose clocks can be compared."""
    lags: dict[int, list[int]] = {p: [] for p in run.positions}
    waits: dict[int, list[int]] = {p: [] for p in run.positions}
    last: Counter[int] = Counter()
    for meeting in meetings(run):
        first, latest = min(meeting.late.values()), max(meeting.late.values())
        for position, late in meeting.late.items():
            lags[position].append(late - first)
            waits[position].append(latest - late)
            last[position] += late == latest > first
    return [
        {
            "device_id": run.devices[p],
            "instances": len(lags[p]),
            "last_count": last[p],
            "last_ratio": last[p] / len(lags[p]) if lags[p] else None,
            "mean_lag_ps": fmean(lags[p]) if lags[p] else None,
            "max_lag_ps": max(lags[p], default=None),
            "mean_wait_ps": fmean(waits[p]) if lags[p] else None,
        }
        for p in run.positions
    ]


def clock_offset(run: Run) -> list[Row]:
    """Rows of clock_offset_v1 where the hosts' clocks agree: no offset, no spread."""
    devices = Counter(map(run.host, run.positions))
    shared = [
        {run.host(p) for p in meeting.late}
        for meeting in meetings(run)
        if meeting.is_sync and meeting.kind != "collective-permute"
    ]
    shared = [hosts for hosts in shared if len(hosts) > 1]
    reference = min((min(hosts) for hosts in shared), default=None)
    reference = min(devices) if len(devices) == 1 else reference
    rows = []
    for host, count in devices.items():
        instances = sum({host, reference} <= hosts for hosts in shared)
        known = host == reference or instances > 0
        row: Row = {"host": f"host{host}", "devices": count, "instances": instances}
        row["reference_host"] = None if reference is None else f"host{reference}"
        row["offset_ps"] = 0 if known else None
        measured = host == reference or instances > 1
        row |= {"spread_ps": 0 if measured else None, "is_usable": True if measured else None}
        rows.append(row)
    return rows
