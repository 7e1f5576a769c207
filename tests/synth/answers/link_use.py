"""What an instance's bytes need at least on all links of its chips, and the share of its busiest link."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from tests.synth.answers.links import PEAK_LINK, V6E, Hop, Place, place_of, ways
from tests.synth.describe import Run
from tests.synth.traffic import Row, collective_bandwidth

IMPOSSIBLE = 1.02


def link_use(run: Run) -> list[Row]:
    """Columns of collective_bandwidth_v3 about links: chips are numbered as devices are."""
    shape = V6E.get(len(run.devices))
    return [row | _used(row, shape) for row in collective_bandwidth(run)]


def _used(row: Row, shape: Place | None) -> Row:
    found: Row = dict.fromkeys(("ici_link_count", "ici_ps", "is_impossible", "utilization_ratio"))
    if shape is None:
        return found
    members, flat = row["members"], (False,) * len(shape)
    found["ici_link_count"] = sum(_neighbours(place_of(member, shape), shape) for member in members)
    edges = _edges(row)
    if not row["wire_bytes"]:
        return found
    is_shift = row["kind"] == "collective-permute"
    sent = (len(members) - is_shift) * row["wire_bytes"]  # a shift's last member sends nothing
    found["ici_ps"] = sent / (found["ici_link_count"] * PEAK_LINK) * 1e12
    if row["transfer_ps"] is None:
        return found
    found["is_impossible"] = row["transfer_ps"] * IMPOSSIBLE < found["ici_ps"]
    carried: dict[Hop, float] = defaultdict(float)
    for source, target, size in edges:
        routes = ways(shape, flat, place_of(source, shape), place_of(target, shape))
        for hop in (hop for route in routes for hop in route):
            carried[hop] += size / len(routes)
    if carried:
        share = max(carried.values()) / PEAK_LINK * 1e12 / row["transfer_ps"]
        found["utilization_ratio"] = share if share <= IMPOSSIBLE else None
    return found


def _edges(row: Row) -> list[tuple[int, int, float]]:
    """(source, target, bytes) where the route is known: a shift, or an exchange of two."""
    members, size = row["members"], row["wire_bytes"]
    if row["kind"] == "collective-permute":
        return [(a, b, size) for a, b in pairwise(members)]
    if len(members) == 2:
        return [(*members, size), (*reversed(members), size)]
    return []


def _neighbours(place: Place, shape: Place) -> int:
    """Chips beside one, on a grid without links around it."""
    return sum((at > 0) + (at < size - 1) for at, size in zip(place, shape, strict=True))
