"""Draws measured runs: devices that compute and meet, a host that enqueues steps and reads their tokens."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.ingest.replay.building import launch, measured, op, step_of, transfer
from xlahouse.ingest.replay.measured import Measured

US = 1_000_000  # ps; waits of more than one show when a transfer ended


@dataclass
class Drawn:
    """A run as it is drawn, step after step; times in ps."""

    rng: random.Random
    core: str  # cpu: two lines a device
    devices: int
    ops: list[dict] = field(default_factory=list)
    transfers: list[dict] = field(default_factory=list)
    launches: list[dict] = field(default_factory=list)
    steps: list[dict] = field(default_factory=list)
    phases: list[dict] = field(default_factory=list)
    host_ps: int = 0
    meetings: int = 0

    def some(self, least: int, most: int) -> int:
        """A time between so many us."""
        return self.rng.randint(least * US, most * US)

    def line(self) -> str:
        """A line of a device."""
        return self.rng.choice(("one", "other")) if self.core == "cpu" else "XLA Ops"

    def compute(self, device: int, at: int) -> int:
        """An op, perhaps after idle time; returns its end."""
        start = at + self.rng.choice((0, 0, self.some(0, 3)))
        end = start + self.some(1, 30)
        self.ops.append(op(device, start, end, f"fusion.{len(self.ops)}", line=self.line()))
        return end

    def meet(self, at: list[int], request: int, step: int) -> list[int]:
        """A transfer of all devices, synchronous or, on TPUs, also async; returns when each goes on."""
        lasts, self.meetings = self.some(1, 25), self.meetings + 1
        place = {"request": request, "step": step, "name": f"all-reduce.{self.meetings}"}
        until = max(at) + lasts
        if self.core == "cpu" or self.rng.random() < 0.5:
            for device, arrival in enumerate(at):
                self.transfers.append(transfer(device, arrival, until, self.meetings, **place))
            return [until] * self.devices
        ended = []
        for device, start in enumerate(at):
            issued = start + US
            self.ops.append(op(device, start, issued, "start", "collective", is_async=True))
            done = self.compute(device, issued)
            end = max(until, done + self.some(0, 1))
            self.ops.append(op(device, done, end, "done", "collective", is_async=True))
            more = {"is_async": True, "wait_ps": end - done, "issue_ps": US}
            self.transfers.append(transfer(device, start, end, self.meetings, **place, **more))
            ended.append(end)
        return ended

    def step(self, request: int, step: int) -> None:
        """A step: the host enqueues it, the devices run it, the host reads its token."""
        opens = self.host_ps
        starts, queued = [], []
        for _ in range(self.devices):
            self.host_ps += self.some(1, 5)
            queued.append(self.host_ps)
            starts.append(self.host_ps + self.some(1, 5))
        first = len(self.ops)
        at = [start + self.rng.choice((0, US)) for start in starts]
        for _ in range(self.rng.randint(1, 4)):
            at = [self.compute(device, now) for device, now in enumerate(at)]
            if self.devices > 1:
                at = self.meet(at, request, step)
        at = [self.compute(device, now) for device, now in enumerate(at)]
        for device, end in enumerate(at):
            place = {"request": request, "step": len(self.launches) // self.devices}
            own = launch(device, starts[device], end, queued[device], **place)
            self.launches.append(own | {"step": step})
            ran = [row for row in self.ops[first:] if row["device_id"] == device]
            self.steps.append(step_of(device, ran, step) | {"request": request})
        self.ops[first:] = [
            row | {"launch": self.launches[-1]["launch"]} for row in self.ops[first:]
        ]
        ended = [row["start_ps"] + row["duration_ps"] for row in self.launches[-self.devices :]]
        self.host_ps = max(ended) + self.some(1, 10)
        marker = {"host": "h", "phase": "decode" if step else "prefill", "source": "marker"}
        span = {"start_ps": opens, "duration_ps": self.host_ps - opens}
        self.phases.append(marker | span | {"request": request, "step": step})
        self.host_ps += self.some(0, 20)


def draw(seed: int) -> Measured:
    """A run of up to three devices and two requests, each of a prefill and up to three decode steps."""
    rng = random.Random(seed)
    run = Drawn(
        rng, rng.choice(("cpu", "tensorcore")), rng.randint(1, 3), host_ps=rng.randint(0, 9) * US
    )
    for request in range(rng.randint(1, 2)):
        for step in range(rng.randint(2, 4)):
            run.step(request, step)
    return measured(
        run.ops,
        run.transfers,
        run.launches,
        run.steps,
        cores=dict.fromkeys(range(run.devices), run.core),
        phases=run.phases,
    )
