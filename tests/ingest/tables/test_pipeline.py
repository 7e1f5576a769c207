"""Ops of a stage-stacked pipeline get their microbatch, their layer, and the mark of masked work."""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl

from tests.capture.test_manifest import MANIFEST as ANY
from xlahouse.capture.manifest import MeshAxis
from xlahouse.ingest.hlo.scopes import layer_of, tick_of
from xlahouse.ingest.tables.busy import busy_intervals
from xlahouse.ingest.tables.pipeline import TickSchedule, place_in_pipeline, schedule_of
from xlahouse.ingest.tables.placed_ops import PlacedOps

# Layer 0 runs before stage 0; two stages of two layers; two microbatches take three ticks.
MANIFEST = msgspec.structs.replace(
    ANY,
    mesh=[MeshAxis("pp", 2), MeshAxis("tp", 2)],
    mesh_device_ids=[0, 2, 1, 3],
    stage_layers=[[1, 2], [3, 4]],
    tick_microbatch=[[0, None], [1, 0], [None, 1]],
)


def _ops(*rows):
    return pl.DataFrame(
        rows,
        schema={"device_id": pl.Int64, "tick": pl.Int64, "layer": pl.Int64},
        orient="row",
    )


def test_stage_microbatch_and_layer_follow_the_mesh_order():
    # Devices 0 and 2 are the two tp members of stage 0, 1 and 3 those of stage 1.
    ops = _ops((0, 0, 1), (2, 1, 0), (1, 0, 0), (3, 2, 1), (1, 1, None), (0, None, 0))
    placed = place_in_pipeline(ops, schedule_of(MANIFEST))
    assert placed.select("layer", "microbatch", "masked").rows() == [
        (2, 0, False),
        (1, 1, False),
        (3, None, True),
        (4, 1, False),
        (None, 0, False),
        (0, None, None),
    ]


def test_without_a_schedule_nothing_is_known_of_a_tick():
    placed = place_in_pipeline(_ops((0, 1, 1), (0, None, 1)), TickSchedule())
    assert placed.select("layer", "microbatch", "masked").rows() == [
        (None, None, None),
        (1, None, None),
    ]


def test_masked_compute_is_an_interval_of_its_own_beside_compute():
    kinds = pl.DataFrame(
        {
            "op": ["fusion.1", "fusion.2", "all-reduce.1"],
            "category": ["compute", "compute", "collective"],
            "masked": [True, False, True],
            "communicates": [None, False, None],
        }
    ).with_columns(on_async_line=False)
    launches = pl.DataFrame({"launch": [0, None], "request": [0, None], "step": [0, None]})
    ops = PlacedOps(
        kinds=kinds,
        launches=launches,
        device_id=np.zeros(3, np.int64),
        kind=np.arange(3),
        launch=np.zeros(3, np.int64),
        start_ps=np.array([0, 10, 20]),
        duration_ps=np.full(3, 10),
        self_ps=np.full(3, 10),
    )
    busy = busy_intervals(ops, pl.DataFrame()).sort(pl.col("category").cast(pl.String))
    assert busy.select("category", "start_ps", "duration_ps").rows() == [
        ("collective", 20, 10),
        ("compute", 0, 20),
        ("masked", 0, 10),
    ]


def test_ticks_and_local_layers_are_read_from_the_scopes():
    path = "xlahouse.tick.12/model.layers.1.7/model.layers.1.self_attn.4/aten__mm"
    assert (tick_of(path), layer_of(path)) == (12, 1)
    assert tick_of("model.tick.3/aten__mm") is None
