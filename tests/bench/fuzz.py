"""Damaged traces: none raises an unexpected error, hangs, or loses events silently.

`make bench` runs some hundred cases. `python -m tests.bench.fuzz LOG` runs ten thousand: it writes to LOG
each case and its faults, and continues from there when it is started again, however it ended.
"""

from __future__ import annotations

import faulthandler
import gzip
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tests.bench.registry import Benchmark, register
from tests.ingest.damage import Outcome, damage, leaves_no_trace, outcome, silent_loss
from tests.ingest.traces import tpu_trace
from tests.samples import SAMPLES

CASES = 10_000
CASES_TIMED = 400  # all cases take half an hour
# Share of the cases that each sample gets; the small trace of one launch has the rest. Every other
# case of a compressed file damages the text inside.
SHARES = {
    "cpu/torch_xla_mlp_4dev.xplane.pb": 0.10,
    "gpu/mi300_jax_gemm.xplane.pb": 0.10,
    "gpu/mi300_jax_conv.xplane.pb": 0.04,
    "tpu/v6e_4dev_jax_psum_offload.xplane.pb": 0.04,
    "cpu/torch_xla_mlp_4dev.trace.json.gz": 0.08,
    "tpu/vllm_qwen3_tp2.trace.json.gz": 0.01,
    "kineto/amd_minitoy.json.gz": 0.05,
    "kineto/cpu_only_base_time.json.gz": 0.05,
    "kineto/large_integer.json.gz": 0.02,
    "kineto/sampled_rank1.json.gz": 0.02,
    "hlo/maxtext_deepseek3.hlo.txt": 0.01,
    "hlo/maxtext_qwen3_1.7b.hlo.txt": 0.01,
    "hlo/torch_xla_llama2_tp4_pp2.hlo.txt": 0.01,
}
SLOWEST_S = 60  # CPU seconds; the slowest sample takes 3
HANGS_AFTER_S = 600


@dataclass(frozen=True)
class Sample:
    """A file to damage, and the outcome of an ingest of it undamaged."""

    name: str
    file: str
    raw: bytes
    whole: Outcome

    def ingest(self, raw: bytes) -> Outcome:
        if self.name.startswith("hlo/"):  # the program of the small trace's launch
            return outcome(tpu_trace(hlo=False), "small.xplane.pb", {"jit_f(77).txt": raw})
        return outcome(raw, self.file)


def prepare(cases: int = CASES_TIMED) -> object:
    if not SAMPLES.is_dir():
        return f"no samples at {SAMPLES}"
    counts = {name: int(cases * share) for name, share in SHARES.items()}
    return [("small.xplane.pb", cases - sum(counts.values())), *counts.items()]


def run(plan) -> None:
    found = [line for line in results(plan) if line]
    if found:
        raise AssertionError("\n".join(found))


def results(plan, first: int = 0) -> Iterator[str]:
    """For each case from `first` on: the fault in its ingest, empty if there is no fault."""
    number = 0
    for name, count in plan:
        if number + count > first:
            samples = _samples(name)
            for seed in range(max(first - number, 0), count):
                yield _problem(samples[seed % len(samples)], seed)
        number += count


def _samples(name: str) -> list[Sample]:
    raw = tpu_trace() if name.startswith("small") else (SAMPLES / name).read_bytes()
    contents = {PurePosixPath(name).name: raw}
    if name.endswith(".gz"):
        contents[PurePosixPath(name).stem] = gzip.decompress(raw)
    nothing = Outcome()
    samples = [Sample(name, file, raw, nothing) for file, raw in contents.items()]
    return [Sample(name, s.file, s.raw, s.ingest(s.raw)) for s in samples]


def _problem(sample: Sample, seed: int) -> str:
    before = _cpu_s()
    faulthandler.dump_traceback_later(HANGS_AFTER_S, exit=True)
    try:
        raw = damage(sample.raw, random.Random(seed))
        found = sample.ingest(raw)
    except Exception as error:
        return f"{sample.name}, seed {seed}, {sample.file}: {type(error).__name__}: {error}"
    finally:
        faulthandler.cancel_dump_traceback_later()
    problems = found.unforeseen()
    if silent_loss(sample.whole, found) and not leaves_no_trace(sample.file, raw):
        problems.append(f"silent loss: {found}")
    if _cpu_s() - before > SLOWEST_S:
        problems.append(f"took {_cpu_s() - before:.0f} s")
    return f"{sample.name}, seed {seed}, {sample.file}: {problems}" if problems else ""


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system


def main(log: Path) -> None:
    """Continue where the log ends: a line for each case, its number and its fault."""
    done = log.read_text().splitlines() if log.exists() else []
    plan = prepare(CASES)
    if isinstance(plan, str):
        sys.exit(plan)
    with log.open("a", buffering=1) as file:
        for number, problem in enumerate(results(plan, len(done)), start=len(done)):
            file.write(f"{number} {problem!r}\n")
    found = [line for line in log.read_text().splitlines() if not line.endswith(" ''")]
    print(f"{CASES} cases, {len(found)} with a fault", *found, sep="\n")


register(Benchmark(f"{CASES_TIMED} damaged traces", prepare, run, most_rounds=1))

if __name__ == "__main__":
    main(Path(sys.argv[1]))
