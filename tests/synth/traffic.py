"""Closed forms of what moves between devices: axes, volume, matrix, bandwidth."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from statistics import median

from tests.synth.clocks import comparable
from tests.synth.describe import Run
from tests.synth.segments import Transfer
from tests.synth.walk import Times, Visit, schedule

Row = dict[str, object]
ALGORITHMS = ("ring", "bidirectional_ring", "direct")
BOUND_PS = 1_000_000  # an async transfer whose done ops waited no longer may have ended earlier


def middle(values: list[int]) -> int:
    """The median, rounded down."""
    return int(median(values) // 1)


def payload(transfer: Transfer, group: tuple[int, ...], member: int) -> int:
    """S of a member: of a shift, only members that send have one."""
    if transfer.kind == "collective-permute" and member == group[-1]:
        return 0
    return transfer.bytes


def wire(transfer: Transfer, group: tuple[int, ...], member: int) -> float:
    """Bytes that a member sends."""
    size, n = payload(transfer, group, member), len(group)
    if transfer.kind == "collective-permute":
        return float(size)
    return size * (2 if transfer.kind == "all-reduce" else 1) * (n - 1) / n


def targets(
    algorithm: str, transfer: Transfer, group: tuple[int, ...], member: int
) -> Iterator[tuple[int, float]]:
    """(receiver, bytes) of a member's transfer."""
    n, at = len(group), group.index(member)
    sent = wire(transfer, group, member)
    if transfer.kind == "collective-permute":
        if sent:
            yield group[at + 1], sent
    elif algorithm == "direct" or transfer.kind == "all-to-all":
        yield from ((other, sent / (n - 1)) for other in group if other != member)
    elif algorithm == "ring":
        yield group[(at + 1) % n], sent
    else:
        yield from ((group[(at + side) % n], sent / 2) for side in (1, -1))


def _moves(run: Run) -> Iterator[tuple]:
    """(label, count, transfer, group, traced member) of every collective in every program."""
    for times in schedule(run):
        for segment in times.segments:
            if segment.what in ("sync", "start"):
                for group in times.program.groups(segment):
                    for member in filter(run.traced, group):
                        count = times.count(run, member)
                        yield times.label, count, segment.transfer, group, member


def traffic_volume(run: Run) -> list[Row]:
    """Rows of traffic_volume_v1: by device, phase, axis and kind."""
    totals: dict[tuple, list[float]] = defaultdict(lambda: [0, 0, 0.0])
    for phase, count, transfer, group, member in _moves(run):
        total = totals[run.devices[member], phase, transfer.axis, transfer.kind]
        total[0] += count
        total[1] += count * payload(transfer, group, member)
        total[2] += count * wire(transfer, group, member)
    return [
        {
            **dict(zip(("device_id", "phase", "axis", "kind"), key, strict=True)),
            "collectives": count,
            "instances": count,  # a device is in an instance once
            "payload_bytes": size,
            "wire_bytes": sent,
        }
        for key, (count, size, sent) in totals.items()
        if count
    ]


def traffic_matrix(run: Run, algorithm: str) -> list[Row]:
    """Rows of traffic_matrix_v1 with bytes, for one algorithm."""
    totals: Counter = Counter()
    for phase, count, transfer, group, member in _moves(run):
        for target, sent in targets(algorithm, transfer, group, member):
            ends = run.devices[member], run.devices[target]
            totals[phase, transfer.axis, transfer.kind, *ends] += count * sent
    names = ("phase", "axis", "kind", "source_device_id", "target_device_id")
    return [
        {**dict(zip(names, key, strict=True)), "algorithm": algorithm, "bytes": sent}
        for key, sent in totals.items()
        if sent
    ]


def collective_axis(run: Run) -> list[Row]:
    """Rows of collective_axis_v1: an instruction's group, its members in order, its axis."""
    rows = {}
    for times in schedule(run):
        for segment in times.segments:
            if segment.what not in ("sync", "start"):
                continue
            for group in times.program.groups(segment):
                members = tuple(run.devices[p] for p in group)
                axis = segment.transfer.axis
                rows[times.program.id, segment.op, members] = {
                    "program_id": times.program.id,
                    "op": segment.op,
                    "members": members,
                    "axis": axis,
                    "partial": len(group) < run.size(axis),
                }
    return list(rows.values())


def _instance(run: Run, visit: Visit, seen: list[int]) -> Row:
    """Times of an instance as those of its members show them whose planes hold it."""
    arrivals = visit.start_late if visit.segment.what == "done" else visit.late
    row: Row = {"skew_ps": max(arrivals[p] for p in seen) - min(arrivals[p] for p in seen)}
    if len(seen) == 1:
        row["skew_ps"] = None  # one of several says nothing about the others
    apart = not comparable(run, seen)
    if apart:
        row["skew_ps"] = None
    if visit.segment.what == "sync":
        return row | {"transfer_ps": min(visit.stay[p] for p in seen), "is_bound": False}
    latest = max(visit.start_late[p] for p in seen)
    ends = [visit.start_late[p] + visit.flight[p] for p in seen]
    bound = all(visit.stay[p] <= BOUND_PS for p in seen)
    transfer = None if apart else max(ends) - latest
    return row | {"transfer_ps": transfer, "is_bound": bound}


def collective_bandwidth(run: Run) -> list[Row]:
    """Rows of collective_bandwidth_v3: an instance that a traced member saw each."""
    rows = []
    for times in schedule(run):
        for _, visits in times.visits(run):
            for visit in visits:
                if visit.segment.what in ("sync", "done"):
                    rows += _instances(run, times, visit)
    return rows


def _instances(run: Run, times: Times, visit: Visit) -> list[Row]:
    rows = []
    for group, each, seen in times.seen(run, visit):
        if seen:
            at = {"request": each and each.request, "step": each and each.step}
            row = _described(run, times, visit, group, seen) | at
            rows += [row] * times.per_step
    return rows


def _described(run: Run, times: Times, visit: Visit, group: tuple[int, ...], seen: list) -> Row:
    transfer, row = visit.segment.transfer, _instance(run, visit, seen)
    size = max(payload(transfer, group, p) for p in seen)
    sent = max(wire(transfer, group, p) for p in seen)
    return row | {
        "program_id": times.program.id,
        "op": visit.segment.pair or visit.segment.op,
        "members": tuple(run.devices[p] for p in group),
        "axis": transfer.axis,
        "kind": transfer.kind,
        "phase": times.label,
        "group_size": len(group),
        "participants_seen": len(seen),
        "payload_bytes": size,
        "wire_bytes": sent,
        "algbw_bytes_per_s": (row["transfer_ps"] and size * 10**12 / row["transfer_ps"])
        if sent
        else None,
        "busbw_bytes_per_s": (row["transfer_ps"] and sent * 10**12 / row["transfer_ps"]) or None,
    }
