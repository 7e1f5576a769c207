"""Answers of views about who comes late, and whose clock is off: every meeting of devices, one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from tests.synth.clocks import Clock, clock_of, comparable
from tests.synth.describe import Run
from tests.synth.traffic import Row, middle
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
    """Rows of clock_offset_v2, but for what ingest measured: the devices, instances and skews of a clock."""
    devices = Counter(clock_of(run, p) for p in run.positions)
    shared: dict[Clock, list[int]] = {clock: [] for clock in devices}
    for meeting in meetings(run):
        clocks = {clock_of(run, p) for p in meeting.late}
        if meeting.is_sync and meeting.kind != "collective-permute" and len(clocks) > 1:
            skew = max(meeting.late.values()) - min(meeting.late.values())
            for clock in clocks:
                shared[clock].append(skew)
    return [
        {
            "devices": count,
            "instances": len(shared[clock]),
            "median_skew_ps": middle(shared[clock]) if shared[clock] else None,
        }
        for clock, count in devices.items()
    ]
