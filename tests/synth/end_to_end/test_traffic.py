"""Synthetic runs, ingested: bytes, rates and intervals of collectives equal their closed forms."""

from __future__ import annotations

import pytest

from tests.synth.end_to_end.ingested import assert_same, every_run

pytestmark = pytest.mark.xdist_group("synthetic")


@every_run
def test_traffic_volume(ingested):
    columns = ("device_id", "phase", "axis", "kind", "collectives", "instances")
    found = ingested.rows("select * from traffic_volume_v1")
    expected = ingested.expected["traffic_volume"]
    assert_same(found, expected, (*columns, "payload_bytes", "wire_bytes"))


@every_run
def test_traffic_matrix(ingested):
    columns = ("phase", "axis", "kind", "algorithm", "source_device_id", "target_device_id")
    found = ingested.rows("select * from traffic_matrix_v1")
    assert_same(found, ingested.expected["traffic_matrix"], (*columns, "bytes"))


@every_run
def test_collective_bandwidth(ingested):
    columns = ("program_id", "op", "axis", "kind", "phase", "request", "step", "group_size")
    columns += ("participants_seen", "payload_bytes", "wire_bytes", "skew_ps", "transfer_ps")
    columns += ("is_bound", "algbw_bytes_per_s", "busbw_bytes_per_s")
    found = ingested.rows("select * from collective_bandwidth_v3")
    assert_same(found, ingested.expected["collective_bandwidth"], columns)
    columns = (*columns[:7], "transfer_ps", "ici_link_count", "ici_ps", "is_impossible")
    assert_same(found, ingested.expected["link_use"], (*columns, "utilization_ratio"))


@every_run
def test_expected_traffic(ingested):
    found = ingested.rows("select * from expected_traffic_v1")
    expected = ingested.expected["expected_traffic"]
    assert_same(found, expected, list(expected[0]) if expected else ["run_id"])


@every_run
def test_planned_traffic(ingested):
    found = ingested.rows("select * from planned_traffic_v1")
    expected = ingested.expected["planned_traffic"]
    assert_same(found, expected, list(expected[0]) if expected else ["run_id"])


@every_run
def test_step_load(ingested):
    found = ingested.rows("select * from step_load_v1")
    expected = ingested.expected["step_load"]
    assert_same(found, expected, ("phase", "metric", "source", "value"))
    for view in ("compiler_cost_v1", "compiler_roofline_v1", "program_fit_v1"):
        assert ingested.rows(f"select * from {view}") == []


@every_run
def test_link_traffic(ingested):
    found = ingested.rows("select * from link_traffic_v1")
    expected = ingested.expected["link_traffic"]
    assert_same(found, expected, list(expected[0]) if expected else ["run_id"])


VIEWS = [
    "traffic_interval_v1",
    "traffic_interval_summary_v2",
    "traffic_burst_v2",
    "traffic_window_v2",
    "traffic_window_summary_v2",
    "reconfiguration_fit_v2",
    "reconfiguration_cost_v1",
    "traffic_demand_v1",
    "traffic_timeline_v1",
    "collective_latency_summary_v2",
    "bandwidth_summary_v3",
]


@pytest.mark.parametrize("view", VIEWS)
@every_run
def test_traffic(ingested, view):
    found = ingested.rows(f"select * from {view}")
    base = view.rpartition("_v")[0]
    expected = ingested.expected[base]
    if base == "traffic_burst":  # time zero is not the answers' own
        found = [{**row, "length_ps": row["end_ps"] - row["start_ps"]} for row in found]
    columns = [name for name in expected[0] if name not in ("start", "end")] if expected else ()
    assert_same(found, expected, columns or ["run_id"])


# The rate of a bin is the difference of two running sums over the whole period.
PROFILE_LEEWAY = 1e-10


@every_run
def test_traffic_profile(ingested):
    found = ingested.rows("select * from traffic_profile_v1 where phase is not null")
    expected = [row for row in ingested.expected["traffic_profile"] if row["phase"] is not None]
    assert_same(found, expected, list(expected[0]) if expected else ["run_id"], PROFILE_LEEWAY)
