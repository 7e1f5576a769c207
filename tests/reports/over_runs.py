"""Runs that the tests of pages over runs compare."""

from __future__ import annotations

from typing import Any

from tests.reports.example import Store


def run(run_id: str, parallelism: str, **chosen: Any) -> dict[str, Any]:
    row = {
        "run_id": run_id,
        "name": f"name {run_id}",
        "setup": f"setup {parallelism} {chosen.get('batch_size', 4)} {chosen.get('model', 'qwen')}",
        "model": "qwen",
        "parallelism": parallelism,
        "batch_size": 4,
        "prompt_tokens": 16,
        "output_tokens": 8,
        "dtype": "bf16",
        "device_kind": "TPU v6 Lite",
        "device_count": 4,
        "status": "complete",
    }
    return row | chosen


# Repeats of tp4, of which the second is slower; pp4 once; tp4 again with twice the batch.
RUNS = [
    run("a1", "tp4"),
    run("a2", "tp4"),
    run("b1", "pp4", microbatches=2),
    run("c1", "tp4", batch_size=8),
]


def rows_of(store: Store, panel: Any, runs: tuple[str, ...] = ("a1", "a2", "b1", "c1")) -> Any:
    return store.query(panel.sql, {"runs": list(runs)}).pl()
