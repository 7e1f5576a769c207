"""Draws what happens outside every launch: ops of no step, and what hosts do."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.views.oracle.devices import Devices
from tests.views.oracle.drawn import Drawn

Step = dict[str, Any]  # phase, request, step
NO_STEP: Step = {"phase": None, "request": None, "step": None}


def add_outside(run: Drawn, devices: Devices, until: int) -> None:
    """Ops outside every launch, those of SparseCores among them."""
    others = [row["device_id"] for row in devices.traced if run.chance(0.3)]
    others += [row["device_id"] for row in run.tables["devices"] if row["core"] == "sparsecore"]
    for device in others:
        duration = run.ticks(20)
        run.add("ops", device_id=device, op="fusion.5", category="compute", line="XLA Ops",
                start_ps=run.rng.randint(0, max(until, 1)), duration_ps=duration,
                self_ps=duration, flops=3.0, is_async=False, **NO_STEP)  # fmt: skip


def add_host_events(run: Drawn, until: int) -> None:
    """What hosts did up to a time, compiles among it."""
    for _ in range(run.rng.choice((0, 0, 1, 3))):
        run.add("host_events", host=run.rng.choice(("a", "b")), thread="t",
                name=run.rng.choice(("backend_compile", "XlaCompile", "x::Compile", "sleep")),
                start_ps=run.rng.randint(0, max(until, 1)), duration_ps=run.ticks(40))  # fmt: skip
    add_counters(run, until)


def add_counters(run: Drawn, until: int) -> None:
    """What allocators state now and then, and a counter of something else."""
    rng = Random(until)  # so that other draws stay as they are
    for _ in range(rng.choice((0, 3, 8))):
        name = rng.choice(("a bytes_in_use", "a peak_bytes_in_use", "b bytes_in_use", "power"))
        run.add("counters", device_id=rng.choice((None, 0, 1)), name=name,
                start_ps=rng.randint(0, 3), value=float(rng.randint(0, 9)))  # fmt: skip
