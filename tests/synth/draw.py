"""Runs drawn at random from a seed, for properties that must hold on every schedule."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tests.synth.describe import NOTATIONS, Cost, Run

MESHES = (
    (("tp", 2),),
    (("tp", 8),),
    (("dp", 2), ("tp", 4)),
    (("tp", 2), ("dp", 3)),
    (("dp", 2), ("ep", 2)),
    (("ep", 4), ("tp", 2)),
    (("fsdp", 4),),
    (("dp", 2), ("fsdp", 2)),
    (("pp", 4),),
    (("pp", 2), ("tp", 2)),
    (("dp", 2), ("pp", 2), ("tp", 2)),
    (("tp", 2), ("pp", 3)),
)


def _times(rng: np.random.Generator, busy: int, mesh: dict[str, int]) -> dict[str, Any]:
    """Skews where the mesh allows them, gaps, and how fast the links are."""
    count = math.prod(mesh.values())
    skewed = busy <= 1 and "pp" not in mesh
    lags = rng.integers(0, 400_000, count) * rng.integers(0, 2, count)
    return {
        "lag_ps": tuple(lags.tolist()) if skewed and "fsdp" not in mesh else (),
        "offset_ps": tuple(rng.integers(0, 3_000_000, count).tolist()) if skewed else (),
        "link": Cost(int(rng.choice([1_003, 1_500_007, 40_000_001])), int(rng.integers(1, 200))),
        "gap_ps": int(rng.integers(0, 2) * rng.integers(0, 300_000)),
        "barriers": bool(rng.integers(0, 4)),
        "jitter_ps": int(rng.integers(0, 2) * 10_000_000),
    }


def _features(rng: np.random.Generator, mesh: dict[str, int]) -> dict[str, Any]:
    """What the compiler and the profiler did, where the mesh allows it."""
    plain = "pp" not in mesh and "fsdp" not in mesh
    coin = {name: bool(rng.integers(0, 2)) for name in ("a", "b", "c", "d", "e", "f", "g", "h")}
    loop = plain and bool(rng.integers(0, 4) == 0)
    return {
        "loop": loop,
        "copies": coin["a"] and not loop and "pp" not in mesh,
        "zero_starts": coin["b"],
        "sequence_parallel": coin["c"],
        "fused_scatter": coin["d"],
        "overlapped": coin["e"] and not loop,
        "wrapped_async": coin["f"],
        "appended_scalar": coin["g"],
        "counted_programs": coin["h"],
        "pipeline": str(rng.choice(["stacked", "stages"])),
        "sharded_vocabulary": plain and "tp" in mesh and bool(rng.integers(0, 2)),
        "opens_with_collective": plain and "tp" in mesh and bool(rng.integers(0, 2)),
        "extra_launches": int(rng.integers(0, 3)),
    }


def _seen(rng: np.random.Generator, count: int, outputs: int) -> dict[str, Any]:
    """Hosts, and what their profiles hold: some device sees every pass, and every device one."""
    hosts = int(rng.choice([h for h in (1, 2, 3, 4) if count % h == 0]))
    traced = sorted(rng.permutation(hosts)[: rng.integers(1, hosts + 1)].tolist())
    starts = np.sort(rng.integers(0, 30_000, hosts)) * rng.integers(0, 2)
    missed = rng.integers(0, min(outputs, 3), count) * rng.integers(0, 2)
    whole = len(traced) == hosts and missed.min() == 0
    return {
        "hosts": hosts,
        "traced_hosts": tuple(traced),
        "host_start_ns": tuple((starts - starts[0]).tolist()),
        "missed": tuple(missed.tolist()) if whole else (),
    }


def draw_run(seed: int) -> Run:
    """The run of a seed; the same one on every machine."""
    rng = np.random.default_rng(seed)
    axes = MESHES[rng.integers(0, len(MESHES))]
    mesh = dict(axes)
    count, outputs = math.prod(mesh.values()), int(rng.integers(1, 5))
    first, size = axes[0]
    return Run(
        name=f"drawn {seed}",
        mesh=axes,
        layers=mesh.get("pp", 1) * int(rng.integers(1, 3)),
        hidden=128 * int(rng.integers(1, 3)),
        dtype=str(rng.choice(["bf16", "f32"])),
        batch=24 * int(rng.integers(1, 3)),
        prompt_tokens=int(rng.integers(1, 9)),
        output_tokens=outputs,
        requests=int(rng.integers(1, 3)),
        microbatches=int(rng.choice([1, 2, 3])),
        device_ids=tuple(rng.permutation(count).tolist()),
        replicas=size if first == "dp" and rng.integers(0, 2) else 1,
        notations=tuple(rng.permutation(NOTATIONS)[: rng.integers(1, 4)].tolist()),
        seed=seed,
        **_seen(rng, count, outputs),
        **_times(rng, sum(axis != "dp" for axis in mesh), mesh),
        **_features(rng, mesh),
    )
