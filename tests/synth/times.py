"""Closed forms of where time goes: the split of each step, latency; and of how many rows."""

from __future__ import annotations

from dataclasses import dataclass

from tests.synth.describe import DECODE, PREFILL, Run
from tests.synth.mesh import coordinate
from tests.synth.programs import Program
from tests.synth.traffic import Row
from tests.synth.walk import Visit, meeting_groups, schedule, step_numbers, walk

PARTS = ("compute", "collective", "overlapped", "copy", "exposed_copy", "sync_wait", "idle")


@dataclass
class Split:
    """Sums of one launch on a device, ps; `length` is from its first op to the end of its last."""

    compute: int = 0
    collective: int = 0
    overlapped: int = 0
    copy: int = 0
    exposed_copy: int = 0
    sync_wait: int = 0
    idle: int = 0
    length: int = 0

    def add(self, run: Run, visit: Visit, position: int, flying: int) -> None:
        """Count one segment; `flying` async collectives are in flight meanwhile."""
        what, stay, wait = visit.segment.what, visit.stay[position], visit.wait[position]
        pause = run.wait_ps if what == "sync" and run.barriers else 0
        self.length += stay + wait + pause
        self.sync_wait += wait
        if what == "compute":
            self.compute += stay
            self.overlapped += stay if flying else 0
        elif what.startswith("copy"):
            self.copy += stay
            self.exposed_copy += 0 if flying else stay
        if what in ("sync", "start", "done") or flying:
            self.collective += stay
        elif what == "idle":
            self.idle += stay
        self.idle += pause


def launch_split(run: Run, program: Program, position: int) -> Split:
    """The time split of one launch of a program on a device."""
    members = next(g for g in meeting_groups(run, program) if position in g)
    split, flying = Split(), 0
    for visit in walk(run, program, members):
        split.add(run, visit, position, flying)
        flying += {"start": 1, "done": -1}.get(visit.segment.what, 0)
    return split


def _stage_window(run: Run, phase: str, position: int) -> tuple[int, int]:
    """First op's start and last op's end of a stage in a step, ps after the step's start.

    A tick is the longest stage's launch and one handover, or two where stages both send and
    receive: then even stages hand over first. Stage s holds microbatch m in tick s + m.
    """
    ours = [times.program for times in schedule(run) if times.phase == phase]
    around = run.prologue_ps + run.epilogue_ps
    lengths = {
        program.stage: launch_split(run, program, program.positions[0]).length + around
        for program in ours
        if program.stage is not None
    }
    hop = next(program for program in ours if program.hop is not None)
    hop_length = launch_split(run, hop, hop.positions[0]).length + around
    compute, last = max(lengths.values()), run.size("pp") - 1
    tick = compute + hop_length * min(last, 2)
    stage = coordinate(run.mesh, position, "pp")

    def handover(leaving: int, microbatch: int) -> int:
        return (leaving + microbatch) * tick + compute + hop_length * (leaving % 2)

    first = handover(stage - 1, 0) if stage else 0
    final = run.microbatches - 1
    finish = (stage + final) * tick + lengths[stage]
    end = handover(stage, final) + hop_length if stage < last else finish
    return first + run.prologue_ps, end - run.epilogue_ps


def step_window(run: Run, phase: str, position: int) -> tuple[int, int]:
    """First op's start and last op's end of a step on a device, ps after the step's start."""
    if run.staged:
        return _stage_window(run, phase, position)
    program = next(times.program for times in schedule(run) if times.phase == phase)
    begin = run.offset(position) + run.prologue_ps
    return begin, begin + launch_split(run, program, position).length


def step_split(run: Run, phase: str, position: int) -> Row:
    """The time split of one step on a device, in the columns of device_time_v1."""
    begin, end = step_window(run, phase, position)
    row = dict.fromkeys((f"{part}_ps" for part in PARTS), 0)
    for times in schedule(run):
        if times.phase == phase and position in times.program.positions:
            split = launch_split(run, times.program, position)
            for part in PARTS:
                row[f"{part}_ps"] += times.per_step * getattr(split, part)
    row["window_ps"] = end - begin
    row["exposed_ps"] = row["collective_ps"] - row["overlapped_ps"]
    row["busy_ps"] = row["compute_ps"] + row["exposed_ps"] + row["exposed_copy_ps"]
    if run.staged:  # idle between launches too
        row["idle_ps"] = row["window_ps"] - row["busy_ps"] - row["sync_wait_ps"]
    return row


def device_time(run: Run) -> list[Row]:
    """Rows of device_time_v1 for every marked step."""
    return [
        {"device_id": run.devices[p], "request": request, "step": step, "phase": phase, **split}
        for phase in (PREFILL, DECODE)
        for p in run.positions
        for split in [step_split(run, phase, p)]
        for request, step in step_numbers(run, phase)
    ]


def _lengths(run: Run, phase: str, positions) -> int:
    return max(step_window(run, phase, p)[1] for p in positions)


def latency(run: Run) -> list[Row]:
    """Rows of latency_v1, in seconds."""
    everyone = range(len(run.devices))
    seen = {phase: _lengths(run, phase, run.positions) for phase in (PREFILL, DECODE)}
    whole = {phase: _lengths(run, phase, everyone) for phase in (PREFILL, DECODE)}
    rows, decodes = [], run.steps - 1
    for request in range(run.requests):
        gaps = run.host_gaps[request * run.steps :][:decodes].sum()
        ttft = run.dispatch_ps + seen[PREFILL]
        # From marker to marker: dispatch, the step, fetch and the host's gap.
        between = decodes * (run.dispatch_ps + run.fetch_ps) + int(gaps)
        between += whole[PREFILL] + (decodes - 1) * whole[DECODE] if decodes else 0
        decode = between - seen[PREFILL] + seen[DECODE] if decodes else 0
        e2e = (ttft + decode) * 1e-12
        rows.append(
            {
                "request": request,
                "ttft_s": ttft * 1e-12,
                "tpot_s": decode / decodes * 1e-12 if decodes else None,
                "e2e_s": e2e,
                "output_tokens_per_s": run.batch * run.output_tokens / e2e,
            }
        )
    return rows


def row_counts(run: Run) -> list[Row]:
    """Launches, ops and collectives that each traced device has."""
    rows = []
    for position in run.positions:
        row = {"device_id": run.devices[position], "launches": 0, "ops": 0, "collectives": 0}
        first = position == run.positions[0]
        for times in schedule(run):
            if position not in times.program.positions:
                continue
            whats = [segment.what for segment in times.segments]
            syncs, idles = whats.count("sync"), whats.count("idle") + whats.count("loop")
            events = len(whats) - idles + (2 * syncs if run.barriers else 0)
            events += whats.count("copy-done") if first else 0  # the async line of one device
            row["launches"] += times.count if times.phase else 0
            row["ops"] += times.count * events
            row["collectives"] += times.count * (syncs + whats.count("start"))
        row["launches"] += run.extra_launches if first else 0
        row["ops"] += run.extra_launches if first else 0
        row["ops"] += run.requests * run.steps  # the Steps line: control ops
        rows.append(row)
    return rows
