"""METRICS, Axis, Bytes and Matrix: what moves, and between which devices."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from tests.views.oracle import rings
from tests.views.oracle.drawn import Row
from tests.views.oracle.memory import program_memory
from tests.views.oracle.reading import Run, grouped, middle, rank, ratio, steps_launched, total


def run_mesh(run: Run) -> Iterator[Row]:
    """The place of each device along each axis."""
    for device, place in run.places.items():
        for index, (axis, size) in enumerate(run.axes):
            coordinate = {"device_id": device, "coordinate": place[axis]}
            yield {"axis_index": index, "axis": axis, "size": size, **coordinate}


def collective_axis(run: Run) -> Iterator[Row]:
    """Of each group its axis, and whether it is smaller than the product of its axes."""
    sizes = dict(run.axes)
    for key, members in run.groups.items():
        own = run.group_axes[key]
        world, program_id, op, group = key
        axis, reach = run.op_axes[key[:3]], 1
        partial = None
        if own != "unclassified":
            reach = 1 if own == "none" else math.prod(sizes[name] for name in own.split("+"))
            partial = 1 < len(members) < reach
        slices = {run.devices.get(each, {}).get("slice_index") for each in members}
        yield {
            "world": world, "program_id": program_id, "op": op, "group_index": group,
            "group_size": len(members), "axis": axis, "group_axis": own, "partial": partial,
            "over_dcn": None if None in slices else len(slices) > 1,
        }  # fmt: skip


def traffic_volume(run: Run) -> Iterator[Row]:
    """Sums by device, phase, axis and kind."""
    key = ("device_id", "phase", "axis", "kind")
    for values, rows in grouped(run.collectives, *key).items():
        yield {
            **dict(zip(key, values, strict=True)),
            "collectives": len(rows),
            "instances": len({row["instance"] for row in rows} - {None}),
            "collectives_unknown": sum(None in (r["payload_bytes"], r["wire"]) for r in rows),
            "payload_bytes": total(row["payload_bytes"] for row in rows),
            "wire_bytes": total(row["wire"] for row in rows),
        }


def step_load(run: Run) -> Iterator[Row]:
    """What a step of a phase moves on a device in the mean, and the most that its programs hold."""
    for phase in ("prefill", "decode"):
        passes = {
            (row["device_id"], row["request"], row["step"])
            for table in ("launches", "collectives")
            for row in run.rows(table)
            if row["phase"] == phase and row["step"] is not None
            and not run.is_sparse(row["device_id"])
        }  # fmt: skip
        sums = [row for row in traffic_volume(run) if row["phase"] == phase]
        for metric in ("collectives", "payload_bytes", "wire_bytes") if passes else ():
            whole = total(row[metric] for row in sums) if sums else 0
            if whole is not None:
                yield {"phase": phase, "metric": metric, "value": whole / len(passes)}
        ran = {row["program_id"] for row in run.rows("launches") if row["phase"] == phase}
        held = [
            row for row in program_memory(run)
            if row["program_id"] in ran and row["memory"] == "HBM"
        ]  # fmt: skip
        for metric in ("argument_bytes", "temporary_bytes", "total_bytes", "peak_bytes"):
            known = [row[metric] for row in held if row[metric] is not None]
            if known:
                yield {"phase": phase, "metric": metric, "value": float(max(known))}


def collective_latency_summary(run: Run) -> Iterator[Row]:
    """Counts and durations by size; steps are those of the device in the phase that have launches."""
    steps: dict[tuple[Any, ...], dict[tuple[Any, ...], list[Row]]] = {}
    for key, rows in grouped(run.rows("launches"), "device_id", "phase").items():
        steps[key] = grouped([row for row in rows if row["step"] is not None], "request", "step")
    key = ("device_id", "phase", "axis", "kind", "bucket")
    for values, rows in grouped(run.collectives, *key).items():
        here = steps.get(values[:2], {})
        seconds = (
            sum(
                max(r["start_ps"] + r["duration_ps"] for r in launches)
                - min(r["start_ps"] for r in launches)
                for launches in here.values()
            )
            / 1e12
        )
        lengths = [row["duration_ps"] for row in rows]
        yield {
            **dict(zip((*key[:4], "size_bucket_bytes"), values, strict=True)),
            "count": len(rows),
            "step_count": len(here) or None,
            "collectives_per_step": ratio(len(rows), len(here)),
            "collectives_per_s": ratio(len(rows), seconds),
            "p50_ps": middle(lengths),
            "p95_ps": rank(lengths, 0.95),
            "p99_ps": rank(lengths, 0.99),
        }  # fmt: skip


def traffic_matrix(run: Run) -> Iterator[Row]:
    """Wire bytes by target, under three algorithms and, where it is stated, as the compiler chose."""
    told = ("compiled",) if rings.states_choices(run) else ()
    sums: dict[tuple[Any, ...], list[float | None]] = defaultdict(list)
    for row in run.collectives:
        for algorithm in ("ring", "bidirectional_ring", "direct", *told):
            key = row["phase"], row["axis"], row["kind"], algorithm, row["device_id"]
            for target, sent in _sent(run, row, algorithm):
                sums[*key, target].append(sent)
    names = ("phase", "axis", "kind", "algorithm", "source_device_id", "target_device_id")
    for key, parts in sums.items():
        yield {**dict(zip(names, key, strict=True)), "bytes": total(parts)}


def traffic_demand(run: Run) -> Iterator[Row]:
    """The matrix a step, all-reduces apart, with each source's targets and each pair's share of the most."""
    for (phase, algorithm), cells in grouped(traffic_matrix(run), "phase", "algorithm").items():
        steps = steps_launched(run, phase)
        pairs = grouped(cells, "source_device_id", "target_device_id")
        sums = {
            pair: [_sum_or_0(r["bytes"] for r in rows if (r["kind"] == "all-reduce") == reduces)
                   for reduces in (True, False)]
            for pair, rows in pairs.items()
        }  # fmt: skip
        wholes = {pair: total(parts) for pair, parts in sums.items()}
        unknown = None in wholes.values() or None in {target for _, target in pairs}
        for (source, target), (reduced, other) in sums.items():
            own = [rows for (from_device, _), rows in pairs.items() if from_device == source]
            kinds = [{row["kind"] == "all-reduce" for row in rows} for rows in own]
            known = None not in {to for from_device, to in pairs if from_device == source}
            whole = wholes[source, target]
            yield {
                "phase": phase, "algorithm": algorithm,
                "source_device_id": source, "target_device_id": target, "step_count": steps,
                "step_all_reduce_bytes": ratio(reduced, steps),
                "step_other_bytes": ratio(other, steps),
                "step_bytes": ratio(whole, steps),
                "heat_ratio": None if unknown else ratio(whole, max(wholes.values())),
                "target_count": len(own) if known else None,
                "all_reduce_target_count": sum(True in each for each in kinds) if known else None,
                "other_target_count": sum(False in each for each in kinds) if known else None,
            }  # fmt: skip


def _sum_or_0(values: Iterable[float | None]) -> float | None:
    listed = list(values)
    return total(listed) if listed else 0.0


def _sent(run: Run, row: Row, algorithm: str) -> list[tuple[int | None, float | None]]:
    """(target, bytes) of what a device sends in a collective."""
    wire, own, kind = row["wire"], row["device_id"], row["kind"]
    if wire == 0 or row["group_size"] == 1:
        return []
    if kind in ("collective-permute", "send-recv"):
        pairs = run.pairs.get(run.op_key(row))
        if pairs is None:
            return [(None, wire)]
        targets = [target for source, target in pairs if source == own != target]
        return [(target, wire) for target in targets]
    if row["group_index"] is None:
        return [(None, wire)]
    if algorithm == "compiled":
        others = rings.chosen(run, row) or [None]
        return [(other, None if wire is None else wire / len(others)) for other in others]
    members = run.groups[(*run.op_key(row), row["group_index"])]
    place, n = members.index(own), len(members)
    after, before = members[(place + 1) % n], members[place - 1]
    if kind == "ragged-all-to-all" or algorithm == "direct" or kind == "all-to-all":
        share = None if wire is None else wire / (n - 1)
        return [(other, share) for other in members if other != own]
    if algorithm == "ring":
        return [(after, wire)]
    half = None if wire is None else wire / 2
    return [(after, half), (before, half)]
