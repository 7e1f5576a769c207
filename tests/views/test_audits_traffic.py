"""Each audit of the traffic views finds the sum that is off, and nothing where all add up.

No rows of a trace break these identities, only a change to a view does: so the views are tables here.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.warehouse import empty_database
from xlahouse.sql.check.audits_traffic import TRAFFIC_AUDITS

AUDITS = {audit.name: audit.sql for audit in TRAFFIC_AUDITS}
COLUMNS = {
    "runs": "run_id text, source text",
    "traffic_volume_v1": "run_id text, axis text, collectives bigint, payload_bytes bigint,"
    " wire_bytes double",
    "expected_traffic_v1": "run_id text, measured_count bigint, measured_payload_bytes bigint",
    "traffic_timeline_v1": "run_id text, axis text, bytes double",
    "traffic_burst_v2": "run_id text, scope text, axis text, bytes double",
    "collective_latency_summary_v2": "run_id text, count bigint",
    "bandwidth_summary_v3": "run_id text, count bigint, bound_count bigint, unknown_count bigint",
    "collective_bandwidth_v3": "run_id text, instance bigint, utilization_ratio double",
    "link_traffic_v1": "run_id text, phase text, algorithm text, source_chip bigint,"
    " target_chip bigint, bytes double",
    "traffic_matrix_v1": "run_id text, phase text, algorithm text, source_device_id bigint,"
    " target_device_id bigint, bytes double",
    "_chip_place_v1": "run_id text, device_id bigint, topology_problem text, x_size bigint,"
    " y_size bigint, z_size bigint, x bigint, y bigint, z bigint",
}
# Two axes, tp and pp, of 3 and 1 collectives in 2 and 1 instances. 2 x 2 chips; device 0 sends 12 to
# 3 by way of 1, in a phase that has no name; device 9 has no place.
SOUND: dict[str, list[tuple[Any, ...]]] = {
    "runs": [("r", None), ("q", "xplane"), ("c", "compiled")],
    "traffic_volume_v1": [
        ("r", "tp", 2, 20, 10.0),
        ("r", "tp", 1, 2, 2.0),
        ("r", "pp", 1, 5, 5.0),
        ("c", "tp", 9, 9, 9.0),  # compiled: it has no times
    ],
    "expected_traffic_v1": [("r", 3, 22), ("r", 1, 5)],
    "traffic_timeline_v1": [("r", "tp", 4.0), ("r", "tp", 8.0), ("r", "pp", 5.0), ("r", "pp", 0.0)],
    "traffic_burst_v2": [
        ("r", "device", "tp", 12.0),
        ("r", "device", "pp", 5.0),
        ("r", "run", "tp", 10.0),
        ("r", "run", "tp", 2.0),
        ("r", "run", "pp", 5.0),
    ],
    "collective_latency_summary_v2": [("r", 3), ("r", 1)],
    "bandwidth_summary_v3": [("r", 1, 1, 0), ("r", 0, 0, 1)],
    "collective_bandwidth_v3": [("r", 0, 0.0), ("r", 1, None), ("r", 2, 1.02)],
    "link_traffic_v1": [("r", None, "ring", 0, 1, 12.0), ("r", None, "ring", 1, 3, 12.0)],
    "traffic_matrix_v1": [("r", None, "ring", 0, 3, 12.0), ("q", None, "ring", 9, 8, 1.0)],
    "_chip_place_v1": [
        *(("r", n, None, 2, 2, 1, n % 2, n // 2, 0) for n in range(4)),
        ("q", 9, "no slice", None, None, None, None, None, None),
    ],
}
FAULTS: dict[str, list[tuple[str, int, tuple[Any, ...]]]] = {
    "expectation_measures_volume": [
        ("expected_traffic_v1", 0, ("r", 2, 22)),
        ("expected_traffic_v1", 1, ("r", 1, 4)),
        ("expected_traffic_v1", 1, ("r", 1, None)),
    ],
    "timeline_holds_every_byte": [
        ("traffic_timeline_v1", 0, ("r", "tp", 4.1)),
        ("traffic_timeline_v1", 2, ("r", "tp", 0.0)),  # none of pp, but an empty one
        ("traffic_timeline_v1", 3, ("r", "pp", None)),
    ],
    "bursts_hold_every_byte": [
        ("traffic_burst_v2", 1, ("r", "device", "pp", 4.0)),
        ("traffic_burst_v2", 2, ("r", "run", "tp", 12.0)),
        ("traffic_burst_v2", 4, ("r", "run", "pp", None)),
    ],
    "summaries_hold_every_transfer": [
        ("collective_latency_summary_v2", 0, ("r", 4)),
        ("bandwidth_summary_v3", 0, ("r", 2, 1, 0)),
        ("bandwidth_summary_v3", 1, ("r", 0, 0, 0)),
    ],
    "no_link_exceeds_its_peak": [
        ("collective_bandwidth_v3", 1, ("r", 1, 1.0201)),
        ("collective_bandwidth_v3", 1, ("r", 1, -0.01)),
    ],
    "links_conserve_bytes": [
        ("link_traffic_v1", 1, ("r", None, "ring", 1, 3, 11.0)),
        ("link_traffic_v1", 0, ("r", None, "ring", 0, 2, 12.0)),
        ("traffic_matrix_v1", 0, ("r", None, "ring", 0, 3, 13.0)),
    ],
}
PLANTED = [(name, *fault) for name, faults in FAULTS.items() for fault in faults]


def found(name: str, tables: dict[str, list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    """Rows that an audit finds in the tables."""
    with empty_database() as connection:
        for table, columns in COLUMNS.items():
            connection.execute(f"create table {table} ({columns})")
            for row in tables[table]:
                connection.execute(f"insert into {table} values ({', '.join('?' * len(row))})", row)
        return connection.execute(AUDITS[name]).fetchall()


def test_every_audit_has_faults() -> None:
    assert set(FAULTS) == set(AUDITS)


@pytest.mark.parametrize("name", AUDITS)
def test_what_adds_up_passes(name: str) -> None:
    assert found(name, SOUND) == []


@pytest.mark.parametrize(("name", "table", "place", "row"), PLANTED)
def test_fault_is_found(name: str, table: str, place: int, row: tuple[Any, ...]) -> None:
    rows = list(SOUND[table])
    rows[place] = row
    assert found(name, SOUND | {table: rows})


def test_what_is_not_known_is_no_fault() -> None:
    volume = [("r", "tp", 2, None, None), *SOUND["traffic_volume_v1"][1:]]
    timeline = [("r", "tp", None), *SOUND["traffic_timeline_v1"][2:]]
    bursts = [("r", "device", "tp", None), ("r", "run", "tp", None)]
    bursts += [row for row in SOUND["traffic_burst_v2"] if row[2] == "pp"]
    tables = SOUND | {"traffic_volume_v1": volume, "traffic_timeline_v1": timeline}
    tables |= {"traffic_burst_v2": bursts, "expected_traffic_v1": [("r", 4, None)]}
    for name in (
        "expectation_measures_volume",
        "timeline_holds_every_byte",
        "bursts_hold_every_byte",
    ):
        assert found(name, tables) == []
