"""Captures one experiment, in a process of its own: device count and XLA flags are fixed at start.

`python -m xlahouse.capture.experiment` reads a Job as JSON from stdin and writes Notes, one JSON
object a line, to stdout; capture/runner.py is at the other end.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from xlahouse.capture.errors import CaptureError, XlahouseError
from xlahouse.capture.manifest import (
    DECODE,
    PREFILL,
    REQUEST,
    WARMUP,
    RequestTiming,
    manifest_path,
    write_manifest,
)
from xlahouse.capture.models import ATTENTION, build_model
from xlahouse.capture.plan import Experiment
from xlahouse.capture.record import Outcome, describe

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.decode import Generator
    from xlahouse.capture.sharding import Layout


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What the child process is to do."""

    experiment: Experiment
    trace_dir: str  # the finished capture's folder, named trace_<timestamp>.trace
    device: str  # `cpu` or `tpu`


class Note(msgspec.Struct, frozen=True):
    """What the child process says: `progress`, `warning` or `error`, and a line of text."""

    kind: str
    message: str


def capture(job: Job) -> None:
    """Run the job in this process, which must not have imported torch_xla yet.

    The trace is written to a hidden folder and gets its name, then its manifest, only once
    everything about it is known to be right.

    Raises:
        CaptureError: wrong device count, a compilation while profiling, tokens that differ from
            the unsharded model's, or no trace.
    """
    experiment, trace_dir = job.experiment, Path(job.trace_dir)
    fix_environment(job)
    model = build_model(experiment.model.sizes, experiment.dtype, experiment.seed)
    prompts = draw_prompts(experiment)
    say("progress", "generating with the unsharded model")
    expected = [generate_unsharded(model, prompt, experiment) for prompt in prompts]
    layout = place(model, experiment)
    partial = trace_dir.with_name(f".{trace_dir.name}.partial")
    try:
        outcome = profile_requests(model, layout, experiment, prompts, partial)
        check_tokens(outcome, expected, experiment)
        manifest = describe(job.experiment, layout, model, outcome)
        partial.rename(trace_dir)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    write_manifest(manifest, manifest_path(trace_dir))


def fix_environment(job: Job) -> None:
    """Set what torch_xla reads once, at its import or first use, and enter SPMD mode.

    Raises:
        CaptureError: the platform has another number of devices than the mesh.
    """
    devices = job.experiment.device_count
    # Without the two debug flags no scope reaches HLO op_names.
    os.environ |= {"PJRT_DEVICE": job.device.upper(), "XLA_IR_DEBUG": "1", "XLA_HLO_DEBUG": "1"}
    if job.device == "cpu":
        os.environ["CPU_NUM_DEVICES"] = str(devices)
    import torch_xla.runtime as xr

    xr.use_spmd()
    found = xr.global_runtime_device_count()
    if found != devices:
        raise CaptureError(
            f"the mesh has {devices} devices, {job.device} has {found}; change the plan's mesh"
        )


def draw_prompts(experiment: Experiment) -> list[torch.Tensor]:
    """Random token ids, [batch, prompt_tokens], for each profiled request."""
    import torch

    generator = torch.Generator().manual_seed(experiment.seed)
    shape = (experiment.batch_size, experiment.prompt_tokens)
    vocabulary = experiment.model.sizes.vocab_size
    return [
        torch.randint(vocabulary, shape, generator=generator) for _ in range(experiment.requests)
    ]


def generate_unsharded(model: Any, prompt: torch.Tensor, experiment: Experiment) -> torch.Tensor:
    """What transformers' own greedy generation on the host gives: [batch, output_tokens].

    It shares weights with the capture and nothing else: its attention, cache and loop are its own.
    """
    import torch

    count = experiment.output_tokens
    with torch.no_grad():
        tokens: torch.Tensor = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
        )
    return tokens[:, prompt.shape[1] :]


