"""Runs as hypothesis draws them: any mesh, schedule and profile in a small size, and they shrink."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from tests.synth.describe import NOTATIONS, Cost, Run
from tests.synth.draw import MESHES

FREE_LINK, LINK, SLOW_LINK = Cost(1_003, 1), Cost(1_500_007, 97), Cost(40_000_001, 199)
LATEST_START_NS = 30_000  # of a host's profile, so that none misses its first launch


def _times(draw: Any, axes: tuple[str, ...], count: int) -> dict[str, Any]:
    """Skews where the mesh allows them, gaps, jitter, and how fast the links are."""
    skewed = sum(axis != "dp" for axis in axes) <= 1 and "pp" not in axes
    lags = st.lists(st.integers(0, 400_000), min_size=count, max_size=count)
    offsets = st.lists(st.integers(0, 3_000_000), min_size=count, max_size=count)
    return {
        "lag_ps": draw(st.just([]) | lags) if skewed and "fsdp" not in axes else (),
        "offset_ps": draw(st.just([]) | offsets) if skewed else (),
        "link": draw(st.sampled_from([LINK, FREE_LINK, SLOW_LINK])),
        "gap_ps": draw(st.sampled_from([0, 1, 220_003])),
        "barriers": draw(st.booleans()),
        "barrier_ps": draw(st.sampled_from([78_203, 1])),
        "jitter_ps": draw(st.sampled_from([0, 10_000_000])),
    }


def _features(draw: Any, axes: tuple[str, ...]) -> dict[str, Any]:
    """What the compiler did, where the mesh allows it."""

    def flag(allowed: bool = True) -> bool:
        return allowed and draw(st.booleans())

    plain = "pp" not in axes and "fsdp" not in axes
    loop = flag(plain)
    return {
        "loop": loop,
        "copies": flag(not loop and "pp" not in axes),
        "zero_starts": flag(),
        "sequence_parallel": flag(),
        "fused_scatter": flag(),
        "overlapped": flag(not loop),
        "wrapped_async": flag(),
        "appended_scalar": flag(),
        "pipeline": draw(st.sampled_from(["stacked", "stages"])),
        "sharded_vocabulary": flag(plain and "tp" in axes),
        "opens_with_collective": flag(plain and "tp" in axes),
    }


def _seen(draw: Any, count: int, outputs: int) -> dict[str, Any]:
    """Hosts and processes, and what their profiles hold: each device sees a pass, one sees all."""
    hosts = draw(st.sampled_from([h for h in (1, 2, 3, 4) if count % h == 0]))
    processes = draw(st.sampled_from([p for p in (1, 2) if count % (hosts * p) == 0]))
    traced = draw(st.sets(st.integers(0, hosts - 1)))  # none: all
    starts = [0, *(draw(st.integers(0, LATEST_START_NS)) for _ in range(hosts - 1))]
    most = min(outputs - 1, 2)
    missed = [draw(st.integers(0, most)) for _ in range(count)] if most and not traced else []
    return {
        "hosts": hosts,
        "processes": processes,
        "traced_hosts": tuple(sorted(traced)),
        "host_start_ns": tuple(starts) if any(starts) else (),
        "missed": tuple(missed) if missed and min(missed) == 0 else (),
        "counted_programs": draw(st.booleans()),
        "same_links": draw(st.booleans()),
        "extra_launches": draw(st.integers(0, 2)),
    }


def _cut(draw: Any, run: dict[str, Any], axes: tuple[str, ...]) -> dict[str, Any]:
    """What markers say, and launches that the profile's start and end cut."""
    staged = "pp" in axes and run["pipeline"] == "stages"
    markers = staged or bool(run["missed"]) or draw(st.booleans())
    whole = run["loop"] or run["offset_ps"] or {"pp", "fsdp"} & set(axes)
    most = 0 if whole else run["layers"] - 1
    return {
        "markers": markers,
        "warmup": markers and draw(st.booleans()),
        "head_layers": 0 if run["host_start_ns"] else draw(st.integers(0, most)),
        "tail_layers": draw(st.integers(0, most)),
    }


@st.composite
def runs(draw: Any) -> Run:
    """A run; it shrinks towards two devices on one host, one request, and nothing special."""
    mesh = draw(st.sampled_from(MESHES))
    axes, count = tuple(axis for axis, _ in mesh), math.prod(size for _, size in mesh)
    outputs = draw(st.integers(1, 4))
    run: dict[str, Any] = {
        "mesh": mesh,
        "layers": dict(mesh).get("pp", 1) * draw(st.integers(1, 2)),
        "dtype": draw(st.sampled_from(["bf16", "f32"])),
        "batch": 24,
        "prompt_tokens": draw(st.integers(1, 8)),
        "output_tokens": outputs,
        "requests": draw(st.integers(1, 2)),
        "microbatches": draw(st.integers(1, 3)),
        "device_ids": tuple(draw(st.permutations(range(count)))),
        "replicas": draw(st.sampled_from([1, mesh[0][1]])) if axes[0] == "dp" else 1,
        "notations": tuple(draw(st.lists(st.sampled_from(NOTATIONS), min_size=1, max_size=3))),
        **_times(draw, axes, count),
        **_features(draw, axes),
        **_seen(draw, count, outputs),
    }
    run |= _cut(draw, run, axes)
    run["lag_ps"], run["offset_ps"] = tuple(run["lag_ps"]), tuple(run["offset_ps"])
    return Run(**run)
