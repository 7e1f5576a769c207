"""METRICS, Matrix: what the links of 2 x 2 chips carry, one edge of the matrix after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.views.oracle.busy import Span, length
from tests.views.oracle.drawn import Row
from tests.views.oracle.peaks import peaks
from tests.views.oracle.reading import Run, grouped, ratio
from tests.views.oracle.traffic import traffic_matrix

Link = tuple[int, int]


def way(source: int, target: int) -> list[Link]:
    """Links from chip to chip of 2 x 2: along x, then along y."""
    turn = target % 2 + source // 2 * 2
    return [(a, b) for a, b in ((source, turn), (turn, target)) if a != b]


def in_flight(run: Run) -> dict[tuple[Any, ...], list[Span]]:
    """(device, phase, axis) -> transfers in which the device sends something."""
    sending = [row for row in run.collectives if row["wire"] != 0]
    return {
        key: [(row["start_ps"], row["end_ps"]) for row in rows]
        for key, rows in grouped(sending, "device_id", "phase", "axis").items()
    }


def link_traffic(run: Run) -> Iterator[Row]:
    """Bytes, sources and busy time of each link; only what is known of 2 x 2 chips."""
    chip = {device: row["chip_id"] for device, row in run.devices.items()}
    flights = in_flight(run)
    for (phase, algorithm), sent in grouped(traffic_matrix(run), "phase", "algorithm").items():
        if any(None in (row["target_device_id"], row["bytes"]) for row in sent):
            continue
        carried: dict[Link, float] = defaultdict(float)
        axes: dict[Link, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for row in sent:
            source = row["source_device_id"]
            for link in way(chip[source], chip[row["target_device_id"]]):
                carried[link] += row["bytes"]
                axes[link][source].add(row["axis"])
        for link, size in carried.items():
            took = max(_time(flights, d, phase, over) for d, over in axes[link].items())
            rate = ratio(size, took / 1e12)
            yield {
                "phase": phase,
                "algorithm": algorithm,
                "source_chip": link[0],
                "target_chip": link[1],
                "bytes": size,
                "sources_seen": len(axes[link]),
                "in_flight_ps": took,
                "link_bytes_per_s": rate,
                "utilization_ratio": ratio(rate, peaks(run, next(iter(axes[link]))).ici),
                "is_busiest": size >= max(carried.values()) * (1 - 1e-12),
                "topology_problem": None,
            }


def _time(
    flights: dict[tuple[Any, ...], list[Span]], device: int, phase: str | None, axes: set[str]
) -> int:
    """How long a source has transfers in flight of the axes that it sends over a link."""
    of_axes = [length(flights[device, phase, axis]) for axis in axes]
    if len(of_axes) == 1:
        return of_axes[0]
    mine = [spans for (d, p, _), spans in flights.items() if (d, p) == (device, phase)]
    return min(sum(of_axes), length(piece for spans in mine for piece in spans))


def all_sent(run: Run, row: Row, payload: int | None) -> tuple[float | None, list[tuple[int, int]]]:
    """Bytes that all members of a collective's group send, and the pairs of its exchange.

    payload: S of the instruction; None where no sender is seen. No pairs where the route is not known.
    """
    n, key = row["group_size"], run.op_key(row)
    members = run.groups[(*key, row["group_index"])]
    if row["kind"] in ("collective-permute", "send-recv"):
        pairs = [p for p in run.pairs[key] if p[0] in members and p[0] != p[1]]
        return (payload * len(pairs) if payload else None), pairs
    if payload is None or row["kind"] == "ragged-all-to-all":
        return None, []
    share = {"all-reduce": 2 * (n - 1)}.get(row["kind"], n - 1)
    two = [(members[0], members[1]), (members[1], members[0])] if n == 2 else []
    return share * payload, two if row["kind"] != "collective-broadcast" else two[:1]


def link_use(run: Run) -> Iterator[Row]:
    """Of 2 x 2 chips: the least time of each instance, and the load of its busiest link."""
    chip = {device: row["chip_id"] for device, row in run.devices.items()}
    known = [row for row in run.collectives if row["instance"] is not None]
    for (number,), rows in grouped(known, "instance").items():
        first, sizes = rows[0], [row["payload_bytes"] for row in rows]
        payload = None if None in sizes else max(sizes)
        members = run.groups[(*run.op_key(first), first["group_index"])]
        row: Row = {
            "instance": number,
            "ici_link_count": None,
            "ici_ps": None,
            "utilization_ratio": None,
        }
        if all(member in chip and not run.is_sparse(member) for member in members):
            row["ici_link_count"] = 2 * len(members)  # each chip has two neighbours
            sent, pairs = all_sent(run, first, payload)
            peak = peaks(run, first["device_id"]).ici
            if sent and len(members) > 1:
                row["ici_ps"] = sent / (2 * len(members) * peak) * 1e12
                each = sent / len(pairs) if pairs else 0
                carried: dict[Link, float] = defaultdict(float)
                for link in (link for a, b in pairs for link in way(chip[a], chip[b])):
                    carried[link] += each
                if len({chip[member] for member in members}) == 4 and not pairs:
                    carried = around(run, first, sent / 4)
                share = ratio(max(carried.values(), default=None), peak * _transfer(rows) / 1e12)
                row["utilization_ratio"] = share if share and share <= 1.02 else None
        yield row


def around(run: Run, row: Row, each: float) -> dict[Link, float]:
    """Bytes that each link of 2 x 2 chips carries where the compiler states rings; {} where it does not.

    each: bytes that a member sends.
    """
    key = run.op_key(row)
    named = ("world", "program_id", "op")
    told = [
        other
        for other in run.rows("instructions")
        if tuple(other[name] for name in named) == key
        and "Short" not in other.get("collective_emitter", "Short")
    ]
    carried: dict[Link, float] = defaultdict(float)
    strategy = told[0]["collective_strategy"] if told else ""
    order = [0, 1, 3, 2]
    steps = [(a, b) for a, b in zip(order, order[1:] + order[:1], strict=True)]
    if strategy == "UniDirection1DRingStrategy":
        for color in range(told[0]["collective_colors"]):
            for a, b in steps:
                link = (a, b) if color == 0 else (b, a)
                carried[link] += each / told[0]["collective_colors"]
    elif strategy == "UniDirectionNDRingStrategy":
        for first in (
            1,
            2,
        ) * 2:  # colours: of a quarter, halved along one axis, then along the other
            for axis, part in ((first, 2 / 3), (3 - first, 1 / 3)):
                for chip in range(4):
                    carried[chip, chip ^ axis] += each / 4 * part
    return carried


def _transfer(rows: list[Row]) -> int:
    if not rows[0]["is_async"]:
        return min(row["duration_ps"] for row in rows)
    return max(row["end_ps"] for row in rows) - max(row["start_ps"] for row in rows)
