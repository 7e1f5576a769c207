"""Captures experiments in a process of their own: device count and XLA flags are fixed at start.

`python -m xlahouse.capture.run.experiment` reads Jobs from stdin and writes Notes to stdout, both as JSON
objects, one a line; capture/run/process.py is at the other end. All jobs of a process have the same weights
on the same mesh: the first one places them, later ones only make a cache and programs.
"""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from xlahouse.capture.errors import CaptureError, XlahouseError
from xlahouse.capture.manifest import (
    DECODE,
    PREFILL,
    REQUEST,
    WARMUP,
    manifest_path,
    write_manifest,
)
from xlahouse.capture.opening import read_regular
from xlahouse.capture.run.job import (
    PHASE_LIMIT_S,
    STOP_LIMIT_S,
    Job,
    partial_dir,
    receive,
    say,
    without_jax,
)
from xlahouse.capture.run.overhead import dispatch_depth
from xlahouse.capture.run.record import Outcome, check_counts, counts, describe

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.decode import DecodeTimes, Generator
    from xlahouse.capture.models.placing import Placed
    from xlahouse.capture.models.sharded import ShardedModel
    from xlahouse.capture.plan import Experiment
    from xlahouse.capture.run.sources import OpenedWeights


@dataclass(frozen=True)
class Kept:
    """What stays in a process from one job to the next."""

    placed: Placed  # the weights on the mesh
    jobs: int  # that have ended


def capture(job: Job, kept: Kept | None = None) -> Kept:
    """Run the job in this process, which must not have imported torch_xla before its first job.

    The trace is written to a hidden folder; it gets its name, then its manifest, after all checks.

    Args:
        job: the task; its experiment's `placing` equals that of the process' earlier jobs.
        kept: what the job before returned; None: this is the first.

    Raises:
        CaptureError: wrong device count, a compilation while profiling, tokens that differ from
            the unsharded model's, or no trace.
    """
    from xlahouse.capture.run.reference import compare, draw_prompts, run_unsharded
    from xlahouse.capture.run.sources import open_weights

    trace_dir = Path(job.trace_dir)
    if kept is None:
        fix_environment(job)
    earlier = counts()
    opened = open_weights(job.experiment)
    experiment = opened.experiment
    prompts = draw_prompts(experiment)
    unsharded = None
    if experiment.compare and experiment.serving is None:
        unsharded = run_unsharded(opened, prompts, [experiment.profiled_tokens] * len(prompts))
    sharded = place(opened, kept.placed if kept else None)
    growing = partial_dir(trace_dir)
    try:
        outcome, logits = profile(sharded, experiment, prompts, growing)
        if experiment.compare and experiment.serving is not None:  # what it gave is known now
            lengths = [tokens.shape[1] for tokens in outcome.tokens]
            unsharded = run_unsharded(opened, prompts[: len(lengths)], lengths)
        say("progress", "comparing tokens")
        comparison = compare(experiment, outcome.tokens, unsharded, logits)
        for warning in [*outcome.warnings, *(comparison.differences or [])]:
            say("warning", warning)
        jobs = kept.jobs if kept else 0
        outcome = replace(outcome, compiles=outcome.compiles - earlier.compiles, jobs_before=jobs)
        manifest = describe(opened, job.experiment, sharded, outcome, comparison)
        growing.rename(trace_dir)
    finally:
        shutil.rmtree(growing, ignore_errors=True)
    write_manifest(manifest, manifest_path(trace_dir))
    return Kept(sharded.placed, jobs + 1)


def fix_environment(job: Job) -> None:
    """Set the variables that torch_xla reads at import or first use, and enter SPMD mode.

    Raises:
        CaptureError: platform and mesh differ in their number of devices.
    """
    without_jax()
    devices = job.experiment.device_count
    # The two debug flags put scopes into HLO op_names.
    os.environ |= {"PJRT_DEVICE": job.device.upper(), "XLA_IR_DEBUG": "1", "XLA_HLO_DEBUG": "1"}
    if job.device == "cpu":
        os.environ["CPU_NUM_DEVICES"] = str(devices)
    import torch_xla.runtime as xr

    xr.use_spmd()
    keep_programs(job)
    found = xr.global_runtime_device_count()
    if found != devices:
        raise CaptureError(
            f"the mesh has {devices} devices, {job.device} has {found}; change the mesh in the plan"
        )


def keep_programs(job: Job) -> None:
    """Keep compiled programs on disk, and take those that an earlier capture compiled.

    torch_xla names a program by its graph, devices and flags. The folder's name has what else decides
    it: packages, and the scopes and code from which its ops have their names.
    """
    import torch_xla.runtime as xr

    from xlahouse.capture.run.record import framework_versions

    if not job.programs:
        return
    said = repr((sorted(framework_versions().items()), job.experiment.scopes)).encode()
    digest = hashlib.sha256(said)
    for file in sorted(Path(__file__).parents[1].glob("models/*.py")):
        digest.update(read_regular(file))
    folder = Path(job.programs, digest.hexdigest()[:16])
    folder.mkdir(parents=True, exist_ok=True)
    xr.initialize_cache(str(folder), readonly=False)


