"""METRICS, Idle: which device waits for whom, one instant after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from tests.views.oracle.busy import length, span, union
from tests.views.oracle.drawn import Row
from tests.views.oracle.reading import Run, ratio
from tests.views.oracle.split import (
    Spans,
    before_steps,
    inside,
    one_phase,
    periods,
    running,
    windows,
    without,
)

SHORT_PS = 100_000
# Of equals the first is the cause of a gap.
CAUSES = ("imbalance", "pipeline", "device", "host", "unattributed", "between_steps")
DATA_AXES = ("dp", "data", "fsdp")


@dataclass(frozen=True)
class Window:
    """A step's window on a device."""

    run: Run
    device: int
    ops: list[Row]
    start: int
    end: int

    @cached_property
    def step(self) -> tuple[Any, Any]:
        """(request, step)."""
        return self.ops[0]["request"], self.ops[0]["step"]

    @cached_property
    def split(self) -> dict[str, Spans]:
        """What runs, by category."""
        return running(self.run, self.device, self.ops, self.start, self.end)

    @cached_property
    def busy(self) -> Spans:
        """When anything of the step runs."""
        return union(piece for spans in self.split.values() for piece in spans)

    @cached_property
    def idle(self) -> Spans:
        """When nothing does."""
        return without(self.busy, self.start, self.end)

    @cached_property
    def launches(self) -> list[Row]:
        """Launches of the step on the device."""
        rows = self.run.rows("launches")
        mine = [row for row in rows if row["device_id"] == self.device]
        return [row for row in mine if (row["request"], row["step"]) == self.step]

    @property
    def key(self) -> Row:
        """The key of the window's rows."""
        return {
            "device_id": self.device, "request": self.step[0], "step": self.step[1],
            "phase": one_phase(self.ops),
        }  # fmt: skip


class Idle:
    """The windows of a run and who is whose peer."""

    def __init__(self, run: Run) -> None:
        self.run = run
        found = [Window(run, *each) for each in windows(run)]
        self.windows = [window for window in found if not run.is_sparse(window.device)]

    def data_place(self, device: int) -> Any:
        """What peers have in common; a deduced device is alone."""
        if self.run.devices[device]["inferred"]:
            return device
        place = self.run.places.get(device)
        return place and tuple((a, at) for a, at in place.items() if a in DATA_AXES)

    def stage(self, device: int) -> int:
        """Coordinate on pp."""
        return self.run.places[device].get("pp", 0)

    def others(self, window: Window) -> list[Window]:
        """Windows of the same step on the device's peers; on all others without coordinates."""
        place = self.data_place(window.device)
        return [
            other
            for other in self.windows
            if other.device != window.device
            and other.step == window.step
            and self.data_place(other.device) == place
        ]

    def knows(self, device: int) -> bool:
        """Whether it is known who is a peer."""
        return bool(self.run.devices[device]["inferred"] or self.run.places)

    def has_launches(self, device: int) -> bool:
        """Whether the trace holds launches of the device."""
        return any(row["device_id"] == device for row in self.run.rows("launches"))

    def causes(self, window: Window, start: int, end: int) -> dict[str, int]:
        """The time of a gap by cause."""
        found = dict.fromkeys(CAUSES, 0)
        others = self.others(window)
        opened = union(span(row) for row in window.launches)
        launched = self.has_launches(window.device)
        marks = {start, end} | {m for w in others for piece in w.busy for m in piece}
        marks |= {m for piece in opened for m in piece}
        for a, b in pairwise(sorted(m for m in marks if start <= m <= end)):
            busy = [w for w in others if any(s <= a < e for s, e in w.busy)]
            if busy and not self.knows(window.device):
                cause = "unattributed"
            elif busy:
                stages = {self.stage(w.device) for w in busy}
                cause = "imbalance" if self.stage(window.device) in stages else "pipeline"
            elif not launched:
                cause = "unattributed"
            else:
                cause = "device" if any(s <= a < e for s, e in opened) else "host"
            found[cause] += b - a
        return found


def idle_gap(run: Run) -> Iterator[Row]:
    """Gaps of 100 ns and more."""
    found = Idle(run)
    free = {
        (device, ops[0]["request"], ops[0]["step"]): spans
        for device, ops, spans in before_steps(run)
    }
    for window in found.windows:
        gaps = [(gap, found.causes(window, *gap)) for gap in window.idle]
        between = dict.fromkeys(CAUSES, 0)
        gaps += [
            ((a, b), {**between, "between_steps": b - a})
            for a, b in free[window.device, *window.step]
        ]
        for (start, end), causes in gaps:
            if end - start >= SHORT_PS:
                yield {
                    **window.key,
                    "start_ps": start,
                    "duration_ps": end - start,
                    "cause": max(CAUSES, key=lambda cause: causes[cause]),
                    **{f"{cause}_ps": causes[cause] for cause in CAUSES},
                }


