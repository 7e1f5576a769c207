"""Turns what a capture did into its manifest: versions, flags, sizes, times and tokens."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec

from xlahouse.capture.manifest import Manifest, RequestTiming
from xlahouse.capture.models import FAMILY

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.plan import Experiment
    from xlahouse.capture.sharding import Layout

PACKAGES = ("torch", "torch_xla", "transformers")
FLAGS = (
    "PJRT_DEVICE",
    "CPU_NUM_DEVICES",
    "XLA_IR_DEBUG",
    "XLA_HLO_DEBUG",
    "XLA_FLAGS",
    "LIBTPU_INIT_ARGS",
)
DTYPE_BYTES = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Outcome:
    """What the profiled requests gave; tokens and timings have one item for each of them."""

    captured_at: str  # when profiling started, ISO 8601, UTC
    tokens: list[torch.Tensor]  # [batch, output_tokens] each
    timings: list[RequestTiming]
    warnings: list[str]


@dataclass(frozen=True)
class Counts:
    """torch_xla's own counters: programs compiled and programs launched so far."""

    compiles: int
    launches: int

    def __sub__(self, earlier: Counts) -> Counts:
        return Counts(self.compiles - earlier.compiles, self.launches - earlier.launches)


def counts() -> Counts:
    """Read the counters; one that does not exist yet has counted nothing."""
    import torch_xla.debug.metrics as met

    def samples(metric: str) -> int:
        data = met.metric_data(metric)
        return int(data[0]) if data else 0

    # CompileTime has a sample for every compilation; the counter UncachedCompile leaves out those
    # of programs that torch_xla adds itself, such as the one that gathers a sharded tensor.
    return Counts(samples("CompileTime"), samples("ExecuteReplicatedTime") + samples("ExecuteTime"))


def describe(
    experiment: Experiment,
    layout: Layout,
    model: torch.nn.Module,
    outcome: Outcome,
    differences: list[str],
) -> Manifest:
    """The manifest of a finished capture; `differences` are those from the unsharded tokens."""
    import torch_xla.runtime as xr

    sizes, width = experiment.model.sizes, DTYPE_BYTES[experiment.dtype]
    parameters = sum(parameter.numel() for parameter in model.parameters())
    kind = str(xr.global_runtime_device_attributes()[0].get("device_kind", xr.device_type()))
    return Manifest(
        name=experiment.name,
        captured_at=outcome.captured_at,
        framework="torch_xla",
        framework_versions={
            "python": platform.python_version(),
            **{package: version(package) for package in PACKAGES},
        },
        model=experiment.model.name,
        model_family=FAMILY,
        model_config=msgspec.to_builtins(sizes),
        weights=f"random:{experiment.seed}",
        layers=sizes.num_hidden_layers,
        hidden_size=sizes.hidden_size,
        dtype=experiment.dtype,
        batch_size=experiment.batch_size,
        prompt_tokens=experiment.prompt_tokens,
        output_tokens=experiment.output_tokens,
        parallelism=experiment.parallelism,
        mesh=experiment.axes,
        mesh_device_ids=layout.device_ids,
        device_kind=kind.lower() if kind.upper() == "CPU" else kind,
        device_count=experiment.device_count,
        repeat=experiment.repeat,
        warmup_requests=experiment.warmup_requests,
        requests=outcome.timings,
        tokens=outcome.tokens[-1].tolist(),
        tokens_match_unsharded=not differences,
        flags={name: os.environ[name] for name in FLAGS if name in os.environ},
        parameters=parameters,
        weight_bytes=parameters * width,
        kv_bytes_per_token=2
        * sizes.num_hidden_layers
        * sizes.num_key_value_heads
        * sizes.head_dim
        * width,
        plan_entry=msgspec.to_builtins(experiment),
        warnings=[*outcome.warnings, *differences],
    )