def place(opened: OpenedWeights, placed: Placed | None) -> ShardedModel:
    """The model on the XLA devices, sharded, with scopes; its weights are `placed`, or are placed now."""
    from torch_xla.backends import set_mat_mul_precision

    from xlahouse.capture.models.sharded import ShardedModel
    from xlahouse.capture.run.profile import add_scopes

    experiment = opened.experiment
    if experiment.dtype == "float32" and os.environ["PJRT_DEVICE"] == "TPU":
        set_mat_mul_precision("highest")  # otherwise a TPU multiplies float32 in bfloat16
    say("progress", "keeping weights" if placed else "placing weights", PHASE_LIMIT_S)
    sharded = ShardedModel(opened.blueprint, opened.source, placed=placed)
    add_scopes(sharded.model, experiment.scopes, sharded.stages.scope)
    return sharded


def profile(
    sharded: ShardedModel, experiment: Experiment, prompts: list[torch.Tensor], folder: Path
) -> tuple[Outcome, Callable[[], torch.Tensor]]:
    """Profile what the experiment runs; and what computes its logits after the first prompt."""
    from xlahouse.capture.models.decode import prefill_logits
    from xlahouse.capture.models.server import Server
    from xlahouse.capture.run.serving import profile_server
    from xlahouse.capture.serving import buckets_of

    if experiment.serving is None:
        outcome = profile_requests(sharded, experiment, prompts, folder)
        return outcome, partial(prefill_logits, sharded, prompts[0])
    server = Server(sharded, experiment.batch_size)
    outcome = profile_server(server, experiment, prompts, folder)
    return outcome, partial(server.logits, buckets_of(experiment)[-1], prompts[0][0])


def profile_requests(
    sharded: ShardedModel, experiment: Experiment, prompts: list[torch.Tensor], folder: Path
) -> Outcome:
    """Warm up, then run the requests under the profiler, which writes to `folder`.

    A request before and one after it run without the profiler, to measure its cost.

    Raises:
        CaptureError: a profiled step compiled, or the profiler left no trace.
    """
    from xlahouse.capture.models.decode import Generator, late_ratio
    from xlahouse.capture.run.overhead import cost, host_warnings, profiler_warnings
    from xlahouse.capture.run.profile import session

    virtual = os.environ["PJRT_DEVICE"] == "CPU"
    ahead = dispatch_depth(experiment, virtual)
    generator = Generator(sharded, experiment.profiled_tokens, ahead)
    for warmup in range(experiment.warmup_requests):
        say("progress", f"warm-up {warmup + 1} of {experiment.warmup_requests}", PHASE_LIMIT_S)
        length = experiment.profiled_tokens if warmup else experiment.output_tokens
        generator.run(prompts[0], partial(step_marker, WARMUP, WARMUP, warmup), length)
    say("progress", f"profiling {experiment.requests} requests", PHASE_LIMIT_S)
    bare = [run_bare(generator, prompts[0])] if experiment.warmup_requests else []
    before, started = counts(), datetime.now(UTC)
    with session(folder, lambda: say("progress", "stopping the profiler", STOP_LIMIT_S)):
        runs = [run_request(generator, prompt, index) for index, prompt in enumerate(prompts)]
    spent = counts() - before
    bare += [run_bare(generator, prompts[-1])] if experiment.warmup_requests else []
    profiler_cost = cost([runs[0][1].steps[1:], runs[-1][1].steps[1:]], bare)
    steps = experiment.requests * experiment.profiled_tokens
    times = [times for _, times in runs]
    return Outcome(
        captured_at=started.isoformat(timespec="milliseconds"),
        tokens=[tokens for tokens, _ in runs],
        times=times,
        warnings=[
            *check_counts(spent, steps),
            *profiler_warnings(profiler_cost, virtual),
            *host_warnings(late_ratio(times), virtual),
        ],
        profiler_cost=profiler_cost,
        dispatch_depth=ahead,
        launches_per_step=spent.launches / steps,
        compiles=before.compiles,
    )


def run_bare(generator: Generator, prompt: torch.Tensor) -> list[float]:
    """Seconds of each decode step of a request without the profiler."""
    return generator.run(prompt, lambda step: nullcontext())[1].steps[1:]


def run_request(
    generator: Generator, prompt: torch.Tensor, index: int
) -> tuple[torch.Tensor, DecodeTimes]:
    """One profiled request inside its marker: its tokens and its steps' times."""
    from xlahouse.capture.run.profile import marker

    with marker(REQUEST, index):
        return generator.run(prompt, partial(step_marker, PREFILL, DECODE, index))


def step_marker(first: str, later: str, request: int, step: int) -> AbstractContextManager[object]:
    """A step's marker: named `first` for the prefill, `later` for the decodes."""
    from xlahouse.capture.run.profile import marker

    return marker(later if step else first, request, step)


def main() -> int:
    """Run the jobs; 1 after an error, which is reported to the parent."""
    kept = None
    try:
        for job in receive():
            kept = capture(job, kept)
            gc.collect()  # programs and caches of the job, some of which refer to each other
    except XlahouseError as error:
        say("error", str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
