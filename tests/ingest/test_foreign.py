"""Small traces of other programs than this one's captures, with their right values."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from xlahouse.ingest.run import ingest_paths
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