def bubble(run: Run) -> Iterator[Row]:
    """Idle time of each window by cause, and what a pipeline costs."""
    found, of_window = Idle(run), periods(run)
    free = {
        (device, ops[0]["request"], ops[0]["step"]): spans
        for device, ops, spans in before_steps(run)
    }
    for window in found.windows:
        sums = dict.fromkeys(CAUSES, 0)
        for start, end in window.idle:
            short = end - start < SHORT_PS
            parts = {"device": end - start} if short else found.causes(window, start, end)
            for cause, part in parts.items():
                sums[cause] += part
        sums["between_steps"] = length(free[window.device, *window.step])
        period, outside = of_window[window.device, window.start, window.end]
        inferred = run.devices[window.device]["inferred"]
        launched = found.has_launches(window.device)
        for cause in CAUSES:
            hidden = inferred and cause in (
                ("imbalance", "pipeline", "unattributed") if launched else ("imbalance", "pipeline")
            )
            idle = None if hidden else sums[cause]
            yield {
                **window.key,
                "cause": cause,
                "idle_ps": idle,
                "window_ps": window.end - window.start,
                "period_ps": period,
                "between_requests_ps": outside,
                "bubble_ratio": ratio(idle, period),
                **(_pipeline(found, window, idle, free) if cause == "pipeline" else NO_PIPELINE),
            }


NO_PIPELINE = {
    "masked_ps": 0, "masked_source": None, "fill_drain_ps": 0, "pipeline_ratio": None,
    "ideal_ratio": None,
}  # fmt: skip
MASKED = {
    "none": (0, "no_pipeline"), "separate": (0, "separate_stages"),
    "stacked": (None, "no_tick_markers"), "unknown": (None, "unknown_pipeline"),
}  # fmt: skip


def _pipeline(
    found: Idle, window: Window, idle: int | None, free: dict[tuple[Any, ...], Spans]
) -> Row:
    """What the row pipeline says beside its idle time; no ticks are drawn."""
    run, size = found.run, window.end - window.start
    stages = dict(run.axes).get("pp", 1)
    batches = run.facts["microbatches"]
    ideal = None
    if run.places and (stages == 1 or batches is not None):
        ideal = 0 if stages == 1 else (stages - 1) / (batches + stages - 1)
    kind = _kind(found, window, stages)
    masked, source = MASKED[kind]
    fill = 0 if kind in ("none", "stacked") else None
    if kind == "separate" and not run.devices[window.device]["inferred"]:
        fill = _fill_drain(found, window, free)
    cost = None if None in (idle, masked, fill) else idle + masked + fill
    return {
        "masked_ps": masked,
        "masked_source": source,
        "fill_drain_ps": fill,
        "pipeline_ratio": ratio(cost, size + (fill or 0)),
        "ideal_ratio": ideal,
    }


def _kind(found: Idle, window: Window, stages: int) -> str:
    """Whether stages are stacked: by the manifest's ticks, else each has a program of its own."""
    if not found.run.places or stages == 1:
        return "none" if found.run.places else "unknown"
    manifest = found.run.facts["manifest"]
    if manifest is not None:
        return "stacked" if json.loads(manifest).get("tick_microbatch") else "separate"
    programs: dict[Any, set[int]] = {}
    for row in found.run.rows("launches"):
        if (row["request"], row["step"]) == window.step:
            programs.setdefault(row["program_id"], set()).add(found.stage(row["device_id"]))
    own = {next(iter(on)) for on in programs.values() if len(on) == 1}
    traced = {found.stage(each.device) for each in found.windows if each.step == window.step}
    return "separate" if len(own) == len(traced) > 1 else "unknown"


def _fill_drain(found: Idle, window: Window, free: dict[tuple[Any, ...], Spans]) -> int:
    """Idle time next to the window in which the step is under way on peers."""
    line = [w for w in found.windows if w.device == window.device]
    place = line.index(window)
    begun, over = _under_way(found, window)
    if place:
        earlier = max(_under_way(found, line[place - 1])[1], begun)
        before = length(inside(free[window.device, *window.step], earlier, window.start))
    else:
        before = window.start - begun
    if place + 1 < len(line):
        then = line[place + 1]
        return before + length(inside(free[then.device, *then.step], window.end, over))
    return before + over - window.end


def _under_way(found: Idle, window: Window) -> tuple[int, int]:
    peers = [window, *found.others(window)]
    return min(w.start for w in peers), max(w.end for w in peers)
