"""The rings of traffic_matrix's algorithm `compiled` against those that libtpu logs while it compiles."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.later import needs
from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse

SCRIPT = Path(__file__).with_name("logged_rings.py")
EVEN, ODD = [0, 2, 4, 6], [1, 3, 5, 7]
# topology, kind of its chips, chips, groups that hold all of them
CASES = [
    ("v6e:2x2", "TPU v6 lite", 4, [[0, 1, 2, 3]]),
    ("v6e:2x4", "TPU v6 lite", 8, [list(range(8))]),
    ("v6e:2x4", "TPU v6 lite", 8, [EVEN, ODD]),
    ("v6e:4x4", "TPU v6 lite", 16, [list(range(8)), list(range(8, 16))]),
    ("v5e:4x4", "TPU v5 lite", 16, [[k, k + 4, k + 8, k + 12] for k in range(4)]),
    ("v5e:8x8", "TPU v5 lite", 64, [list(range(k, k + 8)) for k in range(0, 64, 8)]),
]


def neighbours(places):
    """Each member with the members before and behind it."""
    at = {place: device for device, place in places.items()}
    for device, place in places.items():
        yield device, {at[(place + 1) % len(at)], at[(place - 1) % len(at)]}


@pytest.mark.verify
@needs("jax", "libtpu")
def test_members_follow_each_other_as_libtpu_logs(tmp_path):
    ran = subprocess.run(
        [sys.executable, str(SCRIPT)],
        input=json.dumps([[topology, groups] for topology, _, _, groups in CASES]),
        capture_output=True,
        text=True,
        check=True,
    )
    logged = json.loads(ran.stdout)
    tables = {"devices": [], "replica_groups": [], "instructions": [], "program_collectives": []}
    for number, (_, kind, chips, groups) in enumerate(CASES):
        run, size = {"run_id": f"r{number}", "world": 0}, len(groups[0])
        op = run | {"program_id": 7, "op": "ar"}
        rows = [{"device_id": each, "logical_id": each, "kind": kind} for each in range(chips)]
        tables["devices"] += [run | row for row in rows]
        members = [
            (group, position, device)
            for group, devices in enumerate(groups)
            for position, device in enumerate(devices)
        ]
        names = ("group_index", "position", "device_id")
        tables["replica_groups"] += [op | dict(zip(names, row, strict=True)) for row in members]
        [strategy] = logged[number]["strategy"]
        stated = {"collective_emitter": "RotatedPincerEmitter", "collective_strategy": strategy}
        rings = {"collective_colors": 2, "collective_phases": 1}
        rings["collective_rings"] = f"{size},{size}"
        tables["instructions"].append(op | stated | rings)
        sent = {"kind": "all-reduce", "group_size": size, "payload_bytes": size, "executions": 1}
        tables["program_collectives"] += [
            op | sent | {"group_index": group, "device_id": device} for group, _, device in members
        ]
    with Warehouse(str(write_warehouse(tmp_path / "warehouse", tables))) as warehouse:
        rows = warehouse.query(
            "select run_id, source_device_id, target_device_id from traffic_matrix_v1"
            " where algorithm = 'compiled'"
        ).rows
    found = {}
    for run_id, source, target in rows:
        found.setdefault((run_id, source), set()).add(target)
    assert found == {
        (f"r{number}", device): both
        for number, answer in enumerate(logged)
        for devices in CASES[number][3]
        for device, both in neighbours({each: answer["places"][str(each)] for each in devices})
    }
    assert len(found) == sum(chips for _, _, chips, _ in CASES)
