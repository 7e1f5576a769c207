"""Small traces of other programs than this one's captures, with their right values."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.warehouse import Warehouse

CASES = Path(__file__).parents[1] / "cases" / "foreign"
PS = 10**6  # a microsecond


def ingested(case, tmp_path):
    ingest_paths([str(CASES / case)], str(tmp_path), name=case)
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
