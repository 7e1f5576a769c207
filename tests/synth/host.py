"""The planes that are not a device's: markers and enqueues, the programs' HLO, the profile's times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.synth.describe import DECODE, PREFILL, Run
from tests.synth.links import CHUNK, LINK_TYPE, link_ids, serials
from tests.synth.lower import Lowered, hlo_proto
from tests.synth.planes import Line, Plane, Unsigned
from tests.synth.programs import Program
from tests.synth.timeline import clock, step_launches
from tests.synth.varints import INT64, EventBatch, StatColumn

EPOCH_NS = 1_741_722_099_081_044_120  # profile start of the first host
WORLD_NS = 7_919  # from one world's start to the next one's
LINE_NS = 1_042  # host lines have a small timestamp of their own
ENQUEUE_PS, ENQUEUE_EVERY_PS = 21_000, 50_000
REQUEST_LEAD_PS = 1_000_000  # a request's marker starts before its prefill's


def _marker_batch(run: Run, plane: Plane, shift: int, first: int) -> EventBatch:
    """One request's markers: the request itself, its prefill, its decode steps."""
    times, count = clock(run), run.steps
    steps = slice(first, first + count)
    start = np.concatenate(
        ([times.marker_start[first] - REQUEST_LEAD_PS], times.marker_start[steps])
    )
    end = np.concatenate(([times.marker_end[first + count - 1] + 1], times.marker_end[steps]))
    labels = [each.label for each in run.passes[first : first + count]]
    names = ["xlahouse.request", *(f"xlahouse.{label}" for label in labels)]
    ids = np.array([plane.event_id(name, name) for name in names])
    step_num = np.concatenate(([0], np.arange(count)))
    request = np.full(count + 1, max(run.passes[first].request, 0))
    values = {"_r": np.ones(count + 1, dtype=np.int64), "request": request, "step_num": step_num}
    stats = tuple(StatColumn(plane.stat_id(name), INT64, v) for name, v in values.items())
    return EventBatch(ids, start - shift, end - start, stats)


def _enqueues(run: Run, plane: Plane, positions: list[int], shift: int) -> Iterator[EventBatch]:
    """An enqueue for each launch of each of the process' devices, early in the step's marker."""
    number = plane.event_id("DoEnqueueProgram", "DoEnqueueProgram")
    pairs = {
        phase: [
            (k, position)
            for k, launch in enumerate(step_launches(run, phase))
            for position in positions
            if position in launch.program.positions
        ]
        for phase in (PREFILL, DECODE)
    }
    starts = [(each.index, each.phase) for each in run.passes]
    most = max(1, CHUNK // max(len(pairs[DECODE]), 1))
    for first in range(0, len(starts), most):
        rows = [
            (clock(run).marker_start[step] + ENQUEUE_EVERY_PS * (at + 1), position, step, k)
            for step, phase in starts[first : first + most]
            for at, (k, position) in enumerate(pairs[phase])
        ]
        when, position, step, launch = np.array(rows, dtype=np.int64).T
        numbers = [serials(run, *row) for row in zip(position, step, launch, strict=True)]
        linked = link_ids(np.array(numbers))
        kinds = np.full(len(rows), LINK_TYPE)
        stats = (
            StatColumn(plane.stat_id("_pt"), INT64, kinds),
            StatColumn(plane.stat_id("_p"), INT64, linked),
        )
        ids, durations = np.full(len(rows), number), np.full(len(rows), ENQUEUE_PS)
        yield EventBatch(ids, when - shift, durations, stats)


def host_plane(run: Run, host: int, positions: list[int], number: int) -> Plane:
    """`/host:CPU` of a process."""
    plane = Plane(number, "/host:CPU")
    shift = run.start_ns(host) * 1000 + LINE_NS * 1000
    firsts = range(0, len(run.passes) if run.markers else 0, run.steps)

    def markers() -> Iterator[EventBatch]:
        return (_marker_batch(run, plane, shift, first) for first in firsts)

    def enqueues() -> Iterator[EventBatch]:
        return _enqueues(run, plane, positions, shift)

    plane.lines = [
        Line(100, "python 100", markers, LINE_NS),
        Line(101, "tfrt-non-blocking-queue/101", enqueues, LINE_NS),
    ]
    return plane


def metadata_plane(run: Run, programs: list[Program], lowered: dict[int, Lowered]) -> Plane:
    """`/host:metadata`: the HLO of each program, under its signed fingerprint as older files do, or
    counted with the id as a stat as newer ones do."""
    plane = Plane(0, "/host:metadata")
    plane.event_id("map", "XLA_HLO_MODULE_ID_MAP:11395383671578897891", stats={"symbol_id": 20})
    for count, program in enumerate(programs, start=2):
        stats: dict = {"Hlo Proto": hlo_proto(run, program, lowered[program.id])}
        signed = program.id - (1 << 64) if program.id >> 63 else program.id
        if run.counted_programs:
            stats["program_id"] = Unsigned(program.id)
        number = count if run.counted_programs else signed
        plane.event_id(program.label, program.label, stats=stats, number=number)
    return plane


def environment_plane(run: Run, host: int, world: int) -> Plane:
    """`Task Environment`: when the profile started and stopped, UNIX ns; worlds start one by one."""
    plane = Plane(0, "Task Environment")
    start = EPOCH_NS + run.start_ns(host) + world * WORLD_NS
    stop = EPOCH_NS + -(-clock(run).end // 1000) + world * WORLD_NS
    plane.stats = {"profile_start_time": Unsigned(start), "profile_stop_time": Unsigned(stop)}
    return plane
