"""METRICS, Bandwidth and Scheduling: what the participants of an instance tell together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.views.oracle.clocks import clocks
from tests.views.oracle.drawn import Row
from tests.views.oracle.reading import Run, bucket, grouped, mean, median, rank, ratio

APART_PS = 10**6


def instances(run: Run) -> dict[int, list[Row]]:
    """Instance -> the participants that were seen."""
    known = [row for row in run.collectives if row["instance"] is not None]
    return {number: rows for (number,), rows in grouped(known, "instance").items()}


def leave_apart(rows: list[Row]) -> bool:
    """Whether the ends of a synchronous instance are too far apart to be one."""
    ends = [row["end_ps"] for row in rows]
    return not rows[0]["is_async"] and max(ends) - min(ends) > APART_PS


def tells_arrivals(run: Run, rows: list[Row], known: dict[str, bool | None]) -> bool:
    """Whether arrivals of an instance's participants can be compared.

    They can on one clock, and across clocks unless one is known to be of no use.
    """
    arrived = [row for row in rows if row["arrival_ps"] is not None]
    if leave_apart(rows) or len(arrivals_of(rows)) < 2:
        return False
    met = {run.devices[row["device_id"]]["clock"] for row in arrived} - {None}
    return len(met) == 1 or all(known.get(clock) is not False for clock in met)


def arrivals_of(rows: list[Row]) -> dict[int, int]:
    """Device -> its arrival, where it is known."""
    return {r["device_id"]: r["arrival_ps"] for r in rows if r["arrival_ps"] is not None}


def collective_bandwidth(run: Run) -> Iterator[Row]:
    """Transfer time, skew and bandwidths of each instance."""
    known = clocks(run)
    for number, rows in instances(run).items():
        first, is_async = rows[0], rows[0]["is_async"]
        arrivals = arrivals_of(rows).values()
        alone = first["group_size"] == 1 and len(arrivals) == 1
        told = alone or tells_arrivals(run, rows, known)
        start, end = min(r["start_ps"] for r in rows), max(r["end_ps"] for r in rows)
        transfer = min(row["duration_ps"] for row in rows)
        if is_async:
            transfer = end - max(row["start_ps"] for row in rows)
        payload = largest(row["payload_bytes"] for row in rows)
        wire = largest(row["wire"] for row in rows)
        busbw = ratio(wire, transfer / 1e12)
        yield {
            "instance": number,
            **{n: first[n] for n in ("program_id", "module", "op", "group_index", "kind", "axis")},
            **{n: first[n] for n in ("phase", "request", "step", "group_size", "is_async")},
            "participants_seen": len(rows),
            "payload_bytes": payload,
            "size_bucket_bytes": bucket(payload),
            "wire_bytes": wire,
            "start_ps": start,
            "duration_ps": end - start,
            "skew_ps": max(arrivals) - min(arrivals) if told else None,
            "transfer_ps": transfer,
            "is_bound": is_async and max(row["wait_ps"] for row in rows) <= APART_PS,
            "algbw_bytes_per_s": None if wire == 0 else ratio(payload, transfer / 1e12),
            "busbw_bytes_per_s": busbw or None,
        }


def largest(values: Any) -> Any:
    """The largest; None where one is not known."""
    listed = list(values)
    return None if None in listed else max(listed)


def bandwidth_summary(run: Run) -> Iterator[Row]:
    """Bus bandwidths by axis, kind and size."""
    key = ("axis", "kind", "size_bucket_bytes")
    for values, rows in grouped(collective_bandwidth(run), *key).items():
        seen = [row for row in rows if not row["is_bound"]]
        told = [row for row in seen if row["busbw_bytes_per_s"]]
        rates = [row["busbw_bytes_per_s"] for row in told]
        yield {
            **dict(zip(key, values, strict=True)),
            "instances": len(rows),
            "count": len(told),
            "bound_count": len(rows) - len(seen),
            "unknown_count": len(seen) - len(told),
            "unseen_count": sum(row["participants_seen"] != row["group_size"] for row in rows),
            "mean_busbw_bytes_per_s": mean(rates),
            "p50_busbw_bytes_per_s": median(rates),
            "p95_busbw_bytes_per_s": rank(rates, 0.95),
            "max_busbw_bytes_per_s": max(rates, default=None),
        }


def straggler(run: Run) -> Iterator[Row]:
    """How often and how far a device enters an instance after its peers."""
    known = clocks(run)
    virtual = {d for d, row in run.devices.items() if row["inferred"] or row["core"] == "cpu"}
    told = [
        [r for r in rows if r["arrival_ps"] is not None and r["device_id"] not in virtual]
        for rows in instances(run).values()
    ]
    met = [rows for rows in told if len(rows) > 1 and tells_arrivals(run, rows, known)]
    for device, row in run.devices.items():
        if not row["traced"] or run.is_sparse(device):
            continue
        lags, waits = [], []
        for rows in met:
            arrivals = arrivals_of(rows)
            if device in arrivals:
                lags.append(arrivals[device] - min(arrivals.values()))
                waits.append(max(arrivals.values()) - arrivals[device])
        last = sum(wait == 0 < lag for lag, wait in zip(lags, waits, strict=True))
        real = device not in virtual
        yield {
            "device_id": device,
            "host": row["host"],
            "inferred": row["inferred"],
            "instances": len(lags) if real else None,
            "last_count": last if real else None,
            "last_ratio": ratio(last, len(lags)),
            "mean_lag_ps": mean(lags),
            "max_lag_ps": max(lags, default=None),
            "mean_wait_ps": mean(waits),
        }
