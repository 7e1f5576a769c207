"""METRICS, Comparison: the headline metrics of a run, each from what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from tests.views.oracle.drawn import Row
from tests.views.oracle.reading import UNCOUNTED, Run, rank, ratio, total
from tests.views.oracle.requests import latency
from tests.views.oracle.split import comm_compute


def run_summary(run: Run) -> Iterator[Row]:
    """Sums leave warm-up and compiles out; latencies are medians over requests."""
    moved = [row for row in run.collectives if row["phase"] not in UNCOUNTED]
    known = [row for row in moved if row["payload_bytes"] is not None]
    lost = sum(row["payload_bytes"] for row in known if row["axis"] == "unclassified")
    phases = [row for row in comm_compute(run) if row["phase"] not in UNCOUNTED]
    names = ("window", "compute", "collective", "exposed", "overlapped", "sync_wait", "idle")
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
        **_medians(requests, "ttft_s"),
        **_medians(requests, "tpot_s"),
        "output_tokens_per_s": _known(requests, "output_tokens_per_s", 0.5),
        "window_ps": sums["window"],
        "comm_compute_ratio": ratio(sums["collective"], sums["compute"]),
        "exposed_ratio": ratio(sums["exposed"], sums["collective"]),
        "overlapped_ratio": ratio(sums["overlapped"], sums["collective"]),
        "sync_wait_ratio": ratio(sums["sync_wait"], sums["window"]),
        "idle_ratio": ratio(sums["idle"], sums["window"]),
    }


def _known(rows: list[Row], name: str, share: float) -> float | None:
    found: float | None = rank([row[name] for row in rows if row[name] is not None], share)
    return found


def _medians(rows: list[Row], name: str) -> Row:
    """Median, least and most of a latency."""
    shares = {name: 0.5, f"min_{name}": 0.0, f"max_{name}": 1.0}
    return {column: _known(rows, name, share) for column, share in shares.items()}
