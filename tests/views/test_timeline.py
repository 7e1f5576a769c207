"""The timeline's bins: their width for every length of a run, and bytes that a naive spread agrees with."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.layers import first_few
from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse

GROUP = [
    {"world": 0, "program_id": 7, "op": "a", "group_index": 0, "position": k, "device_id": k}
    for k in range(2)
]


def transfer(start: int, end: int, sent: int) -> dict[str, Any]:
    """An all-reduce of device 0 over two devices, which sends its payload."""
    at = {"device_id": 0, "program_id": 7, "op": "a", "group_index": 0, "group_size": 2}
    sizes = {"start_ps": start, "duration_ps": end - start, "payload_bytes": sent}
    return {**at, "kind": "all-reduce", **sizes}


def timeline(root: Path, transfers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    rows = {"devices": [{"device_id": 0, "world": 0}], "replica_groups": GROUP}
    with Warehouse(write_warehouse(root, {**rows, "collectives": transfers})) as warehouse:
        return warehouse.query("select * from traffic_timeline_v1 order by bin_index").dicts()


@pytest.mark.parametrize(
    ("span", "width", "bins"),
    first_few(
        [
            (500, 1, 500),
            (501, 2, 251),
            (1001, 5, 201),
            (7 * 10**12, 2 * 10**10, 350),  # 7 s in bins of 20 ms
            (499, 1, 499),
            (1000, 2, 500),
            (2500, 5, 500),
            (2501, 10, 251),
            (25 * 10**17, 5 * 10**15, 500),  # a month
        ],
        4,
    ),
)
def test_smallest_of_1_2_5_that_makes_at_most_500_bins(tmp_path, span, width, bins):
    found = timeline(tmp_path, [transfer(30, 31, 1), transfer(29 + span, 30 + span, 1)])
    assert {row["duration_ps"] for row in found} == {width}
    assert [row["start_ps"] for row in found] == [30 + k * width for k in range(bins)]
    ends = [k for k, row in enumerate(found) if row["bytes"]]
    assert ends == [0, bins - 1]


def test_a_naive_spread_agrees(tmp_path):
    """Transfers within a bin, over an edge, over many bins, from and to an edge; width 5."""
    given = [(0, 1, 7), (3, 6, 12), (4, 5, 2), (5, 10, 9), (5, 15, 30), (1, 2400, 999)]
    given += [(17, 43, 52), (40, 40, 3), (1000, 1995, 1e6), (2399, 2401, 1)]
    found = timeline(tmp_path, [transfer(start, end, int(sent)) for start, end, sent in given])
    expected = [Fraction(0)] * 481
    for start, end, sent in given:
        for k in range(481):
            shared = max(0, min(end, 5 * k + 5) - max(start, 5 * k))
            if start == end:
                expected[k] += int(sent) if 5 * k <= start < 5 * k + 5 else 0
            else:
                expected[k] += Fraction(int(sent) * shared, end - start)
    assert [row["bin_index"] for row in found] == list(range(481))
    assert [row["bytes"] for row in found] == pytest.approx([float(e) for e in expected], rel=1e-12)
    assert math.isclose(sum(row["bytes"] for row in found), sum(sent for *_, sent in given))
