"""Finds microbatch and layer of the ops of a stage-stacked pipeline, or that they are masked."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

import polars as pl

from xlahouse.capture.manifest import Manifest

STAGE_AXIS = "pp"


@dataclass(frozen=True)
class TickSchedule:
    """The pipeline that a manifest describes."""

    stage_of: dict[int, int] = field(default_factory=dict)  # by logical device id
    layers: list[tuple[int, int, int]] = field(default_factory=list)  # stage, local index, layer
    # tick, stage, microbatch: None where the stage holds none
    microbatches: list[tuple[int, int, int | None]] = field(default_factory=list)


NO_PIPELINE = TickSchedule()


def schedule_of(manifest: Manifest | None) -> TickSchedule:
    """The schedule of a run; empty without a manifest, a `pp` axis or ticks."""
    if manifest is None or not manifest.tick_microbatch:
        return TickSchedule()
    return TickSchedule(
        stage_of=_stages(manifest),
        layers=[
            (stage, local, layer)
            for stage, layers in enumerate(manifest.stage_layers)
            for local, layer in enumerate(layers)
        ],
        microbatches=[
            (tick, stage, microbatch)
            for tick, row in enumerate(manifest.tick_microbatch)
            for stage, microbatch in enumerate(row)
        ],
    )


def place_in_pipeline(ops: pl.DataFrame, schedule: TickSchedule) -> pl.DataFrame:
    """Fill `microbatch`, the model's own `layer`, and `masked` of ops inside a tick.

    Args:
        ops: with device_id (logical ids of the manifest's world), tick and layer; in a tick, layer
            is the stage's local index, as the stacked module's scopes have it.
        schedule: of the run.

    Returns:
        ops with microbatch and masked added (NULL outside a tick, or without a schedule), and
        layer replaced inside ticks: NULL where the schedule has no such layer.
    """
    in_tick = pl.col("tick").is_not_null()
    if not schedule.stage_of:
        unknown = {"microbatch": pl.lit(None, pl.Int64), "masked": pl.lit(None, pl.Boolean)}
        return ops.with_columns(layer=pl.when(~in_tick).then("layer"), **unknown)
    stage = pl.col("device_id").replace_strict(
        schedule.stage_of, default=None, return_dtype=pl.Int64
    )
    integers = pl.Int64
    ticks = pl.DataFrame(
        schedule.microbatches,
        schema={"tick": integers, "stage": integers, "microbatch": integers},
        orient="row",
    ).with_columns(masked=pl.col("microbatch").is_null())
    layers = pl.DataFrame(
        schedule.layers,
        schema={"stage": integers, "layer": integers, "model_layer": integers},
        orient="row",
    )
    staged = ops.drop("microbatch", "masked", strict=False).with_columns(stage=stage)
    placed = staged.join(ticks, on=["tick", "stage"], how="left", maintain_order="left")
    placed = placed.join(layers, on=["stage", "layer"], how="left", maintain_order="left")
    layer = pl.when(in_tick).then("model_layer").otherwise("layer")
    return placed.with_columns(layer=layer).drop("stage", "model_layer")


def _stages(manifest: Manifest) -> dict[int, int]:
    """Logical device id -> coordinate on the stage axis; empty where the mesh has none."""
    names = [axis.axis for axis in manifest.mesh]
    if STAGE_AXIS not in names:
        return {}
    place = names.index(STAGE_AXIS)
    size = manifest.mesh[place].size
    minor = prod(axis.size for axis in manifest.mesh[place + 1 :])
    ids = manifest.mesh_device_ids or range(prod(axis.size for axis in manifest.mesh))
    return {device: position // minor % size for position, device in enumerate(ids)}
