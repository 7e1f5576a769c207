"""Closed forms of where time goes: the split of each step, latency; and of how many rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tests.synth.describe import DECODE, PREFILL, STEP, Run
from tests.synth.host import REQUEST_LEAD_PS
from tests.synth.mesh import coordinate
from tests.synth.programs import Program, extra_program, programs
from tests.synth.traffic import Row
from tests.synth.walk import Visit, meeting_groups, schedule, walk

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
    ours = [program for program in programs(run) if program.phase == phase]
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


@lru_cache(maxsize=512)
def step_window(run: Run, phase: str, position: int) -> tuple[int, int]:
    """First op's start and last op's end of a step on a device, ps after the step's start."""
    if run.staged:
        return _stage_window(run, phase, position)
    program = next(program for program in programs(run) if program.phase == phase)
    begin = run.offset(position) + run.prologue_ps
    return begin, begin + launch_split(run, program, position).length


def step_split(run: Run, phase: str, position: int) -> Row:
    """The time split of one step on a device, in the columns of device_time_v1."""
    begin, end = step_window(run, phase, position)
    row = dict.fromkeys((f"{part}_ps" for part in PARTS), 0)
    for program in programs(run):
        if program.phase == phase and position in program.positions:
            split = launch_split(run, program, position)
            for part in PARTS:
                launches = run.microbatches if run.staged else 1
                row[f"{part}_ps"] += launches * getattr(split, part)
    row["window_ps"] = end - begin
    row["exposed_ps"] = row["collective_ps"] - row["overlapped_ps"]
    row["busy_ps"] = row["compute_ps"] + row["exposed_ps"] + row["exposed_copy_ps"]
    if run.staged:  # idle between launches too
        row["idle_ps"] = row["window_ps"] - row["busy_ps"] - row["sync_wait_ps"]
    return row


def device_time(run: Run) -> list[Row]:
    """Rows of device_time_v1 for every step."""
    rows = []
    for position in run.positions:
        splits = {phase: step_split(run, phase, position) for phase in (PREFILL, DECODE)}
        for each in run.passes:
            if run.saw(position, each.index):
                at = {"request": each.request, "step": each.step, "phase": each.label}
                rows.append({"device_id": run.devices[position], **at, **splits[each.phase]})
    return rows + ([] if run.markers else _extra_steps(run))


def _extra_steps(run: Run) -> list[Row]:
    """Without markers the extra launches are steps too; each is one compute op."""
    length = extra_program(run).segments[0].ps
    names = (*(f"{part}_ps" for part in PARTS), "exposed_ps")
    row = {**dict.fromkeys(names, 0), "device_id": run.devices[run.positions[0]]}
    row |= {"window_ps": length, "compute_ps": length, "busy_ps": length}
    row |= {"request": None, "phase": STEP}
    return [{**row, "step": step} for step in range(run.extra_launches)]


def step_end(run: Run, phase: str, positions) -> int:
    """End of a step's last op on some devices, ps after the step's start."""
    return max(step_window(run, phase, p)[1] for p in positions)


def marker_to_marker(run: Run, index: int) -> int:
    """From a pass' marker to the next one's: dispatch, the step, fetch and the host's gap."""
    length = step_end(run, run.passes[index].phase, range(len(run.devices)))
    return run.dispatch_ps + length + run.fetch_ps + int(run.host_gaps[index])


def latency(run: Run) -> list[Row]:
    """Rows of latency_v3, in seconds."""
    if not run.markers:
        return [_unmarked_latency(run)]
    rows, decodes = [], run.steps - 1
    for request in range(run.requests):
        first = (request + run.warmup) * run.steps
        seen = {
            each.index: step_end(
                run, each.phase, [p for p in run.positions if run.saw(p, each.index)]
            )
            for each in (run.passes[first], run.passes[first + decodes])
        }
        ttft = run.dispatch_ps + seen[first]
        between = sum(marker_to_marker(run, first + k) for k in range(decodes))
        decode = between - seen[first] + seen[first + decodes]
        e2e = (ttft + decode) / 1e12
        rows.append(
            {
                "request": request,
                "source": "marker",
                "queue_s": REQUEST_LEAD_PS / 1e12,
                "ttft_s": ttft / 1e12,
                "request_ttft_s": (REQUEST_LEAD_PS + ttft) / 1e12,
                "tpot_s": decode / decodes / 1e12 if decodes else None,
                "e2e_s": e2e,
                "output_tokens_per_s": run.batch * run.output_tokens / e2e,
                "launch_period_s": None,
            }
        )
    return rows


def _unmarked_latency(run: Run) -> Row:
    """The period of the most-launched program, decode: mean distance of its launches' ends."""
    decodes = [each.index for each in run.passes if each.phase == DECODE]
    between = sum(marker_to_marker(run, k) for k in range(decodes[0], decodes[-1]))
    names = ("request", "queue_s", "ttft_s", "request_ttft_s", "tpot_s", "e2e_s")
    unknown = dict.fromkeys((*names, "output_tokens_per_s"))
    period = between / (len(decodes) - 1) / 1e12
    return {**unknown, "source": "module", "launch_period_s": period}


def row_counts(run: Run) -> list[Row]:
    """Launches, ops and collectives that each traced device has."""
    rows = []
    for position in run.positions:
        row = {"device_id": run.devices[position], "launches": 0, "ops": 0, "collectives": 0}
        first = position == run.positions[0]
        for times in schedule(run):
            if position not in times.program.positions:
                continue
            whats, count = [s.what for s in times.segments], times.count(run, position)
            syncs, silent = whats.count("sync"), whats.count("idle") + whats.count("loop")
            events = len(whats) - silent + (2 * syncs if run.barriers else 0)
            events += whats.count("copy-done") if first else 0  # the async line of one device
            row["launches"] += count if times.passes else 0
            row["ops"] += count * events
            row["collectives"] += count * (syncs + whats.count("start"))
        row["launches"] += run.extra_launches if first else 0
        row["ops"] += run.extra_launches if first else 0
        # The Steps line: control ops.
        row["ops"] += sum(run.saw(position, each.index) for each in run.passes)
        rows.append(row)
    return rows