def place(model: Any, experiment: Experiment) -> Layout:
    """Move the model to the XLA devices, sharded, with scopes; returns the layout."""
    import torch_xla
    from torch_xla.backends import set_mat_mul_precision

    from xlahouse.capture.profile import add_scopes
    from xlahouse.capture.sharding import Layout

    if experiment.dtype == "float32":
        set_mat_mul_precision("highest")  # a TPU multiplies float32 in bfloat16 otherwise
    layout = Layout(experiment)
    model.set_attn_implementation(ATTENTION)
    model.to(torch_xla.device())
    layout.place_model(model)
    add_scopes(model, experiment.scopes)
    return layout


def profile_requests(
    model: torch.nn.Module,
    layout: Layout,
    experiment: Experiment,
    prompts: list[torch.Tensor],
    folder: Path,
) -> Outcome:
    """Warm up, then run the requests under the profiler, whose session goes to `folder`.

    Raises:
        CaptureError: a profiled step compiled, or the profiler left no trace.
    """
    from xlahouse.capture.decode import Generator
    from xlahouse.capture.profile import session
    from xlahouse.capture.record import counts

    generator = Generator(model, experiment, layout)
    for warmup in range(experiment.warmup_requests):
        say("progress", f"warm-up {warmup + 1} of {experiment.warmup_requests}")
        generator.run(prompts[0], marked((WARMUP, WARMUP), warmup))
    say("progress", f"profiling {experiment.requests} requests")
    before = counts()
    with session(folder):
        runs = [run_request(generator, prompt, index) for index, prompt in enumerate(prompts)]
    spent = counts() - before
    if spent.compiles:
        raise CaptureError(
            f"{spent.compiles} programs were compiled while profiling; raise warmup_requests"
        )
    steps = experiment.requests * experiment.output_tokens
    warnings = []
    if spent.launches != steps:
        warnings.append(f"{spent.launches} launches for {steps} steps: more than one a step")
        say("warning", warnings[-1])
    return Outcome(
        tokens=[tokens for tokens, _ in runs],
        timings=[timing for _, timing in runs],
        warnings=warnings,
    )


def run_request(
    generator: Generator, prompt: torch.Tensor, index: int
) -> tuple[torch.Tensor, RequestTiming]:
    """One profiled request inside its marker: its tokens and host-clock times."""
    from xlahouse.capture.profile import marker

    with marker(REQUEST, index):
        tokens, durations = generator.run(prompt, marked((PREFILL, DECODE), index))
    return tokens, RequestTiming(request=index, ttft_s=durations[0], step_s=durations[1:])


def marked(names: tuple[str, str], request: int) -> Any:
    """A step's marker by its number: the first name for step 0, the second for the others."""
    from xlahouse.capture.profile import marker

    def open_marker(step: int) -> AbstractContextManager[Any]:
        return marker(names[step > 0], request, step)

    return open_marker


def check_tokens(outcome: Outcome, expected: list[torch.Tensor], experiment: Experiment) -> None:
    """Compare with the unsharded model's tokens; in bfloat16, where rounding may decide between
    two tokens, a difference is recorded and not refused.

    Raises:
        CaptureError: float32 tokens differ; names the first place.
    """
    for request, (got, want) in enumerate(zip(outcome.tokens, expected, strict=True)):
        wrong = (got != want).nonzero().tolist()
        if wrong and experiment.dtype == "float32":
            sequence, step = wrong[0]
            raise CaptureError(
                f"request {request}, sequence {sequence}, step {step}: the sharded model gives "
                f"token {int(got[sequence, step])}, the unsharded one {int(want[sequence, step])}; "
                "the sharding changes the result"
            )
        outcome.matches.append(not wrong)


def say(kind: str, message: str) -> None:
    """Tell the parent process."""
    print(msgspec.json.encode(Note(kind, message)).decode(), flush=True)


def main() -> int:
    """Read the job, run it; 1 after an error that the parent was told about."""
    try:
        capture(msgspec.json.decode(sys.stdin.buffer.read(), type=Job))
    except XlahouseError as error:
        say("error", str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
