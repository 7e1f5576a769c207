"""Builds the manifest of a compiled run: that of a capture, without times and tokens."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from xlahouse.capture.compile.lower import Lowered
from xlahouse.capture.compile.target import Target
from xlahouse.capture.compiled_facts import CompiledRun
from xlahouse.capture.manifest import Manifest
from xlahouse.capture.plan import Experiment
from xlahouse.capture.run.overhead import dispatch_depth
from xlahouse.capture.run.record import planned


def describe(
    experiment: Experiment, target: Target, lowered: Lowered, run: CompiledRun
) -> Manifest:
    """The manifest beside a compiled run's folder: of its choices, as a capture on these chips has them."""
    fields = planned(experiment)
    versions = fields["framework_versions"] | {"libtpu": run.compiler["libtpu"]}
    program = next(iter(run.programs.values()))
    coords = {place.id: place.coords for place in program.devices}
    return Manifest(
        **fields | {"framework_versions": versions},
        captured_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        model_config={**experiment.model.sizes},
        weights=experiment.model.weights or f"random:{experiment.seed}",
        mesh_device_ids=list(range(experiment.device_count)),
        device_coords=[coords[number] for number in range(target.device_count)],
        device_kind=program.device_kind,
        host_count=target.slice.hosts,
        requests=[],
        tokens=[],
        flags=lowered.flags | {"LIBTPU_INIT_ARGS": target.flags},
        parameters=lowered.parameters,
        weight_bytes=lowered.weight_bytes,
        kv_bytes_per_token=lowered.kv_bytes_per_token,
        plan_entry=msgspec.to_builtins(experiment),
        dispatch_depth=dispatch_depth(experiment, virtual=False),
        warnings=[target.note] if target.note else [],
    )
