"""Answers of attribution and efficiency views: sums over a plain simulation of each program's ops."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.synth.describe import STEP, WARMUP, Run
from tests.synth.periods import timed
from tests.synth.programs import extra_program
from tests.synth.segments import Segment
from tests.synth.summaries import comm_compute
from tests.synth.timeline import ASYNC, TRACE_ME, Placed, launch_span, simulate
from tests.synth.traffic import Row
from tests.synth.walk import Times, schedule

PEAK_FLOPS = 918e12  # of a TPU v6e
KERNELS = "attention_kernel"  # custom calls, of whose cost the compiler knows nothing
CATEGORIES = {
    "compute": "compute",
    "copy-start": "copy",
    "copy-done": "copy",
    "end-loop": "control",
}


@dataclass(frozen=True)
class Executed:
    """An event that a device's plane holds `count` times under the label of `times`."""

    times: Times
    position: int
    count: int
    event: Placed
    segment: Segment

    @property
    def category(self) -> str:
        """As in the table ops, copies to the host taken together with the others."""
        if self.event.line == TRACE_ME:
            return "wait"
        return CATEGORIES.get(self.segment.what, "collective")


def _times(run: Run) -> Iterator[Times]:
    yield from schedule(run)
    if run.extra_launches and not run.markers:  # then they are steps too
        yield Times(extra_program(run), STEP, run.extra_launches)


def executed(run: Run) -> Iterator[Executed]:
    """Every event of the op lines on every traced device; the async line shows copies once more."""
    for times in _times(run):
        first, last, _ = times.cut.indices(len(times.program.segments))
        extra = times.program.phase is None
        positions = run.positions[:1] if extra else times.program.positions
        for position in filter(run.traced, positions):
            for event in simulate(run, times.program)[position]:
                if event.line != ASYNC and first <= event.index < last:
                    segment = times.program.segments[event.index]
                    count = times.count(run, position)
                    yield Executed(times, position, count, event, segment)


def flops(run: Run, each: Executed) -> int | None:
    """Of one execution: fusions multiply [tokens, hidden] by a square; kernels are unknown."""
    if each.category != "compute":
        return 0
    if each.event.op.startswith(KERNELS):
        return None
    phase = each.times.program.phase
    return 2 * (run.tokens(phase) if phase else 1) * run.hidden**2


def mfu(run: Run) -> list[Row]:
    """Rows of mfu_v2 of the marked phases (or of the steps without markers).

    The model's FLOPs are not known: its architecture has no name.
    """
    found, periods = [], defaultdict(int)
    for row in timed(run):
        periods[row["phase"]] += row["period_ps"]
    for phase in comm_compute(run):
        ours = [
            each
            for each in executed(run)
            if each.times.label == phase["phase"] and each.category == "compute" and each.count
        ]
        known = [flops(run, each) for each in ours]
        total = sum(f * e.count for e, f in zip(ours, known, strict=True) if f is not None)
        unknown_ps = sum(
            e.event.duration * e.count for e, f in zip(ours, known, strict=True) if f is None
        )
        available = PEAK_FLOPS * periods[phase["phase"]] / 1e12
        share = 1 - unknown_ps / phase["busy_ps"]
        found.append(
            {
                "phase": phase["phase"],
                "device_steps": phase["device_steps"],
                "period_ps": periods[phase["phase"]],
                "window_ps": phase["window_ps"],
                "busy_ps": phase["busy_ps"],
                "model_flops": None,
                "mfu_ratio": None,
                "compiled_flops": float(total),
                "available_flops": available,
                "flops_known_ratio": share,
                "hfu_ratio": total / available if share >= 0.95 else None,
            }
        )
    return found


def _summed(run: Run, keys: Callable[[Executed], dict]) -> list[Row]:
    """Executions and time by what `keys` gives, under a label."""
    sums: dict[tuple, list[int]] = defaultdict(lambda: [0, 0])
    names: tuple[str, ...] = ()
    for each in executed(run):
        if each.times.label is not None and each.count and each.category != "control":
            key = keys(each)
            names = tuple(key)
            total = sums[tuple(key.values())]
            total[0] += each.count
            total[1] += each.count * each.event.duration
    return [
        dict(zip(names, key, strict=True)) | {"executions": total[0], "self_ps": total[1]}
        for key, total in sums.items()
    ]


def category_time(run: Run) -> list[Row]:
    """Self time by phase and category, control ops (which hold others) aside."""
    return _summed(run, lambda each: {"phase": each.times.label, "category": each.category})


def layer_time(run: Run) -> list[Row]:
    """Self time of compute ops by phase, layer and component."""
    rows = _summed(
        run,
        lambda each: {
            "phase": each.times.label,
            "layer": each.segment.layer,
            "component": each.segment.component,
            "category": each.category,
        },
    )
    return [row for row in rows if row["category"] == "compute"]


def module_launches(run: Run) -> list[Row]:
    """Launches of each program by phase, and their durations, over devices."""
    sums: dict[tuple, list[int]] = defaultdict(lambda: [0, 0])
    for times in schedule(run):
        for position in filter(run.traced, times.program.positions):
            count = times.count(run, position)
            if times.label is not None and count:
                begin, end = launch_span(run, times.program, position)
                total = sums[times.label, times.program.id]
                total[0] += count
                total[1] += count * (end - begin)
    return [
        {"phase": phase, "program_id": program, "launches": total[0], "launch_ps": total[1]}
        for (phase, program), total in sums.items()
    ]


def roofline(run: Run) -> list[Row]:
    """Compute ops and synchronous collectives of roofline_v2, of the run's own programs."""
    sums: dict[tuple, list] = defaultdict(lambda: [0, 0, set(), 0])
    for each in executed(run):
        own = each.times.program.phase is not None and each.times.label != WARMUP
        told = each.segment.what in ("compute", "sync") and each.category != "wait"
        if own and told and each.count:
            total = sums[each.times.program.id, each.event.op, each.category]
            total[0] += each.count
            total[1] += each.count * each.event.duration
            total[2].add(each.position)
            cost = flops(run, each)
            total[3] = None if cost is None else total[3] + cost * each.count
    return [
        {
            "program_id": program,
            "op": op,
            "category": category,
            "executions": count,
            "observed_ps": observed,
            "devices": len(devices),
            "flops": None if cost is None else float(cost),
            "math_ps": None if cost is None else cost / PEAK_FLOPS * 1e12,
        }
        for (program, op, category), (count, observed, devices, cost) in sums.items()
    ]


def efficiency(run: Run) -> dict[str, list[Row]]:
    """All of these, by name."""
    return {
        "mfu": mfu(run),
        "category_time": category_time(run),
        "layer_time": layer_time(run),
        "module_launches": module_launches(run),
        "roofline": roofline(run),
    }
