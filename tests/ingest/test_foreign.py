"""Small traces of other programs than this one's captures, with their right values."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.ingest.build import PlaneBuilder, space
from xlahouse.ingest.run import IngestError, ingest_paths
from xlahouse.sql.warehouse import Warehouse

CASES = Path(__file__).parents[1] / "cases" / "foreign"
PS = 10**6  # a microsecond


def ingested(case, tmp_path):
    ingest_paths([str(CASES / case)], str(tmp_path), name=str(case))
    return Warehouse(str(tmp_path))


def codes(warehouse):
    return {code for (code,) in warehouse.query("select code from issues").rows}


@pytest.mark.parametrize("case", ["tf_op_without_hlo", "tf_op_without_hlo_chrome"])
def test_without_hlo_the_framework_op_gives_layer_and_component(case, tmp_path):
    with ingested(case, tmp_path) as warehouse:
        sql = "select op, layer, component, duration_ps from ops order by start_ps"
        assert warehouse.query(sql).rows == [
            ("fusion.1", 3, "attention", 40 * PS),
            ("fusion.2", 3, "mlp", 60 * PS),
        ]
        sql = "select framework_op from instructions order by op"
        assert warehouse.query(sql).rows == [
            ("jit(f)/model.layers.3.self_attn/dot_general",),
            ("model.layers.3.7/model.layers.3.mlp.4/aten__mm",),
        ]


def test_kernels_of_replayed_graphs_are_in_the_step_that_launched_them(tmp_path):
    """Each step: three kernels of 90 at 200, 300 and 400 after its start, hence 290 from first to last."""
    with ingested("kineto_graph_replay_steps", tmp_path) as warehouse:
        sql = """
            select step, start_ps, window_ps, compute_ps from device_time order by start_ps
        """
        assert warehouse.query(sql).rows == [
            (step, (1000 * step + 200) * PS, 290 * PS, 270 * PS) for step in range(3)
        ]
        sql = "select module, enqueue_ps from launches order by start_ps"
        assert warehouse.query(sql).rows == [("execute", (1000 * k + 10) * PS) for k in range(3)]
        assert not codes(warehouse)


def test_ranks_of_a_merged_file_are_devices_and_are_counted(tmp_path):
    with ingested("kineto_merged_two_ranks", tmp_path) as warehouse:
        sql = "select device_id, local_ordinal from devices where traced order by 1"
        assert warehouse.query(sql).rows == [(0, 0), (1, 1)]
        assert not codes(warehouse) & {"one_rank", "device_number_assumed", "devices_missing"}
        sql = "select count(distinct instance), count(*) from collectives"
        assert warehouse.query(sql).rows == [(1, 2)]


def test_ranks_that_number_their_gpus_alike_stay_apart(tmp_path):
    """Each rank sees one GPU, number 0: identity is the rank with the number."""
    raw = gzip.decompress(next((CASES / "kineto_merged_two_ranks").iterdir()).read_bytes())
    (tmp_path / "in").mkdir()
    alike = raw.replace(b'"device": 1', b'"device": 0')
    (tmp_path / "in" / "m.trace.json.gz").write_bytes(gzip.compress(alike))
    with ingested(tmp_path / "in", tmp_path / "w") as warehouse:
        sql = "select device_id, local_ordinal from devices where traced order by 1"
        assert warehouse.query(sql).rows == [(0, 0), (1, 0)]
        sql = "select device_id, count(*) from ops group by 1 order by 1"
        assert warehouse.query(sql).rows == [(0, 2), (1, 2)]
        assert "one_rank" not in codes(warehouse)


def finding(warehouse, code):
    sql = f"select severity, message from issues where code = '{code}'"
    (row,) = warehouse.query(sql).rows
    return row


def test_a_run_whose_device_events_are_lost_says_why_and_what_to_try(tmp_path):
    with ingested("tpu_run_without_device_events", tmp_path) as warehouse:
        severity, message = finding(warehouse, "no_device_events")
        assert severity == "warning"
        assert "hosts launched programs, but there is no plane of a device" in message
        assert "profile for less time" in message
        assert warehouse.query("select status from runs").rows == [("no_device_events",)]


def test_empty_planes_are_counted_and_no_host_is_blamed_for_them(tmp_path):
    planes = [PlaneBuilder(f"/device:TPU:{number}").plane for number in range(2)]
    host = PlaneBuilder("/host:CPU")
    host.event(host.line("python"), "work", 0, 10)
    (tmp_path / "h.xplane.pb").write_bytes(space(*planes, host.plane))
    with ingested(tmp_path / "h.xplane.pb", tmp_path / "w") as warehouse:
        assert "2 planes of devices are empty" in finding(warehouse, "no_device_events")[1]
        sql = "select severity, count from issues where code = 'empty_planes'"
        assert warehouse.query(sql).rows == [("info", 2)]
        assert "devices_missing" not in codes(warehouse)


def test_a_category_that_no_reader_knows_is_named(tmp_path):
    events = [
        {"ph": "X", "cat": "mtia_ccp_events", "name": "k", "pid": 0, "tid": 1, "ts": 0, "dur": 5}
    ]
    trace = {"schemaVersion": 1, "traceEvents": events}
    (tmp_path / "t.trace.json").write_text(json.dumps(trace))
    with ingested(tmp_path / "t.trace.json", tmp_path / "w") as warehouse:
        assert "category mtia_ccp_events" in finding(warehouse, "no_device_events")[1]


def test_a_compiled_program_given_as_a_trace_points_to_the_option(tmp_path):
    (tmp_path / "module_0001.jit_f.hlo_proto.pb").write_bytes(b"\x0a\x02xx")
    with pytest.raises(IngestError, match=r"not a trace; .* --hlo-dump "):
        ingest_paths([str(tmp_path)], str(tmp_path / "w"))


def test_allocators_events_are_counters_of_their_device(tmp_path):
    with ingested("hbm_allocator_events", tmp_path) as warehouse:
        sql = "select device_id, max(value) from counters where name = 'TPU_0_hbm {}' group by 1"
        for counter in ("bytes_in_use", "peak_bytes_in_use"):
            assert warehouse.query(sql.format(counter)).rows == [(0, 12 * 2**30)]


def test_annotated_steps_are_phases_and_no_markers_of_requests(tmp_path):
    with ingested("compile_within_a_step", tmp_path) as warehouse:
        sql = "select phase, request, step, start_ps from phases where source = 'marker' order by 3"
        assert warehouse.query(sql).rows == [("step", None, k, 1000 * k * PS) for k in range(6)]
        assert "marker_incomplete" not in codes(warehouse)
