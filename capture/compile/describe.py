"""Builds the manifest of a compiled run: that of a capture, without times and tokens."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from xlahouse.capture.compile.lower import Lowered
from xlahouse.capture.compile.target import Target
from xlahouse.capture.manifest import Manifest
from xlahouse.capture.plan import Experiment
from xlahouse.capture.run.record import planned

if TYPE_CHECKING:
    from xlahouse.capture.compile.cell import CompiledRun


def describe(
    experiment: Experiment, target: Target, lowered: Lowered, run: CompiledRun
) -> Manifest:
    """The manifest beside a compiled run's folder."""
    decode = run.programs["decode"]
    return Manifest(
        **planned(experiment),
        captured_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        model_config={**experiment.model.sizes},
        weights=experiment.model.weights or f"random:{experiment.seed}",
        mesh_device_ids=list(range(experiment.device_count)),
        device_coords=[place.coords for place in decode.devices[: target.device_count]],
        device_kind=decode.device_kind,
        host_count=target.slice.hosts,
        requests=[],
        tokens=[],
        flags={"LIBTPU_INIT_ARGS": target.flags},
        parameters=lowered.parameters,
        weight_bytes=lowered.weight_bytes,
        kv_bytes_per_token=lowered.kv_bytes_per_token,
        plan_entry=msgspec.to_builtins(experiment),
        warnings=[target.note] if target.note else [],
    )
