"""Predictions of runs with noise: a compiled tp8 from the links of measured tp4 runs, and faster links."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import msgspec
import pytest

from tests.ingest.compiled_build import write_compiled
from tests.sql.predict.conftest import ingest
from tests.synth.describe import DECODE, PREFILL, Cost, Run
from tests.synth.lower import hlo_proto, lower
from tests.synth.programs import programs
from tests.synth.times import step_window
from tests.synth.write import manifest
from xlahouse.capture.manifest import write_manifest
from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.predict.changes import Change, Rate
from xlahouse.sql.predict.forecast import forecast_run
from xlahouse.sql.predict.loading import find_run, load_parent
from xlahouse.sql.predict.writing import predict_run
from xlahouse.sql.warehouse import Warehouse

NOISE = 0.04  # each time of a run is off by at most this share
STEP_PS, BYTE_PS = 252_000, 64  # what a ring's step takes, and each byte that a member sends in it
TIMES = ("embedding", "attention", "mlp", "head", "link")
PICOSECOND = "1000GHz"  # a clock by which cycles are picoseconds


def ring(members: int) -> Cost:
    """An all-reduce of S bytes: 2 (n - 1) steps, and 2 (n - 1) / n S bytes are sent."""
    steps = 2 * (members - 1)
    return Cost(steps * STEP_PS, BYTE_PS * steps // members)


def noisy(run: Run, seed: int) -> Run:
    draw = random.Random(f"{run.name} {seed}")

    def off(cost: Cost) -> Cost:
        return Cost(*(round(ps * (1 + draw.uniform(-NOISE, NOISE))) for ps in vars(cost).values()))

    times = {name: off(getattr(run, name)) for name in TIMES}
    return replace(run, name=f"{run.name}.{seed}", seed=seed, **times)


TP4 = Run(name="tp4", link=ring(4), barriers=False)
TP8 = Run(name="tp8", link=ring(8), barriers=False, mesh=(("tp", 8),))


def compiled(run: Run, root) -> None:
    """The programs of a run as a compiler states them: in order, with the cycles of each computation."""
    made = {}
    for program in programs(run):
        proto = message_class("HloProto")()
        proto.ParseFromString(hlo_proto(run, program, lower(run, program)))
        module = proto.hlo_module
        entry = module.computations[-1]
        module.entry_computation_id = entry.id
        order = module.schedule.sequences.add(key=entry.id).value
        order.instruction_ids.extend(each.id for each in entry.instructions)
        cycles = {each.op: each.ps for each in program.segments if each.what == "compute"}
        for each in entry.instructions:
            if (name := each.name.decode()) in cycles:
                window = {"window_config": {"estimated_cycles": str(cycles[name])}}
                each.backend_config = json.dumps(window).encode()
        made[program.phase] = proto.SerializeToString()
    write_compiled(root, made)
    write_manifest(msgspec.structs.replace(manifest(run), name="program"), root / "metadata_1.json")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """(a warehouse of noisy runs of tp4, the runs): prompts of three lengths, three runs of each."""
    runs = [
        noisy(replace(TP4, name=f"tp4.{tokens}", prompt_tokens=tokens), seed)
        for tokens in (16, 32, 64)
        for seed in range(3)
    ]
    return ingest(tmp_path_factory.mktemp("noise"), runs), runs


@pytest.mark.verify
def test_tp8_is_forecast_within_the_noise_of_tp4(measured, tmp_path):
    root, _ = measured
    compiled(TP8, tmp_path / "compiled")
    ingest_paths([str(tmp_path / "compiled")], root, workers=1)
    with Warehouse(root) as warehouse:
        (name,) = [row["name"] for row in warehouse.runs(source="compiled")]
        found = forecast_run(warehouse, find_run(warehouse, name), PICOSECOND)
    origins = set(found.costs.filter(found.costs["part"] == "tp all-reduce")["origin"])
    assert origins == {"fitted_to_other_groups"}
    for phase in (PREFILL, DECODE):
        (row,) = found.steps.filter(found.steps["phase"] == phase).to_dicts()
        begin, end = step_window(TP8, phase, 0)
        assert abs(row["pessimistic_ps"] / (end - begin) - 1) < NOISE
        transfers = 2 * TP8.layers * TP8.link.ps(2 * TP8.hidden * TP8.tokens(phase))
        assert abs(row["pessimistic_exposed_ps"] / transfers - 1) < NOISE


@pytest.mark.verify
def test_what_faster_links_save_is_replayed_within_the_noise(measured):
    root, (*_, run) = measured
    sql = """
        select s.phase, avg(s.duration_ps) from device_steps s join runs r using (run_id)
        where r.name = 'fast' group by s.phase
    """
    with Warehouse(root) as warehouse:
        predict_run(load_parent(warehouse, run.name), Change(ici=Rate(times=2.0)), "fast")
    with Warehouse(root) as warehouse:
        found = dict(warehouse.query(sql).rows)
    for phase in (PREFILL, DECODE):
        begin, end = step_window(run, phase, 0)
        # Half of each byte's time is saved, in two all-reduces of a layer.
        sizes = 2 * run.layers * (2 * run.hidden * run.tokens(phase))
        saved = sizes * run.link.each_ps / 2
        assert abs((end - begin - found[phase]) / saved - 1) < NOISE, (
            found[phase],
            end - begin,
            saved,
        )
