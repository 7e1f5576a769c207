"""A GPipe schedule of 4 stages and 8 microbatches with its right values, from trace to view."""

from __future__ import annotations

from pathlib import Path

from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.warehouse import Warehouse

CASE = Path(__file__).parents[2] / "cases" / "pipeline" / "gpipe_p4_m8"
PS = 10**6  # a microsecond


def test_each_step_of_a_gpipe_loses_its_ideal_share(tmp_path):
    """A stage works 800 of 1,100 us, fills and drains 300, and waits 20 for the host."""
    ingest_paths([str(CASE)], str(tmp_path), name="gpipe")
    with Warehouse(str(tmp_path)) as warehouse:
        pipeline = warehouse.query("""
            select distinct masked_ps, masked_source, fill_drain_ps, pipeline_ratio, ideal_ratio
            from bubble_v2 where cause = 'pipeline'
        """).rows
        between = warehouse.query("""
            select distinct step > 0, idle_ps, period_ps, bubble_ratio
            from bubble_v2 where cause = 'between_steps' order by 1
        """).rows
    assert pipeline == [(0, "separate_stages", 300 * PS, 3 / 11, 3 / 11)]
    assert between == [(False, 0, 800 * PS, 0.0), (True, 320 * PS, 1120 * PS, 320 / 1120)]
