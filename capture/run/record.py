"""Builds a capture's manifest: versions, flags, sizes, times and tokens."""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.manifest import Manifest, RequestTiming, ServerLog
from xlahouse.capture.models.cache import bytes_per_token
from xlahouse.capture.models.decode import (
    ELSEWHERE,
    LOGIT_POSITIONS,
    DecodeTimes,
    late_ratio,
    launches_ended,
)
from xlahouse.capture.models.pipeline import masked_note, schedule
from xlahouse.capture.models.presets import size_of
from xlahouse.capture.run.devices import (
    by_ordinal,
    compiler_notes,
    device_coords,
    device_kind,
    device_slices,
)
from xlahouse.capture.run.overhead import ProfilerCost
from xlahouse.capture.run.reference import LOGITS_TOLERANCE, OutputComparison

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.sharded import ShardedModel
    from xlahouse.capture.plan import Experiment
    from xlahouse.capture.run.sources import OpenedWeights

RECORDED_PACKAGES = ("torch", "torch_xla", "transformers", "libtpu")  # those that are installed
RECORDED_VARIABLES = (
    "PJRT_DEVICE",
    "CPU_NUM_DEVICES",
    "XLA_IR_DEBUG",
    "XLA_HLO_DEBUG",
    "XLA_FLAGS",
    "LIBTPU_INIT_ARGS",  # torch_xla completes it by the kind of chip
    "TPU_MEGACORE",
)
DTYPE_BYTES = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Outcome:
    """Results of the profiled requests; tokens and timings have one item for each."""

    captured_at: str  # start of profiling, ISO 8601, UTC
    tokens: list[torch.Tensor]  # [batch, profiled tokens] each
    times: list[DecodeTimes]  # by the host's clock
    warnings: list[str]  # for the manifest
    profiler_cost: ProfilerCost  # with against without the profiler
    dispatch_depth: int  # decode steps sent before the tokens of an earlier one are awaited
    launches_per_step: float  # programs launched, over prefills and decode steps
    compiles: int  # programs that were compiled, and not taken from an earlier capture
    jobs_before: int = 0  # experiments that the process ran before
    server: ServerLog | None = None  # of a serving experiment, which has the times of its requests

    @property
    def requests(self) -> list[RequestTiming]:
        """The times as the manifest lists them."""
        if self.server is not None:
            return []
        return [
            RequestTiming(request=index, ttft_s=each.steps[0], step_s=each.steps[1:])
            for index, each in enumerate(self.times)
        ]

    @property
    def host_step_s(self) -> float | None:
        """CPU time of the thread that sends a decode step: the median; None without decode steps."""
        sending = [seconds for each in self.times for seconds in each.sending]
        return statistics.median(sending) if sending else None


@dataclass(frozen=True)
class Counts:
    """torch_xla's counters of programs compiled and launched so far."""

    compiles: int  # programs compiled
    launches: int  # programs launched

    def __sub__(self, earlier: Counts) -> Counts:
        return Counts(self.compiles - earlier.compiles, self.launches - earlier.launches)


def counts() -> Counts:
    """Wait for all launches and read the counters; one that does not exist yet is 0."""
    import torch_xla.debug.metrics as met

    launches = launches_ended()
    # CompileTime has a sample for every compilation; the counter UncachedCompile omits programs that
    # torch_xla adds, such as the one that gathers a sharded tensor.
    compiles = met.metric_data("CompileTime")
    return Counts(int(compiles[0]) if compiles else 0, launches)


def check_counts(spent: Counts, steps: int) -> list[str]:
    """Check that profiling `steps` steps compiled nothing and launched one program a step.

    Returns warnings: with more launches step times are harder to read, but right.

    Raises:
        CaptureError: a program was compiled.
    """
    if spent.compiles:
        raise CaptureError(
            f"a profiled step was not warm: XLA compiled {spent.compiles} times; "
            "raise warmup_requests to 1 or more"
        )
    if spent.launches == steps:
        return []
    return [f"{spent.launches} launches for {steps} steps, but one a step is expected"]


