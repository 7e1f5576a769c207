"""The answer of mbu, which takes a model's sizes from the manifest."""

from __future__ import annotations

from statistics import median

from tests.synth import model
from tests.synth.describe import Run
from tests.synth.times import latency
from tests.synth.traffic import Row

PEAK_HBM = 1.6e12  # of a TPU v6e


def mbu(run: Run) -> list[Row]:
    """The row of mbu_v2: which weights a step reads is not known, as the architecture has no name."""
    rows = latency(run) if run.markers else []
    times = [row["tpot_s"] for row in rows if row["tpot_s"] is not None]
    steps = [
        model.KV_BYTES_PER_TOKEN * (run.prompt_tokens + step)
        for _sequence in range(run.batch)
        for step in range(1, run.steps)
    ]
    return [
        {
            "phase": "decode",
            "tpot_count": len(times),
            "tpot_s": median(times) if times else None,
            "weight_bytes": None,
            "kv_bytes": sum(steps) / (run.steps - 1) if times else None,
            "peak_hbm_bytes_per_s": PEAK_HBM * len(run.devices),
            "mbu_ratio": None,
        }
    ]


def utilization(run: Run) -> dict[str, list[Row]]:
    """All of these, by name."""
    return {"mbu": mbu(run)}
