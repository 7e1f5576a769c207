"""The plane of one device: modules, ops, async copies, waits and steps of the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tests.synth.describe import DECODE, PREFILL, Run
from tests.synth.links import LINK_TYPE, link_ids, serials, step_chunks
from tests.synth.lower import Lowered
from tests.synth.planes import Line, Plane, Unsigned
from tests.synth.programs import Program, extra_program
from tests.synth.protos import CoreDetails
from tests.synth.segments import layer_cut
from tests.synth.timeline import (
    ASYNC,
    EXTRA_PERIOD,
    OPS,
    TRACE_ME,
    Placed,
    clock,
    launch_span,
    simulate,
    step_launches,
)
from tests.synth.varints import INT64, REFERENCE, UINT64, EventBatch, StatColumn

MODULES, STEPS = "XLA Modules", "Steps"
MOST_STEPS = 10_000  # above, no Steps line: it names each step
OWN_CLOCK_PS = 14_000_000  # how far the device's own clock is ahead; xprof goes by it
HEAD_AT = 3_000  # ps after the profile's start: first op of a launch under way
HLO_CATEGORIES = {"custom-call": "custom-call", "fusion": "loop fusion"}


def _metadata(run: Run, plane: Plane, program: Program, lowered: Lowered, op: str) -> int:
    key, instruction = f"{program.id}/{op}", lowered.ops[op]
    if key in plane.event_ids:
        return plane.event_ids[key]
    category = HLO_CATEGORIES.get(instruction.opcode, instruction.opcode)
    if instruction.calls.startswith("all-reduce-scatter"):
        category = "all-reduce-scatter fusion"
    rows = run.tokens(program.phase) if program.phase else 1
    known = instruction.opcode == "fusion" and category == "loop fusion"
    flops = 2 * rows * run.hidden**2 if known else 0  # 0 on a kernel means unknown
    moved = instruction.shape.bytes + sum(o.shape.bytes for o in instruction.operands)
    stats = {
        "hlo_category": category,
        "program_id": Unsigned(program.id),
        "symbol_id": Unsigned(len(plane.event_ids)),
        "flops": flops,
        "model_flops": flops,
        "bytes_accessed": moved,
        "raw_bytes_accessed": moved,
        "shape_with_layout": str(instruction.shape),
        "tf_op": f"{instruction.op_name}:",
    }
    return plane.event_id(key, instruction.text, op, stats)


@dataclass
class DeviceWriter:
    """Builds the plane of the device at one mesh position."""

    run: Run
    position: int
    lowered: dict[int, Lowered]
    plane: Plane
    done_ids: dict[int, int] = field(default_factory=dict)  # of async events: their done op's name
    reduce_ids: set[int] = field(default_factory=set)  # metadata of all-reduces

    @property
    def shift(self) -> int:
        """Profile start of its host, ps: subtracted from every time."""
        return self.run.start_ns(self.run.host(self.position)) * 1000

    @property
    def missed(self) -> int:
        """Passes that its plane lacks."""
        return self.run.missed[self.position] if self.run.missed else 0

    def kept(self, program: Program, line: str, cut: slice | None = None) -> list[Placed]:
        """Events of a launch on a line; of a cut launch, those of the segments in the profile."""
        if self.position not in program.positions:
            return []
        events = [e for e in simulate(self.run, program)[self.position] if e.line == line]
        if cut is None:
            return events
        return [e for e in events if cut.start <= e.index < cut.stop]

    def event_id(self, program: Program, event: Placed) -> int:
        """Metadata id of an op, or of a wait."""
        if event.line == TRACE_ME:
            return self.plane.event_id(event.op, event.op)
        number = _metadata(self.run, self.plane, program, self.lowered[program.id], event.op)
        if event.line == OPS:
            if self.lowered[program.id].ops[event.op].opcode == "all-reduce":
                self.reduce_ids.add(number)
            return number
        text = self.lowered[program.id].ops[event.op].text
        stats = {"hlo_category": "copy-start", "program_id": Unsigned(program.id)}
        number = self.plane.event_id(f"async {program.id}/{event.op}", text, "async-copy", stats)
        self.done_ids[number] = self.plane.stat_id(event.op.replace("-start", "-done"))
        return number

    def batch(self, line: str, ids: np.ndarray, offsets, durations, bases=None) -> EventBatch:
        """Events with the stats of their line, once or after each base."""
        starts, durations = np.asarray(offsets) - self.shift, np.asarray(durations)
        stats: list[StatColumn] = []
        if line == OPS:
            moves = bases is not None
            number = self.plane.stat_id("device_offset_ps")
            stats.append(StatColumn(number, UINT64, starts + OWN_CLOCK_PS, moves=moves))
            stats.append(StatColumn(self.plane.stat_id("device_duration_ps"), UINT64, durations))
            # The profiler's own pairing, which does not always pair devices.
            reduces = np.isin(ids, list(self.reduce_ids))
            unique = np.cumsum(reduces) << 16 | 1
            stats.append(
                StatColumn(self.plane.stat_id("all_reduce_unique_id"), UINT64, unique, reduces)
            )
        if line == ASYNC:
            done = np.array([self.done_ids[number] for number in ids.tolist()])
            stats.append(StatColumn(self.plane.stat_id("hlo_op"), REFERENCE, done))
        return EventBatch(ids, starts, durations, tuple(stats), bases)

    def ops(self, line: str) -> Iterator[EventBatch]:
        """Events of the op lines, the cut launches at both ends included."""
        times = clock(self.run)
        yield from self.head(line)
        templates = {phase: self.template(line, phase) for phase in (PREFILL, DECODE)}
        for phase, steps in step_chunks(self.run, len(templates[DECODE][0]), self.missed):
            ids, starts, durations = templates[phase]
            if len(ids):
                yield self.batch(line, ids, starts, durations, times.step_start[steps])
        if self.run.tail_layers:
            program = step_launches(self.run, DECODE)[0].program
            cut = layer_cut(self.run, self.run.tail_layers, from_start=True)
            yield from self.partial(program, line, cut, times.tail_start)

    def template(self, line: str, phase: str) -> tuple[np.ndarray, ...]:
        """Ids, starts after the step's start, and durations of one step's events, by start."""
        rows = [
            (launch.base + event.start, self.event_id(launch.program, event), event.duration)
            for launch in step_launches(self.run, phase)
            for event in self.kept(launch.program, line)
        ]
        starts, ids, durations = np.array(sorted(rows), dtype=np.int64).reshape(-1, 3).T
        return ids, starts, durations

    def head(self, line: str) -> Iterator[EventBatch]:
        """What ran before the first request: a launch under way, and the extra launches."""
        run = self.run
        if run.head_layers:
            program = step_launches(run, DECODE)[0].program
            cut = layer_cut(run, run.head_layers, from_start=False)
            first = min(e.start for e in self.kept(program, OPS, cut))
            yield from self.partial(program, line, cut, HEAD_AT - first)
        if run.extra_launches and self.position == run.positions[0]:
            program = extra_program(run)
            for number in range(run.extra_launches):
                base = clock(run).extra_start + number * EXTRA_PERIOD
                yield from self.partial(program, line, slice(0, 1), base)

    def partial(self, program: Program, line: str, cut: slice, base: int) -> Iterator[EventBatch]:
        """A cut launch's events on a line."""
        events = self.kept(program, line, cut)
        if events:
            ids = np.array([self.event_id(program, event) for event in events])
            starts = np.array([base + event.start for event in events])
            yield self.batch(line, ids, starts, [event.duration for event in events])

    def module_batch(self, program: Program, starts: np.ndarray, numbers: np.ndarray) -> EventBatch:
        """Module events of a program's launches."""
        begin, end = launch_span(self.run, program, self.position)
        number, count = self.plane.event_id(program.label, program.label), len(starts)
        columns = {"run_id": (UINT64, numbers), "replica_id": (INT64, 0), "queue_id": (UINT64, 0)}
        columns |= {"core_type": (UINT64, 0), "_ct": (INT64, LINK_TYPE)}
        columns |= {"_c": (INT64, link_ids(numbers))}
        stats = tuple(
            StatColumn(self.plane.stat_id(name), tag, np.broadcast_to(np.asarray(value), count))
            for name, (tag, value) in columns.items()
        )
        durations = np.full(count, end - begin)
        return EventBatch(np.full(count, number), starts + begin - self.shift, durations, stats)

    def modules(self) -> Iterator[EventBatch]:
        """Launches; a launch that the profile cut has none."""
        run, times = self.run, clock(self.run)
        if run.extra_launches and self.position == run.positions[0]:
            numbers = np.arange(run.extra_launches)
            base = times.extra_start + numbers * EXTRA_PERIOD
            yield self.module_batch(extra_program(run), base, (1 << 40) + numbers)
        for phase, steps in step_chunks(run, 1, self.missed):
            # Steps of several launches are written one by one, to keep the line in order.
            several = len(self.own_launches(phase)) > 1
            for part in steps.reshape(-1, 1) if several else [steps]:
                for number, launch in self.own_launches(phase):
                    base = times.step_start[part] + launch.base
                    numbers = serials(run, self.position, part, number)
                    yield self.module_batch(launch.program, base, numbers)

    def own_launches(self, phase: str):
        """(number, launch) of the step's launches that this device takes part in."""
        launches = enumerate(step_launches(self.run, phase))
        return [(k, launch) for k, launch in launches if self.position in launch.program.positions]

    def steps(self) -> Iterator[EventBatch]:
        """The Steps line: an event from each step's first launch to its last."""
        for phase, steps in step_chunks(self.run, 1, self.missed):
            spans = [
                (launch.base + begin, launch.base + end)
                for _, launch in self.own_launches(phase)
                for begin, end in [launch_span(self.run, launch.program, self.position)]
            ]
            begin, end = min(s for s, _ in spans), max(e for _, e in spans)
            ids = np.array([self.plane.event_id(f"step {step}", str(step)) for step in steps])
            starts = clock(self.run).step_start[steps] + begin - self.shift
            yield EventBatch(ids, starts, np.full(len(steps), end - begin))


