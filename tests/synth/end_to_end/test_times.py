"""Synthetic runs, ingested: times of steps, requests, waits and idleness equal their closed forms."""

from __future__ import annotations

import pytest

from tests.synth.end_to_end.ingested import assert_same, every_run
from tests.synth.summaries import SUMS

pytestmark = pytest.mark.xdist_group("synthetic")


@every_run
def test_device_time(ingested):
    parts = ("window", "compute", "collective", "overlapped", "exposed", "copy", "exposed_copy")
    parts += ("sync_wait", "busy", "idle", "period", "between_requests")
    columns = ("device_id", "request", "step", "phase", *(f"{part}_ps" for part in parts))
    found = ingested.rows("select * from device_time_v1 where step is not null")
    assert_same(found, ingested.expected["device_time"], columns)


@every_run
def test_exposed_collective(ingested):
    sums = ("count", "in_flight_ps", "exposed_ps", "exposed_ratio")
    summed = ", ".join(f"sum({name}) as {name}" for name in sums)
    keys = ("phase", "axis", "kind", "op")
    by = ", ".join(("run_id", *keys))
    sql = f"select {by}, {summed} from exposed_collective_v1 where phase is not null group by {by}"
    found = ingested.rows(sql)
    assert_same(found, ingested.expected["exposed_collective"], (*keys, *sums))


@every_run
def test_latency(ingested):
    columns = ("request", "source", "queue_s", "ttft_s", "request_ttft_s", "tpot_s", "e2e_s")
    columns += ("output_tokens_per_s", "launch_period_s")
    found = ingested.rows("select * from latency_v3")
    assert_same(found, ingested.expected["latency"], columns)


@every_run
def test_comm_compute(ingested):
    names = [*(f"{name}_ps" for name in SUMS), "phase", "device_steps"]
    names += ["between_steps_ps", "outside_ps"]
    names += ["comm_compute_ratio", "exposed_ratio", "idle_ratio", "idle_in_step_ratio"]
    found = ingested.rows("select * from comm_compute_v2 where phase is not null")
    assert_same(found, ingested.expected["comm_compute"], names)


@every_run
def test_step_latency(ingested):
    found = ingested.rows("select * from step_latency_v1")
    columns = ("request", "step", "phase", "latency_s")
    assert_same(found, ingested.expected["step_latency"], columns)


@pytest.mark.parametrize(
    "view",
    ["launch_overhead", "load_balance", "scheduling", "step_time", "straggler"],
)
@every_run
def test_times(ingested, view):
    where = " where step is not null" if view in ("load_balance", "step_time") else ""
    expected = ingested.expected[view]
    columns = [name for name in expected[0] if name != "start"]
    assert_same(ingested.rows(f"select * from {view}{where}"), expected, columns)


@every_run
def test_host_gap(ingested):
    expected = ingested.expected["host_gap"]
    columns = list(expected[0]) if expected else ["phase"]
    assert_same(ingested.rows("select * from host_gap_v1"), expected, columns)


@every_run
def test_clock_offset(ingested):
    expected = ingested.expected["clock_offset"]
    assert_same(ingested.rows("select * from clock_offset_v2"), expected, list(expected[0]))


@pytest.mark.parametrize("view", ["bubble", "idle_gap", "sync_wait"])
@every_run
def test_idleness(ingested, view):
    expected = ingested.expected[view]
    version = 1 if view == "sync_wait" else 2
    found = ingested.rows(f"select * from {view}_v{version} where step is not null")
    assert_same(found, expected, list(expected[0]) if expected else ["device_id"])
