"""Answers of step time and scheduling views: one event after the other, from a plain simulation."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from math import floor
from statistics import fmean, median

from tests.synth.answers.meetings import clock_offset, straggler
from tests.synth.describe import STEP, Run
from tests.synth.host import ENQUEUE_EVERY_PS
from tests.synth.programs import Program, extra_program
from tests.synth.timeline import EXTRA_PERIOD, clock, launch_span, simulate, step_launches
from tests.synth.times import device_time
from tests.synth.traffic import Row
from tests.synth.write import processes

MEASURES = ("queue", "dispatch", "launch_gap")


@dataclass(frozen=True)
class Ran:
    """A launch on a device, ps after the first host's profile start."""

    position: int
    program: Program
    label: str | None  # None: outside every marker
    request: int | None
    step: int | None
    index: int | None  # of its pass
    base: int
    enqueue: int | None

    def span(self, run: Run) -> tuple[int, int]:
        """Start and end of the launch."""
        begin, end = launch_span(run, self.program, self.position)
        return self.base + begin, self.base + end

    def ops(self, run: Run) -> tuple[int, int]:
        """First op's start and last op's end, loops aside."""
        events = [e for e in simulate(run, self.program)[self.position] if e.op != "while"]
        return (
            self.base + min(e.start for e in events),
            self.base + max(e.start + e.duration for e in events),
        )


def ran(run: Run) -> Iterator[Ran]:
    """Every launch that a plane holds, of each device in order of start."""
    times = clock(run)
    for number in range(run.extra_launches):
        label, step = (None, None) if run.markers else (STEP, number)
        base = times.extra_start + number * EXTRA_PERIOD
        yield Ran(run.positions[0], extra_program(run), label, None, step, None, base, None)
    for each in run.passes:
        marker, start = int(times.marker_start[each.index]), int(times.step_start[each.index])
        for _, _, positions in processes(run):
            enqueue = marker
            for launch in step_launches(run, each.phase):
                for position in positions:
                    if position in launch.program.positions:
                        enqueue += ENQUEUE_EVERY_PS
                        at = each.label, each.request, each.step, each.index
                        base = start + launch.base
                        if run.saw(position, each.index):
                            yield Ran(position, launch.program, *at, base, enqueue)


def step_time(run: Run) -> list[Row]:
    """Rows of step_time_v1 that have a step."""
    windows: dict[tuple, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for each in ran(run):
        if each.step is not None:
            key = each.request, each.step, each.label
            windows[key][run.devices[each.position]] += each.ops(run)
    rows = []
    for (request, step, label), devices in windows.items():
        lengths = {device: max(found) - min(found) for device, found in devices.items()}
        longest = max(lengths.values())
        start = min(min(found) for found in devices.values())
        end = max(max(found) for found in devices.values())
        row = {"request": request, "step": step, "phase": label, "devices": len(devices)}
        row |= {"start": start, "span_ps": end - start, "longest_window_ps": longest}
        row |= {"longest_device_id": min(d for d, length in lengths.items() if length == longest)}
        rows.append(row | {"mean_window_ps": sum(lengths.values()) / len(lengths)})
    for row in rows:
        later = [o["start"] for o in rows if o["request"] == row["request"]]
        later = [start for start in later if start > row["start"]]
        row["start_to_start_ps"] = min(later) - row["start"] if later else None
    return rows


def load_balance(run: Run) -> list[Row]:
    """Rows of load_balance_v1 that have a step."""
    steps: dict[tuple, list[Row]] = defaultdict(list)
    for row in device_time(run):
        steps[row["request"], row["step"], row["phase"]].append(row)
    rows = []
    for (request, step, phase), devices in steps.items():
        row = {"request": request, "step": step, "phase": phase, "devices": len(devices)}
        names = ("busy", "busiest", "imbalance"), ("compute", "most_compute", "compute_imbalance")
        for part, device, ratio in names:
            values = {each["device_id"]: each[f"{part}_ps"] for each in devices}
            most, mean = max(values.values()), sum(values.values()) / len(values)
            row |= {f"max_{part}_ps": most, f"mean_{part}_ps": mean}
            row[f"{device}_device_id"] = min(d for d, value in values.items() if value == most)
            row[f"{ratio}_ratio"] = most / mean - 1
        rows.append(row)
    return rows


def launch_overhead(run: Run) -> list[Row]:
    """Rows of launch_overhead_v1."""
    devices: dict[int, list[Ran]] = defaultdict(list)
    for each in ran(run):
        devices[each.position].append(each)
    rows = []
    for position, launches in devices.items():
        free = None
        ordered = sorted(launches, key=lambda each: each.span(run))
        for number, each in enumerate(ordered):
            start, end = each.span(run)
            ready = [t for t in (each.enqueue, free) if t is not None]
            row = {"device_id": run.devices[position], "launch": number, "phase": each.label}
            row |= {"request": each.request, "step": each.step, "program_id": each.program.id}
            row["queue_ps"] = None if each.enqueue is None else start - each.enqueue
            row["dispatch_ps"] = None if each.enqueue is None else max(start - max(ready), 0)
            row["launch_gap_ps"] = None if free is None else start - free
            rows.append(row | {"duration_ps": end - start})
            free = end if free is None else max(end, free)
    return rows


def scheduling(run: Run) -> list[Row]:
    """Rows of scheduling_v2; nothing is compiled while the profiler runs."""
    rows, launches = [], launch_overhead(run)
    for phase in {each["phase"] for each in launches}:
        ours = [each for each in launches if each["phase"] == phase]
        row: Row = {"phase": phase, "launches": len(ours), "early_launches": 0}
        row["linked_launches"] = sum(each["queue_ps"] is not None for each in ours)
        for measure in MEASURES:
            values = sorted(
                each[f"{measure}_ps"] for each in ours if each[f"{measure}_ps"] is not None
            )
            row[f"mean_{measure}_ps"] = fmean(values) if values else None
            row[f"p50_{measure}_ps"] = floor(median(values)) if values else None
            row[f"p95_{measure}_ps"] = values[-(-19 * len(values) // 20) - 1] if values else None
        row["mean_host_blocked_ps"] = _blocked(run, phase)
        row |= {"compiles": 0, "compile_ps": 0, "recompiles": 0 if run.markers else None}
        rows.append(row)
    return rows


def _blocked(run: Run, phase: str | None) -> float | None:
    """Mean over hosts and steps of the time from the last enqueue to the step's end there."""
    steps: dict[tuple[int, int], list[Ran]] = defaultdict(list)
    for each in ran(run):
        if run.markers and each.index is not None and each.label == phase:
            steps[run.host(each.position), each.index].append(each)
    found = [
        min(max(each.span(run)[1] for each in ours), int(clock(run).marker_end[index]))
        - max(each.enqueue for each in ours if each.enqueue is not None)
        for (_, index), ours in steps.items()
    ]
    return fmean(found) if found else None


def times(run: Run) -> dict[str, list[Row]]:
    """All of these, by name."""
    return {
        "step_time": step_time(run),
        "load_balance": load_balance(run),
        "launch_overhead": launch_overhead(run),
        "scheduling": scheduling(run),
        "straggler": straggler(run),
        "clock_offset": clock_offset(run),
    }
