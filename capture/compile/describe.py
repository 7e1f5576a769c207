"""Builds the manifest of a compiled run: that of a capture, without times and tokens."""

from __future__ import annotations

import platform
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from xlahouse.capture.compile.lower import Lowered
from xlahouse.capture.compile.target import Target
from xlahouse.capture.manifest import Manifest
from xlahouse.capture.models.decode import LOGIT_POSITIONS
from xlahouse.capture.models.pipeline import schedule
from xlahouse.capture.models.presets import size_of
from xlahouse.capture.plan import Experiment

if TYPE_CHECKING:
    from xlahouse.capture.compile.cell import CompiledRun


def describe(
    experiment: Experiment, target: Target, lowered: Lowered, run: CompiledRun
) -> Manifest:
    """The manifest beside a compiled run's folder."""
    sizes = experiment.model.sizes
    decode = run.programs["decode"]
    places = decode.devices[: target.device_count]
    piped = experiment.mesh.get("pp", 1) > 1
    return Manifest(
        name=experiment.name,
        captured_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        framework="torch_xla",
        framework_versions={"python": platform.python_version(), **lowered.versions},
        model=experiment.model.name,
        model_family=experiment.model.family,
        model_config={**sizes},
        weights=experiment.model.weights or f"random:{experiment.seed}",
        layers=size_of(sizes, "num_hidden_layers"),
        hidden_size=size_of(sizes, "hidden_size"),
        dtype=experiment.dtype,
        batch_size=experiment.batch_size,
        microbatches=experiment.microbatches,
        prompt_tokens=experiment.prompt_tokens,
        output_tokens=experiment.output_tokens,
        parallelism=experiment.parallelism,
        mesh=experiment.axes,
        mesh_device_ids=list(range(experiment.device_count)),
        device_coords=[place.coords for place in places],
        device_kind=decode.device_kind,
        device_count=experiment.device_count,
        host_count=target.slice.hosts,
        repeat=experiment.repeat,
        warmup_requests=experiment.warmup_requests,
        requests=[],
        tokens=[],
        flags={"LIBTPU_INIT_ARGS": target.flags},
        parameters=lowered.parameters,
        weight_bytes=lowered.weight_bytes,
        kv_bytes_per_token=lowered.kv_bytes_per_token,
        head_weights=size_of(sizes, "vocab_size") * size_of(sizes, "hidden_size"),
        logit_positions=LOGIT_POSITIONS,
        stage_layers=experiment.stages.layers,
        tick_microbatch=schedule(experiment.mesh["pp"], experiment.microbatches) if piped else [],
        plan_entry=msgspec.to_builtins(experiment),
        warnings=[*lowered.warnings, *([target.note] if target.note else [])],
    )
