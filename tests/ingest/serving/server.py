"""Traces of a server, written from a list of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.ingest.build import PlaneBuilder, space

START_NS = 1_741_722_099_081_044_120  # when all profiles started, UNIX time
LINK = 12  # type of the links between enqueues and launches


@dataclass(frozen=True)
class Served:
    """A step: what its marker states, and when its program ran."""

    start_ps: int
    duration_ps: int
    tokens: int
    ids: Sequence[str | int] = ()
    requests: int | None = None  # None: as many as ids
    ran: tuple[int, int] | None = None  # start, duration on the device; None: lost
    marked: bool = True  # False: the marker is lost
    more: dict[str, int] = field(default_factory=dict)  # further stats
    thread: str = "engine"
    enqueued_by: str | None = None  # None: the marker's thread

    @property
    def name(self) -> str:
        count = len(self.ids) if self.requests is None else self.requests
        return f"execute_model: {count} reqs, {self.tokens} toks"


def trace(
    steps: Sequence[Served], host: str = "h", device: int = 0, linked: bool = True, events=()
) -> bytes:
    """A file of one process with one device. events: (name, start, duration, stats) on the host."""
    core = b"\x28" + bytes([device]) + b"\x30" + bytes([device])
    plane, threads = (
        PlaneBuilder(f"/device:TPU:{device}", core_details=core),
        PlaneBuilder("/host:CPU"),
    )
    modules, ops, lines = plane.line("XLA Modules"), plane.line("XLA Ops"), {}

    def line(name):
        return (
            lines.setdefault(name, None) or lines.update({name: threads.line(name)}) or lines[name]
        )

    for number, step in enumerate(steps):
        if step.marked:
            stats = {f"request_id{place}": value for place, value in enumerate(step.ids, 1)}
            threads.event(
                line(step.thread), step.name, step.start_ps, step.duration_ps, **stats, **step.more
            )
        if step.ran is None:
            continue
        start, duration = step.ran
        stats = {"_ct": LINK, "_c": 500 + number} if linked else {}
        plane.event(modules, "jit_step(77)", start, duration, **stats)
        plane.event(ops, "%fusion.1 = f32[8]{0} fusion()", start, duration)
        if linked:
            by = line(step.enqueued_by or step.thread)
            threads.event(by, "Enqueue", step.start_ps + 1, 1, _pt=LINK, _p=500 + number)
    for name, start, duration, stats in events:
        threads.event(line("kv"), name, start, duration, **stats)
    began = PlaneBuilder(
        "Task Environment", profile_start_time=START_NS, profile_stop_time=START_NS
    )
    return space(plane.plane, threads.plane, began.plane, hostnames=(host,))
