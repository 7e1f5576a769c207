"""Answers of idle gaps, bubbles and waits, summed over what each device does in its steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache

from tests.synth.clocks import comparable
from tests.synth.describe import DATA_AXES, Run
from tests.synth.lanes import SHORT_PS, Span, gaps, lane
from tests.synth.mesh import coordinate
from tests.synth.periods import extra_windows
from tests.synth.timeline import clock
from tests.synth.times import device_time
from tests.synth.traffic import Row

CAUSES = ("device", "host", "imbalance", "pipeline", "unattributed", "between_steps")


def _data_place(run: Run, position: int) -> tuple[int, ...]:
    return tuple(coordinate(run.mesh, position, axis) for axis in run.axes if axis in DATA_AXES)


@lru_cache(maxsize=512)
def _step_gaps(run: Run, phase: str, position: int, seen: tuple[int, ...]) -> list[Counter]:
    place = _data_place(run, position)
    peers = tuple(p for p in seen if _data_place(run, p) == place)
    found = gaps(run, phase, position, peers)
    if comparable(run, [p for p in run.positions if _data_place(run, p) == place]):
        return found
    short = [causes.total() < SHORT_PS for causes in found]
    return [
        causes if is_short else Counter(unattributed=causes.total())
        for causes, is_short in zip(found, short, strict=True)
    ]


@dataclass(frozen=True)
class Step:
    """A step's window on a device, its gaps, and how long nothing of any step ran before it."""

    at: Row
    window: Span
    gaps: list[Counter]
    before: int
    fill_drain: int
    masked: int | None


def steps(run: Run) -> list[Step]:
    """Every step of every traced device, in order of time on each."""
    found = []
    times = clock(run)
    for position in run.positions:
        end: int | None = None
        for _, step, window in extra_windows(run, position):
            at = _at(run, position, None, step)
            found.append(Step(at, window, [], 0 if end is None else window[0] - end, 0, 0))
            end = window[1]
        for each in run.passes:
            if not run.saw(position, each.index):
                continue
            seen = tuple(p for p in run.positions if run.saw(p, each.index))
            base, (first, last) = (
                int(times.step_start[each.index]),
                lane(run, each.phase, position).window,
            )
            window = base + first, base + last
            at = _at(run, position, each.request, each.step)
            before = 0 if end is None else window[0] - end
            outside = _fill_drain(run, each.phase, position, seen)
            masked = _masked(run, each.phase, position, seen)
            parts = _step_gaps(run, each.phase, position, seen)
            found.append(Step(at, window, parts, before, outside, masked))
            end = window[1]
    return found


def _at(run: Run, position: int, request: int | None, step: int) -> Row:
    return {"device_id": run.devices[position], "request": request, "step": step}


def _fill_drain(run: Run, phase: str, position: int, seen: tuple[int, ...]) -> int:
    """How long the step is under way on other stages before its own begins and after it ends."""
    if run.size("pp") == 1:
        return 0
    place, stage = _data_place(run, position), coordinate(run.mesh, position, "pp")
    peers = [p for p in seen if _data_place(run, p) == place]
    windows = [lane(run, phase, p).window for p in peers]
    own = [lane(run, phase, p).window for p in peers if coordinate(run.mesh, p, "pp") == stage]
    begun = min(start for start, _ in own) - min(start for start, _ in windows)
    return begun + max(end for _, end in windows) - max(end for _, end in own)


def _masked(run: Run, phase: str, position: int, seen: tuple[int, ...]) -> int | None:
    """Compute of empty ticks where the manifest has the schedule, else the ideal share."""
    stages = run.size("pp")
    if stages == 1:
        return 0
    if run.scheduled_ticks:
        return lane(run, phase, position).masked
    traced = len({coordinate(run.mesh, p, "pp") for p in seen})
    if run.staged:
        return 0 if traced > 1 else None
    if traced < stages:
        return None
    compute = _compute(run)[run.devices[position], phase]
    return round(compute * (stages - 1) / (run.microbatches + stages - 1))


@lru_cache(maxsize=64)
def _compute(run: Run) -> dict[tuple[int, str], int]:
    phases = {(each.request, each.step): each.phase for each in run.passes}
    return {
        (row["device_id"], phases[row["request"], row["step"]]): row["compute_ps"]
        for row in device_time(run)
        if (row["request"], row["step"]) in phases
    }


def bubble(run: Run) -> list[Row]:
    """Rows of bubble_v1."""
    rows = []
    for step in steps(run):
        sums = sum(step.gaps, Counter()) + Counter(between_steps=step.before)
        for cause in CAUSES:
            ours = cause == "pipeline"
            row = {"cause": cause, "idle_ps": sums[cause], "fill_drain_ps": 0, "masked_ps": 0}
            row["window_ps"] = step.window[1] - step.window[0]
            if ours:
                row |= {"fill_drain_ps": step.fill_drain, "masked_ps": step.masked}
            rows.append(step.at | row)
    return rows


def idle_gap(run: Run) -> list[Row]:
    """Rows of idle_gap_v1, without where they start."""
    rows = []
    for step in steps(run):
        parts = [*step.gaps, Counter(between_steps=step.before)]
        for causes in parts:
            if causes.total() >= SHORT_PS:
                row = {f"{cause}_ps": causes[cause] for cause in CAUSES}
                rows.append(step.at | row | {"duration_ps": causes.total()})
    return rows


def sync_wait(run: Run) -> list[Row]:
    """Rows of sync_wait_v1."""
    rows: dict[tuple, list[int]] = defaultdict(list)
    for position in run.positions:
        for each in run.passes:
            if run.saw(position, each.index):
                key = run.devices[position], each.request, each.step
                for axis, length in lane(run, each.phase, position).waits:
                    rows[*key, axis].append(length)
    names = ("device_id", "request", "step", "axis")
    return [
        dict(zip(names, key, strict=True)) | {"wait_count": len(v), "sync_wait_ps": sum(v)}
        for key, v in rows.items()
    ]


def idleness(run: Run) -> dict[str, list[Row]]:
    """View -> its rows."""
    return {"bubble": bubble(run), "idle_gap": idle_gap(run), "sync_wait": sync_wait(run)}
