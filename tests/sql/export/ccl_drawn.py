"""Draws runs whose ops, groups and host events go through every rule of CCL-Bench's definitions."""

from __future__ import annotations

import random

from tests.sql.export.ccl_naive import STEP

NAMES = (
    *(
        "fusion.1",
        "dot_fusion",
        "all-reduce.7",
        "ALL_GATHER.2",
        "broadcast.3",
        "custom-call",
        "send",
    ),
    *(
        "copy-start.1",
        "copy-done.1",
        "copy-start.2",
        "copy-done.2.clone",
        "jit_f",
        "dependency-wait",
    ),
    *("all-reduce", "reducescatter", "x.all-to-all", "while.1", "collective-permute-start", None),
)


CATEGORIES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "fusion",
    "Send",
    "",
    None,
)


HOSTS = (STEP, STEP, "StepMarker", "$sync.py:9 allreduce", "python matmul", "nccl", 'say "hi" \\ é')


def drawn_run(number):
    """Rows of a run on TPUs that has everything the tools look at, in any order and overlapping."""
    draw = random.Random(number)
    run = f"run{number}"

    def span(longest=60):
        return {
            "start_ps": draw.randint(-5, 400),
            "duration_ps": draw.choice((0, draw.randint(0, longest))),
        }

    def op(device):
        flops = draw.choice((None, 0, draw.randint(1, 10**9)))
        return {
            **span(),
            "run_id": run,
            "device_id": device,
            "op": draw.choice(NAMES),
            "line": draw.choice(("XLA Ops", "Async XLA Ops", None)),
            "hlo_category": draw.choice(CATEGORIES),
            "model_flops": flops,
            "bytes_accessed": draw.choice((None, 0, draw.randint(1, 10**6))),
        }

    device_ids = range(draw.randint(1, 3))
    names = HOSTS if number % 3 else HOSTS[2:]  # every third run has no step of vLLM
    shared = {"run_id": run, "host": "h"}
    return {
        "runs": [
            {
                "run_id": run,
                "name": run,
                "device_kind": draw.choice(("TPU v6 lite", "TPU v6e", "TPU v5e")),
                "expected_device_count": draw.choice((None, 1, 4)),
                "iterations": draw.choice((None, 1, 7)),
                "workload": draw.choice(("inference", "inference", "training", None)),
                "output_tokens": draw.choice((None, 1, 8)),
            }
        ],
        "devices": [
            {
                **shared,
                "device_id": device,
                "core": "tensorcore",
                "traced": True,
                "plane": f"/device:TPU:{device}",
            }
            for device in device_ids
        ],
        "ops": [op(draw.choice(device_ids)) for _ in range(draw.randint(20, 120))],
        "launches": [
            {
                **span(300),
                "run_id": run,
                "device_id": device,
                "module": draw.choice(("jit_f", "SyncTensorsGraph", "jit_all-reduce")),
            }
            for device in device_ids
        ],
        "host_events": [
            {
                **shared,
                **span(200),
                "name": draw.choice(names),
                "thread": draw.choice(("python", None)),
            }
            for _ in range(draw.randint(0, 12))
        ]
        + [
            {
                **shared,
                **span(200),
                "name": draw.choice(HOSTS[3:]),
                "thread": f"/device:TPU:{n}/XLA TraceMe",
            }
            for n in (0, 9)  # of a plane that a device has, and of one that none has
        ],
    }