def framework_versions() -> dict[str, str]:
    """Package -> version, of Python and the RECORDED_PACKAGES."""
    found = {package: version(package) for package in RECORDED_PACKAGES if find_spec(package)}
    return {"python": platform.python_version(), **found}


def planned(experiment: Experiment) -> dict[str, Any]:
    """The manifest's fields that follow from the plan and the packages, whatever runs."""
    sizes, serves = experiment.model.sizes, experiment.serving is not None
    piped = experiment.mesh.get("pp", 1) > 1
    return {
        "name": experiment.name,
        "framework": "torch_xla",
        "framework_versions": framework_versions(),
        "model": experiment.model.name,
        "model_family": experiment.model.family,
        "layers": size_of(sizes, "num_hidden_layers"),
        "hidden_size": size_of(sizes, "hidden_size"),
        "dtype": experiment.dtype,
        "batch_size": experiment.batch_size,
        "microbatches": experiment.microbatches,
        "prompt_tokens": None if serves else experiment.prompt_tokens,
        "output_tokens": None if serves else experiment.profiled_tokens,
        "parallelism": experiment.parallelism,
        "mesh": experiment.axes,
        "device_count": experiment.device_count,
        "repeat": experiment.repeat,
        "warmup_requests": experiment.warmup_requests,
        "head_weights": size_of(sizes, "vocab_size") * size_of(sizes, "hidden_size"),
        "logit_positions": LOGIT_POSITIONS,
        "stage_layers": experiment.stages.layers,
        "tick_microbatch": schedule(experiment.mesh["pp"], experiment.microbatches)
        if piped
        else [],
    }


def describe(
    opened: OpenedWeights,
    entry: Experiment,
    sharded: ShardedModel,
    outcome: Outcome,
    comparison: OutputComparison,
) -> Manifest:
    """The manifest of a finished capture; `entry` is the plan's."""
    import torch_xla.runtime as xr

    experiment = opened.experiment
    sizes, placed = experiment.model.sizes, sharded.placed
    width, differences = DTYPE_BYTES[experiment.dtype], comparison.differences
    piped = experiment.mesh.get("pp", 1) > 1
    virtual = os.environ.get("PJRT_DEVICE") == "CPU"
    masked = (
        masked_note(placed, sharded.stages, experiment.microbatches, virtual) if piped else None
    )
    attributes = by_ordinal(xr.global_runtime_device_attributes())
    kind = device_kind(attributes, str(xr.device_type()))
    return Manifest(
        **planned(experiment),
        captured_at=outcome.captured_at,
        model_config=sizes | opened.further,
        weights=sharded.source_label,
        mesh_device_ids=sharded.layout.device_ids,
        device_coords=device_coords(attributes),
        device_slices=device_slices(attributes),
        device_kind=kind,
        host_count=xr.process_count(),
        requests=outcome.requests,
        server=outcome.server,
        tokens=[[] if ELSEWHERE in row else row for row in outcome.tokens[-1].tolist()],
        tokens_match_unsharded=None if differences is None else not differences,
        flags={name: os.environ[name] for name in RECORDED_VARIABLES if name in os.environ},
        parameters=placed.parameters,
        weight_bytes=placed.weight_bytes,
        kv_bytes_per_token=bytes_per_token(experiment.model.family, sharded.model.config, width),
        plan_entry=msgspec.to_builtins(entry),
        warnings=[
            *opened.notes,
            *outcome.warnings,
            *compiler_notes(experiment.mesh, kind),
            *(differences or []),
            *([masked] if masked else []),
        ],
        profiler_cost_ratio=outcome.profiler_cost.ratio,
        profiler_cost_quartiles=outcome.profiler_cost.quartiles,
        profiler_cost_unknown=outcome.profiler_cost.unknown,
        cost_pairs=outcome.profiler_cost.pairs,
        dispatch_depth=outcome.dispatch_depth,
        host_step_s=outcome.host_step_s,
        launches_per_step=outcome.launches_per_step,
        host_late_ratio=late_ratio(outcome.times),
        programs_compiled=outcome.compiles,
        jobs_before=outcome.jobs_before,
        logits_difference=comparison.logits,
        logits_tolerance=None if comparison.logits is None else LOGITS_TOLERANCE,
    )
