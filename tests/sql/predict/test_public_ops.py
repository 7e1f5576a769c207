"""How far ops of public traces are from their predicted times: the figures that pages publish."""

from __future__ import annotations

import pytest

from tests.samples import sample
from xlahouse.ingest.run import ingest_paths
from xlahouse.reports.panels.overview.errors import OF_PUBLIC_TRACES
from xlahouse.sql.predict.clocks import CLOCKS
from xlahouse.sql.warehouse import Warehouse

TRACES = ("tpu/v6e_4dev_jax_psum_offload.xplane.pb", "tpu/vllm_qwen3_tp2.trace.json.gz")
# By cycles against the median of an op's executions; by peaks as roofline has it.
V6E = """
    select median(o.duration_ps) as median_ps, count(*) as executions,
        any_value(c.estimated_cycles) as cycles, any_value(r.predicted_ps / r.observed_ps) as by_peak
    from compiler_cost_v1 c
    join ops o on o.run_id = c.run_id and o.program_id = c.program_id and o.op = c.op
    join roofline_v2 r on r.run_id = c.run_id and r.program_id = c.program_id and r.op = c.op
    group by c.op order by executions desc
"""
VLLM = """
    select count(*), count(predicted_ps) from roofline_v2 join runs using (run_id)
    where runs.source = 'chrome' and category = 'compute'
"""


@pytest.mark.verify
def test_pages_publish_the_errors_of_ops_of_public_traces(tmp_path):
    ingest_paths([str(sample(name)) for name in TRACES], str(tmp_path / "w"), workers=1)
    with Warehouse(str(tmp_path / "w")) as warehouse:
        rows, [(kinds, predicted)] = warehouse.query(V6E).dicts(), warehouse.query(VLLM).rows
    for row in rows:
        row["by_cycles"] = row["cycles"] * 1e12 / CLOCKS["v6e"].hz / row["median_ps"]
    *fusions, once = rows
    assert [row["executions"] for row in rows] == [400, 400, 400, 1]

    def off(name, choose):
        return f"{100 * (choose(row[name] for row in fusions) - 1):+.1f} %"

    cycles, peak = (f"{off(name, min)} to {off(name, max)}" for name in ("by_cycles", "by_peak"))
    single = [f"{100 * (once[name] - 1):+.1f} %" for name in ("by_cycles", "by_peak")]
    of_v6e, of_vllm = OF_PUBLIC_TRACES
    for said in (f"{cycles} off by the", f"{peak} by HBM's", f"{single[0]} and {single[1]} off"):
        assert said in of_v6e
    assert predicted == 0
    assert f"its {kinds:,} kinds of ops" in of_vllm
