"""Ten thousand damaged traces: none is met unprepared, and none loses events silently."""

from __future__ import annotations

import random
from pathlib import PurePosixPath

from tests.bench.registry import Benchmark, register
from tests.ingest.damage import damage, outcome, silent_loss
from tests.ingest.traces import tpu_trace
from tests.samples import SAMPLES

CASES = 10_000
# Share of the cases that each sample gets; the small trace of one launch has the rest.
SHARES = {
    "cpu/torch_xla_mlp_4dev.xplane.pb": 0.08,
    "gpu/mi300_jax_gemm.xplane.pb": 0.08,
    "gpu/mi300_jax_conv.xplane.pb": 0.02,
    "tpu/v6e_4dev_jax_psum_offload.xplane.pb": 0.02,
    "cpu/torch_xla_mlp_4dev.trace.json.gz": 0.05,
    "tpu/vllm_qwen3_tp2.trace.json.gz": 0.01,
}


def prepare() -> object:
    if not SAMPLES.is_dir():
        return f"no samples at {SAMPLES}"
    plan = [(name, (SAMPLES / name).read_bytes(), int(CASES * s)) for name, s in SHARES.items()]
    rest = CASES - sum(count for _, _, count in plan)
    return [("small.xplane.pb", tpu_trace(), rest), *plan]


def run(plan) -> None:
    for name, raw, count in plan:
        file = PurePosixPath(name).name
        whole = outcome(raw, file)
        for seed in range(count):
            found = outcome(damage(raw, random.Random(seed)), file)
            if found.unforeseen() or silent_loss(whole, found):
                raise AssertionError(f"{name}, seed {seed}: {found}")


register(Benchmark("ten thousand damaged traces", prepare, run, most_rounds=1))
