"""A step of a mixture of experts, ingested: which collectives keep its devices from computing."""

from __future__ import annotations

from pathlib import Path

from tests.kept import audited
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.warehouse import Warehouse

CASE = Path(__file__).parents[1] / "cases" / "transfers" / "moe_exposed_by_kind"
US = 10**6


def test_dispatch_and_combine_are_exposed_by_kind(tmp_path):
    # Four devices, two steps: a dispatch of 80 us, compute of 140, a combine of 80. The second step starts
    # 1,000 us after the first: a device's periods are 300 and 1,000. The trace names no layer.
    ingest_paths([str(CASE)], str(tmp_path), name="moe")
    with Warehouse(str(tmp_path)) as warehouse:
        names = "kind, layer, op, count, in_flight_ps, exposed_ps, period_ps"
        rows = warehouse.query(f"select {names} from exposed_collective_v1 order by kind").rows
        assert rows == [
            (kind, None, f"{kind}.1", 8, 8 * 80 * US, 8.0 * 80 * US, 4 * 1300 * US)
            for kind in ("all-to-all", "ragged-all-to-all")
        ]
        assert audited(warehouse) == []
