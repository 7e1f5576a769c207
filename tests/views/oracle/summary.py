"""METRICS, Comparison: the headline metrics of a run, each from what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from tests.views.oracle.busy import span
from tests.views.oracle.drawn import Row
from tests.views.oracle.reading import UNCOUNTED, Run, median, rank, ratio, total
from tests.views.oracle.requests import SECOND, compiling, latency
from tests.views.oracle.split import comm_compute


def run_summary(run: Run) -> Iterator[Row]:
    """Sums leave warm-up and compiles out; latencies are medians over requests."""
    moved = [row for row in run.collectives if row["phase"] not in UNCOUNTED]
    known = [row for row in moved if row["payload_bytes"] is not None]
    lost = sum(row["payload_bytes"] for row in known if row["axis"] == "unclassified")
    phases = [row for row in comm_compute(run) if row["phase"] not in UNCOUNTED]
    names = (
        "window",
        "compute",
        "collective",
        "exposed",
        "overlapped",
        "sync_wait",
        "idle",
        "period",
    )
    names += ("between_steps", "between_requests")
    sums = {n: sum(row[f"{n}_ps"] for row in phases) if phases else None for n in names}
    requests = list(latency(run))
    marked = {
        (row["phase"] == "warmup", row["request"])
        for row in run.rows("phases")
        if row["source"] == "marker"
    }
    counted = [row for row in requests if row["request"] is not None]
    yield {
        "collectives": len(moved) or None,
        "payload_bytes": total(row["payload_bytes"] for row in moved),
        "wire_bytes": total(row["wire"] for row in moved),
        "unclassified_ratio": ratio(lost, sum(row["payload_bytes"] for row in known)),
        "latency_source": requests[0]["source"] if requests else None,
        "requests": len(counted),
        "excluded_requests": len(marked) - len(counted),
        **_headlines(requests, "ttft_s"),
        **_headlines(requests, "request_ttft_s", least_and_most=False),
        **_headlines(requests, "tpot_s"),
        "queue_s": _median(requests, "queue_s"),
        "output_tokens_per_s": _median(requests, "output_tokens_per_s"),
        "system_tokens_per_s": _system_rate(run, counted),
        "launch_period_s": _median(requests, "launch_period_s"),
        "window_ps": sums["window"],
        "comm_compute_ratio": ratio(sums["collective"], sums["compute"]),
        "exposed_ratio": ratio(sums["exposed"], sums["collective"]),
        "overlapped_ratio": ratio(sums["overlapped"], sums["collective"]),
        "sync_wait_ratio": ratio(sums["sync_wait"], sums["window"]),
        "period_ps": sums["period"],
        "between_requests_ps": sums["between_requests"],
        "idle_ratio": ratio(_added(sums["idle"], sums["between_steps"]), sums["period"]),
        "idle_in_step_ratio": ratio(sums["idle"], sums["window"]),
    }


def _known(rows: list[Row], name: str, share: float) -> float | None:
    found: float | None = rank([row[name] for row in rows if row[name] is not None], share)
    return found


def _median(rows: list[Row], name: str) -> float | None:
    found: float | None = median([row[name] for row in rows if row[name] is not None])
    return found


def _added(*parts: int | None) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _headlines(rows: list[Row], name: str, *, least_and_most: bool = True) -> Row:
    """Median and percentiles of a latency, and its least and most."""
    shares = {f"p90_{name}": 0.9, f"p99_{name}": 0.99}
    if least_and_most:
        shares |= {f"min_{name}": 0.0, f"max_{name}": 1.0}
    found = {column: _known(rows, name, share) for column, share in shares.items()}
    return {name: _median(rows, name), **found}


def _system_rate(run: Run, counted: list[Row]) -> float | None:
    """Tokens of all requests over the time that they take, if nothing that does not count is in it."""
    starts, ends = ([row[name] for row in counted] for name in ("start_ps", "end_ps"))
    batch, tokens = run.facts["batch_size"], run.facts["output_tokens"]
    if not counted or None in (*starts, *ends, batch, tokens):
        return None
    begin, end = min(starts), max(ends)
    between = [piece for pieces in compiling(run).values() for piece in pieces]
    between += [span(row) for row in run.rows("phases") if row["phase"] == "warmup"]
    if any(start < end and begin < stop for start, stop in between):
        return None
    return ratio(len(counted) * batch * tokens * SECOND, end - begin)
