"""expected_traffic against a forward pass walked tensor by tensor, over layouts drawn at random."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import partial
from random import Random

import pytest

from tests.each import check_each
from tests.synth.answers.expected import Layout, expected
from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse

AXES = [
    axes
    for count in (1, 2, 3)
    for axes in itertools.combinations(("dp", "fsdp", "ep", "pp", "tp", "sp"), count)
    # tp and sp split the same weights; what fsdp gathers in a pipeline, and how often, is not defined
    if not {"tp", "sp"} <= set(axes) and not {"fsdp", "pp"} <= set(axes)
]
TENSOR = ("tp", "sp")
BYTES = {"bfloat16": 2, "float32": 4}


def draw(seed: int) -> Layout:
    """A layout; each combination of axes has its turn."""
    rng = Random(seed)
    mesh = {axis: rng.choice((2, 4)) for axis in AXES[seed % len(AXES)]}
    parts = math.prod(mesh.get(axis, 1) for axis in ("dp", "fsdp", "ep"))
    microbatches, stages = rng.choice((1, 2, 3)), mesh.get("pp", 1)
    stage_layers, leading = rng.choice((1, 2)), rng.choice((0, 1, 2))
    layers = leading + (stages * stage_layers if stages > 1 else 2)
    hidden, experts = 8 * rng.randint(1, 5), rng.choice((4, 8))
    return Layout(
        mesh=mesh,
        layers=layers,
        hidden=hidden,
        vocabulary=rng.randint(10, 500),
        batch=parts * microbatches * rng.choice((1, 2)),
        prompt_tokens=4 * rng.randint(1, 6),
        microbatches=microbatches,
        stage_layers=stage_layers if stages > 1 else None,
        experts=experts if "ep" in mesh else 0,
        chosen=rng.choice((1, 2)),
        capacity=rng.choice((1.0, 1.25, 2.0, 4.0)),
        # the stages hold all layers with experts, and nothing else
        first_expert_layer=leading if stages > 1 else rng.choice((0, 1)),
        matrices=[
            (64 * rng.randint(1, 50), rng.choice(((), TENSOR, ("ep", *TENSOR)))) for _ in range(7)
        ],
    )


LAYOUTS = {f"{seed}": draw(seed) for seed in range(3 * len(AXES))}


def run_row(layout: Layout, number: int) -> dict:
    """What ingest notes down about a run of that layout."""
    sums: Counter = Counter()
    for elements, axes in layout.matrices:
        sums[axes] += elements
    return {
        "mesh": [{"axis": axis, "size": size} for axis, size in layout.mesh.items()],
        "dtype": sorted(BYTES)[number % 2],
        "layers": layout.layers,
        "hidden_size": layout.hidden,
        "vocab_size": layout.vocabulary,
        "batch_size": layout.batch,
        "prompt_tokens": layout.prompt_tokens,
        "microbatches": layout.microbatches,
        "stage_layers": layout.stage_layers,
        "expert_layers": layout.layers - layout.first_expert_layer if layout.experts else 0,
        "experts": layout.experts or None,
        "experts_per_token": layout.chosen,
        "capacity_factor": layout.capacity,
        "tensor_weights": sums[TENSOR],
        "whole_weights": sums[()],
        "expert_weights": sums["ep", *TENSOR],
        "weight_matrices": len(layout.matrices),
    }


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Layout -> (phase, axis, kind) -> collectives and bytes that the view expects."""
    tables: dict[str, list] = {"runs": [], "devices": [], "launches": []}
    for number, (name, layout) in enumerate(LAYOUTS.items()):
        tables["runs"].append({"run_id": name, **run_row(layout, number)})
        for device in range(math.prod(layout.mesh.values())):
            place = {"run_id": name, "device_id": device}
            tables["devices"].append(
                {**place, "logical_id": device, "world": 0, "core": "tensorcore"}
            )
        for launch, step in enumerate(
            (0, 1, 2)
        ):  # of one device, which saw one prefill and two decodes
            at = {
                "launch": launch,
                "start_ps": launch,
                "duration_ps": 1,
                "request": 0,
                "step": step,
            }
            phase = "decode" if step else "prefill"
            tables["launches"].append({"run_id": name, "device_id": 0, "phase": phase, **at})
    rows: dict[str, dict] = {name: {} for name in LAYOUTS}
    with Warehouse(write_warehouse(tmp_path_factory.mktemp("layouts"), tables)) as warehouse:
        for row in warehouse.query("select * from expected_traffic_v1").dicts():
            assert row["expected_problem"] is None
            key = row["phase"], row["axis"], row["kind"]
            rows[row["run_id"]][key] = row["expected_count"], row["expected_payload_bytes"]
    return rows


def test_layouts(found: dict) -> None:
    check_each("layouts", {name: partial(has_the_traffic, name, found) for name in LAYOUTS})


def has_the_traffic(name: str, found: dict) -> None:
    layout, size = LAYOUTS[name], BYTES[run_row(LAYOUTS[name], int(name))["dtype"]]
    wanted = expected(layout, Counter({("prefill", True): 1, ("decode", False): 2}))
    assert found[name] == {
        key: (count, round(elements * size)) for key, (count, elements) in wanted.items()
    }


def test_every_kind_is_drawn() -> None:
    seen = {
        (axis, kind)
        for layout in LAYOUTS.values()
        for _, axis, kind in expected(layout, Counter({("prefill", True): 1, ("decode", False): 1}))
    }
    assert seen == {
        ("tp", "all-reduce"),
        ("tp", "all-gather"),
        ("sp", "all-reduce"),
        ("sp", "all-gather"),
        ("sp", "reduce-scatter"),
        ("ep", "all-to-all"),
        ("fsdp", "all-gather"),
        ("pp", "collective-permute"),
    }