def device_plane(run: Run, position: int, lowered: dict[int, Lowered], number: int) -> Plane:
    """The plane of a device."""
    local, device = run.local(position), run.devices[position]
    core = CoreDetails(device_ordinal=local, local_chip_id=local)
    core.global_chip_id = core.global_core_id = device
    plane = Plane(number, f"/device:TPU:{local}")
    plane.stats = {
        "core_details": core.SerializeToString(),
        "device_type_string": "TPU v6 Lite",
        "peak_teraflops_per_second": 918.0,
        "peak_hbm_bw_gigabytes_per_second": 1637.993152512,
        "has_megacore": 0,
        "has_merged_vmem": 1,
    }
    writer = DeviceWriter(run, position, lowered, plane)
    plane.lines = [Line(2, MODULES, writer.modules), Line(3, OPS, lambda: writer.ops(OPS))]
    # As in real files, only the first device's async line is filled.
    asynchronous = (lambda: writer.ops(ASYNC)) if position == run.positions[0] else tuple
    plane.lines += [Line(4, ASYNC, asynchronous), Line(7, "Overlay")]
    plane.lines.append(Line(6, TRACE_ME, lambda: writer.ops(TRACE_ME)))
    if len(run.passes) <= MOST_STEPS:
        plane.lines.append(Line(1, STEPS, writer.steps))
    return plane
