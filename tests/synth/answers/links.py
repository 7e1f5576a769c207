"""The answer of link_traffic: every transfer walked chip by chip, and what each link saw added up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from tests.synth.answers.traffic import together
from tests.synth.describe import Run
from tests.synth.traffic import ALGORITHMS, Row, traffic_matrix
from tests.synth.transfers import moved

V6E = {1: (1, 1), 4: (2, 2), 8: (2, 4), 16: (4, 4), 32: (4, 8)}  # slices; none has an axis of 16
PEAK_LINK = 9e10
Place = tuple[int, ...]
Hop = tuple[Place, Place]


def place_of(number: int, shape: Place) -> Place:
    """Where a chip stands: x counts first."""
    place = []
    for size in shape:
        place.append(number % size)
        number //= size
    return tuple(place)


def number_of(place: Place, shape: Place) -> int:
    """The chip at a place."""
    number, scale = 0, 1
    for coordinate, size in zip(place, shape, strict=True):
        number += coordinate * scale
        scale *= size
    return number


def ways(shape: Place, around: tuple[bool, ...], source: Place, target: Place) -> list[list[Hop]]:
    """The routes over which bytes go in equal parts: x first, by the shorter side, or by both."""
    routes: list[list[Hop]] = [[]]
    here = source
    for axis in range(len(shape)):
        sides = [_walk(shape, around, here, axis, target[axis], side) for side in (1, -1)]
        known = [hops for hops in sides if hops is not None]
        least = min(len(hops) for hops in known)
        shortest = [hops for hops in known if len(hops) == least][: 2 if least else 1]
        here = (*here[:axis], target[axis], *here[axis + 1 :])
        routes = [route + hops for route in routes for hops in shortest]
    return routes


def _walk(
    shape: Place, around: tuple[bool, ...], here: Place, axis: int, goal: int, side: int
) -> list[Hop] | None:
    """One step after the other to one side; None where the row of chips ends before the goal."""
    hops = []
    while here[axis] != goal:
        following = here[axis] + side
        if not 0 <= following < shape[axis]:
            if not around[axis]:
                return None
            following %= shape[axis]
        there = (*here[:axis], following, *here[axis + 1 :])
        hops.append((here, there))
        here = there
    return hops


def union(spans: list[tuple[int, int]]) -> int:
    """Time in at least one of the spans."""
    total, reached = 0, None
    for start, end in sorted(spans):
        begin = start if reached is None else max(start, reached)
        total += max(end - begin, 0)
        reached = end if reached is None else max(end, reached)
    return total


def link_traffic(run: Run) -> list[Row]:
    """Rows of link_traffic_v1."""
    shape = V6E.get(len(run.devices))
    return [row for name in ALGORITHMS for row in _links(run, name, shape)]


def _links(run: Run, algorithm: str, shape: Place | None) -> Iterator[Row]:
    edges = together(traffic_matrix(run, algorithm), lambda row: row["phase"])
    for phase, rows in edges.items():
        if shape is None:
            problem = f"no slice of v6e with {len(run.devices)} chips is known"
            sources = {row["source_device_id"] for row in rows}
            yield _unknown(phase, algorithm, len(sources), problem)
            continue
        yield from _known(run, algorithm, phase, rows, shape)


def _known(
    run: Run, algorithm: str, phase: str | None, rows: list[Row], shape: Place
) -> Iterator[Row]:
    sent: dict[Hop, dict[int, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        source, axis = row["source_device_id"], row["axis"]
        ends = (place_of(row[f"{end}_device_id"], shape) for end in ("source", "target"))
        routes = ways(shape, (False,) * len(shape), *ends)
        for hop in (hop for route in routes for hop in route):
            of_source = sent[hop][source]
            of_source[axis] = of_source.get(axis, 0.0) + row["bytes"] / len(routes)
    flights = together((m for m in moved(run) if m.wire and m.phase == phase), lambda m: m.device)
    totals = {hop: sum(sum(axes.values()) for axes in by.values()) for hop, by in sent.items()}
    for hop, by in sent.items():
        times = [_in_flight(flights[source], set(axes)) for source, axes in by.items()]
        rate = totals[hop] * 1e12 / max(times)
        yield {
            "phase": phase,
            "algorithm": algorithm,
            "topology": "x".join(map(str, shape)),
            "source_chip": number_of(hop[0], shape),
            "target_chip": number_of(hop[1], shape),
            "source_place": _written(hop[0]),
            "target_place": _written(hop[1]),
            "bytes": totals[hop],
            "sources_seen": len(by),
            "in_flight_ps": max(times),
            "link_bytes_per_s": rate,
            "utilization_ratio": rate / PEAK_LINK,
            "topology_problem": None,
        }


def _in_flight(transfers: list, axes: set[str]) -> int:
    """A source's time in flight on some axes: each axis' union, but no more than all its time."""
    spans = together(transfers, lambda m: m.axis)
    each = [union([(m.start, m.end) for m in spans[axis]]) for axis in axes]
    return min(sum(each), union([(m.start, m.end) for m in transfers]))


def _written(place: Place) -> str:
    return f"({','.join(map(str, (*place, 0)[:3]))})"


def _unknown(phase: str | None, algorithm: str, sources: int, problem: str) -> Row:
    names = ("topology", "source_chip", "target_chip", "source_place", "target_place", "bytes")
    names += ("in_flight_ps", "link_bytes_per_s", "utilization_ratio")
    row: Row = {"phase": phase, "algorithm": algorithm, **dict.fromkeys(names)}
    return row | {"sources_seen": sources, "topology_problem": problem}
