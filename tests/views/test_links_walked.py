"""link_traffic against routes walked chip by chip, on slices of every shape with links around or not."""

from __future__ import annotations

import math
from collections import defaultdict
from random import Random

import pytest

from tests.synth.answers.links import number_of, place_of, ways
from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse

NO, ALL = (False, False, False), (True, True, True)
# kind, chips along x, y and z, and around which of them links lead
SLICES = [
    ("TPU v5e", (2, 2, 1), NO),
    ("TPU v6 lite", (2, 4, 1), NO),
    ("TPU v5e", (4, 4, 1), NO),
    ("TPU v6 lite", (4, 8, 1), NO),
    ("TPU v5e", (8, 8, 1), NO),
    ("TPU v6 lite", (8, 16, 1), (False, True, False)),
    ("TPU v5e", (16, 16, 1), (True, True, False)),
    ("TPU v4", (2, 2, 1), NO),
    ("TPU v5p", (2, 2, 2), NO),
    ("TPU v4", (2, 2, 4), NO),
    ("TPU v5p", (2, 4, 4), NO),
    ("TPU v4", (4, 4, 4), ALL),
    ("TPU v5p", (4, 4, 8), ALL),
    ("TPU v4", (4, 8, 8), ALL),
    ("TPU v5p", (8, 8, 8), ALL),
]
RUNS = {
    f"{kind} {'x'.join(map(str, shape))}": (kind, shape, around) for kind, shape, around in SLICES
}
SENDERS = 24


def sends(name: str) -> list[tuple[int, int, int]]:
    """Source, target and bytes of some permutes, the way back among them."""
    shape, rng = RUNS[name][1], Random(name)
    chips = math.prod(shape)
    sources = rng.sample(range(chips), min(SENDERS, chips))
    targets = [rng.randrange(chips) for _ in sources]
    # half of each axis away from the first
    far = number_of(tuple(size // 2 for size in shape), shape)
    pairs = [(0, far), *((s, t) for s, t in zip(sources, targets, strict=True) if s != t and s)]
    return [(source, target, 4 * rng.randint(1, 99)) for source, target in pairs]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Slice -> (source chip, target chip) -> (topology, bytes, sources)."""
    tables = defaultdict(list)
    for name, (kind, shape, _) in RUNS.items():
        for chip in range(math.prod(shape)):
            device = {"device_id": chip, "logical_id": chip, "world": 0, "kind": kind}
            tables["devices"].append({"run_id": name, **device})
        for number, (source, target, size) in enumerate(sends(name)):
            op = {"run_id": name, "program_id": 7, "op": f"permute.{number}"}
            pair = {"source_device_id": source, "target_device_id": target}
            tables["permute_pairs"].append({**op, "world": 0, **pair})
            for position, device in enumerate((source, target)):
                member = {"group_index": 0, "position": position, "device_id": device}
                tables["replica_groups"].append({**op, "world": 0, **member})
            moved = {"kind": "collective-permute", "group_index": 0, "group_size": 2}
            moved |= {"instance": number, "payload_bytes": size, "start_ps": 0, "duration_ps": 10}
            tables["collectives"].append({**op, "device_id": source, **moved})
    rows = defaultdict(dict)
    with Warehouse(write_warehouse(tmp_path_factory.mktemp("links"), tables)) as warehouse:
        sql = "select * from link_traffic_v1 where algorithm = 'ring'"
        for row in warehouse.query(sql).dicts():
            assert row["topology_problem"] is None
            key = row["source_chip"], row["target_chip"]
            rows[row["run_id"]][key] = row["topology"], row["bytes"], row["sources_seen"]
    return rows


@pytest.mark.parametrize("name", RUNS)
def test_slice(name: str, found: dict) -> None:
    kind, shape, around = RUNS[name]
    flat = kind in ("TPU v5e", "TPU v6 lite")
    topology = "x".join(map(str, shape[:2] if flat else shape))
    total, sources = defaultdict(float), defaultdict(set)
    for source, target, size in sends(name):
        routes = ways(shape, around, place_of(source, shape), place_of(target, shape))
        for here, there in (hop for route in routes for hop in route):
            link = number_of(here, shape), number_of(there, shape)
            total[link] += size / len(routes)
            sources[link].add(source)
    assert found[name] == {
        link: (topology, size, len(sources[link])) for link, size in total.items()
    }


def test_halves_go_both_ways() -> None:
    """4 x 4 x 4, all around: 2 of 4 along each axis are 2 x 2 x 2 routes of 6 links."""
    routes = ways((4, 4, 4), ALL, (0, 0, 0), (2, 2, 2))
    assert len(routes) == 8
    assert {len(route) for route in routes} == {6}
    assert ways((2, 4), (False, False), (0, 0), (1, 2)) == [
        [((0, 0), (1, 0)), ((1, 0), (1, 1)), ((1, 1), (1, 2))]
    ]
