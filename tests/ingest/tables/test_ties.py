"""Ops that begin or end together, from trace to view, with their right values (METRICS, Bandwidth)."""

from __future__ import annotations

from pathlib import Path

from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.warehouse import Warehouse

CASE = Path(__file__).parents[2] / "cases" / "ties" / "zero_length_at_barrier"
US = 10**6


def test_an_op_of_no_length_at_a_barrier_does_not_part_it_from_its_collective(tmp_path):
    """Device 0 works to 1,000 us and waits to 1,100; device 1 works to 1,100 and does not wait. On both an
    op of no length is where the barrier begins."""
    ingest_paths([str(CASE)], str(tmp_path), name="ties", workers=1)
    with Warehouse(str(tmp_path)) as warehouse:
        sql = "select device_id, arrival_ps, start_ps from collectives order by 1"
        assert warehouse.query(sql).rows == [
            (0, 1000 * US, 1100 * US),
            (1, 1100 * US, 1100 * US),
        ]
        assert warehouse.query("select skew_ps from collective_bandwidth").rows == [(100 * US,)]
        sql = "select device_id, axis, sync_wait_ps from sync_wait where sync_wait_ps > 0"
        assert warehouse.query(sql).rows == [(0, "unclassified", 100 * US)]
