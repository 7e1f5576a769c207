"""METRICS, Roofline: what an instruction's executions should take at the least, and what they took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.views.oracle.costs import added, profiled
from tests.views.oracle.drawn import Row
from tests.views.oracle.links import all_sent
from tests.views.oracle.peaks import peaks
from tests.views.oracle.reading import UNCOUNTED, Run, grouped, ratio, total
from tests.views.oracle.rings import is_square


def roofline(run: Run) -> Iterator[Row]:
    """T_math, T_hbm and T_ici of each op, the largest of them, and what was observed."""
    ops = [
        {"program_id": None, **op}
        for op in profiled(run)
        if op["category"] not in ("control", "wait") and op["phase"] not in UNCOUNTED
    ]
    for (program, op), rows in grouped(ops, "program_id", "op").items():
        if op.endswith("-done"):  # part of the row of its start
            continue
        done = [o for o in ops if (o["program_id"], o["op"]) == (program, f"{op}-done")]
        parts = [
            _on_device(run, device, mine, [o for o in done if o["device_id"] == device])
            for (device,), mine in grouped(rows, "device_id").items()
        ]
        sums = {name: total(part[name] for part in parts) for name in parts[0] if name != "source"}
        times = {name: sums[f"{name}_ps"] for name in ("math", "hbm", "ici")}
        source = None if None in (s := [p["source"] for p in parts]) else max(s, key=len)
        known = None not in times.values()
        sure = max(times["math"], times["ici"]) if known else None
        lower = known and source == "bytes_accessed" and times["hbm"] > sure
        predicted = (sure or None) if lower else max(times.values()) if known else None
        yield {
            "program_id": program,
            "op": op,
            "devices": len(parts),
            "executions": sums["executions"],
            "flops": sums["flops"],
            "hbm_bytes": sums["hbm_bytes"],
            "hbm_source": source,
            "wire_bytes": sums["wire_bytes"],
            **{f"{name}_ps": took for name, took in times.items()},
            "predicted_ps": predicted,
            "is_lower_bound": lower if predicted is not None else None,
            "observed_ps": sums["observed_ps"],
            "bound_by": max(times, key=lambda n: times[n]) if predicted and not lower else None,
            "efficiency_ratio": ratio(predicted, sums["observed_ps"]),
        }


def _on_device(run: Run, device: int, rows: list[Row], done: list[Row]) -> Row:
    """Sums over a device's executions."""
    peak, is_transfer = peaks(run, device), rows[0]["category"] == "collective"
    transfers = [
        row
        for row in run.collectives
        if (row["device_id"], row["program_id"], row["op"])
        == (device, rows[0]["program_id"], rows[0]["op"])
        and row["phase"] not in UNCOUNTED
    ]
    flops = 0
    if rows[0]["category"] == "compute":
        flops = added(
            o["flops"] if o.get("flops") is not None else o.get("model_flops") for o in rows
        )
    size, source = _hbm(rows, done)
    wire = added(row["wire"] for row in transfers) if is_transfer else 0
    return {
        "executions": len(transfers) if is_transfer else len(rows),
        "observed_ps": sum(row["duration_ps"] for row in transfers or rows),
        "flops": flops,
        "hbm_bytes": size,
        "source": source,
        "wire_bytes": wire,
        "math_ps": ratio(flops * 1e12, peak.flops) if flops is not None else None,
        "hbm_ps": ratio(size * 1e12, peak.hbm) if size is not None else None,
        "ici_ps": _ici(run, transfers, wire) if is_transfer else 0,
    }


def _hbm(rows: list[Row], done: list[Row]) -> tuple[Any, str | None]:
    """HBM bytes as broken down, else all bytes accessed; of a pair those of the half with more."""
    halves = [rows, done] if done else [rows]
    broken = [total(op.get("hbm_bytes") for op in half) for half in halves]
    if None not in broken:
        return sum(broken), "breakdown"
    accessed = [total(op.get("bytes_accessed") for op in half) for half in halves]
    return (None, None) if None in accessed else (max(accessed), "bytes_accessed")


def _moves_nothing(first: Row, wire: Any) -> bool:
    """No bytes need no time on whatever links; but the receivers of a permute tell nothing of its senders."""
    if first["kind"] in ("collective-permute", "send-recv"):
        return bool(first["group_index"] is None and wire == 0)
    return bool((first["payload_bytes"] if first["kind"] == "collective-broadcast" else wire) == 0)


def _ici(run: Run, transfers: list[Row], wire: Any) -> Any:
    """Time of all members' bytes on all their links: of 2 x 2 chips alone, elsewhere not known."""
    first = transfers[0]
    if first["group_size"] == 1 or _moves_nothing(first, wire):
        return 0
    if not is_square(run) or first["group_index"] is None:
        return None
    members = run.groups[(*run.op_key(first), first["group_index"])]
    if any(member is None or run.is_sparse(member) for member in members):
        return None
    alike = [row for row in run.collectives if run.op_key(row) == run.op_key(first)]
    seen = [row["payload_bytes"] for row in alike if row["phase"] not in UNCOUNTED]
    payload = max((size for size in seen if size is not None), default=None)
    if first["kind"] not in ("collective-permute", "send-recv"):
        payload = first["payload_bytes"]
    sent, _ = all_sent(run, first, payload)
    links = 2 * len(members) * peaks(run, first["device_id"]).ici
    return None if sent is None else sent * len(transfers) / links * 1e12
