"""METRICS, Bandwidth and Scheduling: what the participants of an instance tell together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.views.oracle.drawn import Row
from tests.views.oracle.peaks import chips, peaks
from tests.views.oracle.reading import Run, bucket, grouped, mean, rank, ratio

APART_PS = 10**6
TOGETHER = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


def instances(run: Run) -> dict[int, list[Row]]:
    """Instance -> the participants that were seen."""
    known = [row for row in run.collectives if row["instance"] is not None]
    return {number: rows for (number,), rows in grouped(known, "instance").items()}


def hosts_of(run: Run, rows: list[Row]) -> set[str | None]:
    """Hosts of participants."""
    return {run.devices[row["device_id"]]["host"] for row in rows}


def leave_apart(rows: list[Row]) -> bool:
    """Whether the ends of a synchronous instance are too far apart to be one."""
    ends = [row["end_ps"] for row in rows]
    return not rows[0]["is_async"] and max(ends) - min(ends) > APART_PS


@dataclass(frozen=True)
class Clocks:
    """Hosts by their clocks: reference, and (offset, spread, median skew, instances) of each host."""

    reference: str | None
    of: dict[str | None, tuple[int | None, int | None, int | None, int]]

    def usable(self, host: str | None) -> bool | None:
        """Whether skews between the host and the reference mean something; None where nothing is known."""
        if host == self.reference:
            return True
        _, spread, skew, _ = self.of[host]
        return None if spread is None or skew is None else spread <= skew


def traced_hosts(run: Run) -> dict[str | None, int]:
    """Host -> its traced devices."""
    found: dict[str | None, int] = {}
    for row in run.devices.values():
        if row["traced"]:
            found[row["host"]] = found.get(row["host"], 0) + 1
    return found


def clocks(run: Run) -> Clocks | None:
    """Clocks of a run's hosts; None where they share no instance."""
    across = [
        rows
        for rows in instances(run).values()
        if rows[0]["kind"] in TOGETHER
        and not rows[0]["is_async"]
        and len(hosts_of(run, [r for r in rows if r["arrival_ps"] is not None])) > 1
    ]
    hosts = sorted(traced_hosts(run), key=lambda host: (host is None, host or ""))
    named = [host for host in hosts if host is not None]
    sharing = [host for host in named if any(host in hosts_of(run, rows) for rows in across)]
    if not sharing:
        return None
    reference, found = sharing[0], {}
    for host in hosts:
        both = [rows for rows in across if {host, reference} <= hosts_of(run, rows)]
        both = both if host is not None else []  # a clock without a name is compared with no other
        found[host] = _clock(run, host, reference, both)
    return Clocks(reference, found)


def _clock(
    run: Run, host: str | None, reference: str | None, both: list[list[Row]]
) -> tuple[int | None, int | None, int | None, int]:
    of = lambda rows, name: [r for r in rows if run.devices[r["device_id"]]["host"] == name]  # noqa: E731
    latest = lambda rows, name: max(row["end_ps"] for row in of(rows, name))  # noqa: E731
    offsets = [latest(rows, host) - latest(rows, reference) for rows in both]
    offset, skews = rank(offsets, 0.5), []
    for rows in both:
        arrivals = [row["arrival_ps"] for row in of(rows, reference)]
        arrivals += [row["arrival_ps"] - offset for row in of(rows, host)]
        skews.append(max(arrivals) - min(arrivals))
    spread = rank(offsets, 0.95) - rank(offsets, 0.05) if len(offsets) > 1 else None
    return offset, spread, rank(skews, 0.5), len(both)


def clock_offset(run: Run) -> Iterator[Row]:
    """Offsets of hosts' clocks from the reference's."""
    known, hosts = clocks(run), traced_hosts(run)
    for host, devices in hosts.items():
        row: Row = {"host": host, "devices": devices, "reference_host": None, "instances": 0}
        row |= dict.fromkeys(("offset_ps", "spread_ps", "median_skew_ps", "is_usable"))
        if known:
            offset, spread, skew, count = known.of[host]
            row |= {"reference_host": known.reference, "instances": count, "offset_ps": offset}
            row |= {"spread_ps": spread, "median_skew_ps": skew, "is_usable": known.usable(host)}
        elif len(hosts) == 1 and host is not None:
            row["reference_host"] = host
        if host is not None and host == row["reference_host"]:
            row |= {"offset_ps": 0, "spread_ps": 0, "median_skew_ps": None, "is_usable": True}
        yield row


def tells_arrivals(run: Run, rows: list[Row], known: Clocks | None) -> bool:
    """Whether arrivals of an instance's participants can be compared.

    A clock of which nothing is known is compared with no other.
    """
    hosts = hosts_of(run, rows)
    if leave_apart(rows) or len(arrivals_of(rows)) < 2:
        return False
    return len(hosts) == 1 or known is None or all(known.usable(h) is not False for h in hosts)


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
            "algbw_bytes_per_s": ratio(payload, transfer / 1e12),
            "busbw_bytes_per_s": busbw,
            "utilization_ratio": _utilization(run, rows, busbw),
        }


def largest(values: Any) -> Any:
    """The largest; None where one is not known."""
    listed = list(values)
    return None if None in listed else max(listed)


def _utilization(run: Run, rows: list[Row], busbw: float | None) -> float | None:
    first = rows[0]
    members = run.groups[(*run.op_key(first), first["group_index"])]
    if chips(run, members) != 2 or any(run.devices[r["device_id"]]["inferred"] for r in rows):
        return None
    return ratio(busbw, peaks(run, first["device_id"]).ici)


def bandwidth_summary(run: Run) -> Iterator[Row]:
    """Bus bandwidths by axis, kind and size."""
    key = ("axis", "kind", "size_bucket_bytes")
    for values, rows in grouped(collective_bandwidth(run), *key).items():
        seen = [row for row in rows if not row["is_bound"]]
        told = [row for row in seen if row["busbw_bytes_per_s"]]
        rates = [row["busbw_bytes_per_s"] for row in told]
        shares = [row["utilization_ratio"] for row in told if row["utilization_ratio"] is not None]
        yield {
            **dict(zip(key, values, strict=True)),
            "count": len(told),
            "bound_count": len(rows) - len(seen),
            "unknown_count": len(seen) - len(told),
            "p50_busbw_bytes_per_s": rank(rates, 0.5),
            "p95_busbw_bytes_per_s": rank(rates, 0.95),
            "max_busbw_bytes_per_s": max(rates, default=None),
            "max_utilization_ratio": max(shares, default=None),
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
