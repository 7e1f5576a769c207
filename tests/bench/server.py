"""Views of a server of 100,000 steps with 64 requests each, on 8 devices: the target is 2 s.

`python -m tests.bench.server` prints each view's seconds (wall and CPU); `make bench` times them.
"""

from __future__ import annotations

import argparse
import atexit
import shutil
import time
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import polars as pl

from tests.bench.large import Part, write_parts
from tests.bench.registry import Benchmark, register
from xlahouse.ingest.events.frames import MARKERS
from xlahouse.ingest.serving.steps import serve
from xlahouse.sql import Warehouse

VIEWS = ("latency", "serving_summary", "serving_step", "serving_batch", "interference")
STEPS, SLOTS, DEVICES = 100_000, 64, 8
A_REQUEST = 200  # steps: the first has its prompt
PROMPT = 100  # tokens of a prompt
PERIOD_PS = 20_000_000_000
DELAY_PS = 3_000_000_000  # from a step's marker to its launch
QUEUE_PS = 7_000_000_000  # from a request's own marker to its first step
HOST, THREAD, PROGRAM = "h", "engine", 1 << 63


@cache
def warehouse_of(steps: int = STEPS, slots: int = SLOTS) -> Path:
    """A warehouse with one run of a server whose slots are always full, until this process ends."""
    root = Path(mkdtemp(prefix="xlahouse-server-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return write_parts(root / "wh", _parts(steps, slots), {"batch_size": slots})


def seconds(view: str) -> tuple[float, float]:
    """(wall, CPU) seconds of a view in a warehouse that was only just opened."""
    root = warehouse_of()
    with Warehouse(root, memory_limit="4GB", threads=2) as warehouse:
        start, worked = time.perf_counter(), time.process_time()
        warehouse.query(f"select count(*), count(columns(*)) from {view}").arrow()
        return time.perf_counter() - start, time.process_time() - worked


def _parts(steps: int, slots: int) -> Iterator[Part]:
    """Slot s begins a request at each step k with (k + s) % A_REQUEST = 0, and one at step 0."""
    devices = np.arange(DEVICES)
    yield "devices", 0, {
        "device_id": devices, "logical_id": devices, "world": 0, "traced": True, "host": HOST,
        "kind": "TPU v6 lite", "core": "tensorcore", "inferred": False,
    }  # fmt: skip
    launches = _launches(steps)
    markers, processes = _markers(steps, slots)
    served = serve(launches, markers, processes)
    own = markers.filter(pl.col("phase") == "request")
    own = own.select("host", "phase", "request", "start_ps", "duration_ps", source=pl.lit("marker"))
    phases = pl.concat([served.phases, own], how="diagonal").sort("start_ps")
    yield "phases", 0, _columns(phases)
    yield "step_requests", 0, _columns(served.requests)
    yield "served_requests", 0, _columns(served.totals)
    for (device,), mine in served.launches.partition_by("device_id", as_dict=True).items():
        yield "launches", int(device), _columns(mine.drop("marker"))
        yield "device_steps", int(device), _device_steps(mine)
        yield "host_gaps", int(device), _gaps(mine)


def _launches(steps: int) -> pl.DataFrame:
    """A launch of each step on each device, of a length that is drawn."""
    number = np.arange(steps)
    drawn = np.random.default_rng(0)
    of_device = [
        pl.DataFrame(
            {
                "device_id": device, "launch": number, "launch_instance": number, "marker": number,
                "program_id": pl.Series([PROGRAM] * steps, dtype=pl.UInt64), "module": "jit_step",
                "start_ps": number * PERIOD_PS + DELAY_PS, "enqueue_ps": number * PERIOD_PS + 1000,
                "duration_ps": drawn.integers(PERIOD_PS // 4, PERIOD_PS // 2, steps),
                "phase": "server", "request": pl.Series([None] * steps, dtype=pl.Int64),
                "step": pl.Series([None] * steps, dtype=pl.Int64),
            }
        )
        for device in range(DEVICES)
    ]  # fmt: skip
    return pl.concat(of_device)


def _markers(steps: int, slots: int) -> tuple[pl.DataFrame, pl.Series]:
    """The markers of steps, then those of requests, and the process of each."""
    place = np.arange(steps)[:, None] + np.arange(slots)[None, :]
    first = (place % A_REQUEST == 0) | (np.arange(steps) == 0)[:, None]
    tokens, prompt = np.where(first, PROMPT, 1), np.where(first, PROMPT, 0)
    per_slot = (steps + slots) // A_REQUEST + 1
    request = np.arange(slots)[None, :] * per_slot + place // A_REQUEST
    step_rows = pl.DataFrame(
        {
            "host": HOST, "thread": THREAD, "phase": "server",
            "start_ps": np.arange(steps) * PERIOD_PS, "duration_ps": PERIOD_PS // 2,
            "requests": slots, "tokens": tokens.sum(axis=1),
            "ids": pl.Series(request).cast(pl.List(pl.String)),
            "id_tokens": pl.Series(tokens).cast(pl.List(pl.Int64)),
            "id_prompt_tokens": pl.Series(prompt).cast(pl.List(pl.Int64)),
        }
    )  # fmt: skip
    began, at, count = np.unique(request.ravel(), return_index=True, return_counts=True)
    own = pl.DataFrame(
        {
            "host": HOST, "thread": "client", "phase": "request", "request": began,
            "start_ps": at // slots * PERIOD_PS - QUEUE_PS,
            "duration_ps": count * PERIOD_PS + QUEUE_PS,
        }
    )  # fmt: skip
    made = pl.concat([pl.DataFrame(schema=MARKERS), step_rows, own], how="diagonal_relaxed")
    return made.cast(MARKERS), pl.Series([0] * made.height)


def _device_steps(launches: pl.DataFrame) -> dict[str, Any]:
    """Half of each launch computes, a quarter waits for a collective."""
    start, length = (launches[name].to_numpy() for name in ("start_ps", "duration_ps"))
    return {
        "device_id": launches["device_id"][0], "step": launches["step"].to_numpy(),
        "phase": launches["phase"].to_numpy(), "start_ps": start, "duration_ps": length,
        "compute_ps": length // 2, "collective_ps": length // 4, "overlapped_ps": 0, "copy_ps": 0,
        "exposed_copy_ps": 0, "sync_wait_ps": 0, "communicating_ps": 0,
    }  # fmt: skip


def _gaps(launches: pl.DataFrame) -> dict[str, Any]:
    """The gap before each launch but the first, with three nested events of the host."""
    start, length = (launches[name].to_numpy() for name in ("start_ps", "duration_ps"))
    ends = (start + length)[:-1]
    gap = start[1:] - ends
    return {
        "device_id": launches["device_id"][0], "launch": np.repeat(launches["launch"][1:], 3),
        "start_ps": np.repeat(ends, 3), "duration_ps": np.repeat(gap, 3), "thread": THREAD,
        "name": np.tile(np.array(["step", "schedule", "pick"]), len(gap)),
        "level": np.tile(np.array([2, 1, 0]), len(gap)), "events": 1,
        "overlap_ps": np.repeat(gap, 3), "self_ps": np.repeat(gap // 3, 3),
    }  # fmt: skip


def _columns(frame: pl.DataFrame) -> dict[str, Any]:
    return {name: frame[name].to_arrow() for name in frame.columns}


def _ask(view: str, _: object) -> None:
    seconds(view)


for name in VIEWS:
    register(
        Benchmark(
            name=f"view {name}, a server of 100,000 steps of 64 requests",
            prepare=partial(warehouse_of, STEPS, SLOTS),
            ours=partial(_ask, name),
            most_rounds=3,
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("views", nargs="*", default=VIEWS, help="default: all")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the least is printed")
    options = parser.parse_args()
    for view in options.views:
        wall, cpu = map(min, zip(*(seconds(view) for _ in range(options.rounds)), strict=True))
        print(f"{view:20}{wall:6.2f} s{cpu:8.2f} s of CPU", flush=True)


if __name__ == "__main__":
    main()
