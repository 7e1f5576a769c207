"""METRICS, Idle: why hosts are late, from rows of host_gaps that are drawn here."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.views.oracle.drawn import Drawn, Row
from tests.views.oracle.reading import Run, grouped

ACTIVITIES = {
    None: "unknown",
    "C::Compile": "compile",
    "$a.py:1 wait": "waiting",
    "TransferToDevice": "transfer",
    "BuildInputOutputAliases": "tracing",
    "$a.py:2 f": "python",
    "Execute": "enqueue",
    "copy.1": "other",
}


def add_host_gaps(run: Drawn) -> None:
    """Draw what hosts did before some launches; now and then twice, a gap in two."""
    rng = Random(run.run_id)
    for number, launch in enumerate(run.tables.get("launches", [])):
        launch["launch"] = number
        for part in range(rng.choice((0, 1, 1, 2))):
            names = rng.sample(list(ACTIVITIES), rng.randint(1, 4))
            spent = [rng.randint(0, 9) for _ in names]
            launched = {"device_id": launch["device_id"], "launch": number}
            for name, own in zip(names, spent, strict=True):
                run.add("host_gaps", **launched, start_ps=10 * number + part, duration_ps=sum(spent),
                        name=name, level=rng.choice((None, 0, 1)), events=rng.randint(0, 5), self_ps=own,
                        overlap_ps=None if name is None else own + rng.randint(0, 5))  # fmt: skip


def host_gap(run: Run) -> Iterator[Row]:
    """Sums by name, and their share of the phase's gaps."""
    phase_of = {(row["device_id"], row["launch"]): row["phase"] for row in run.rows("launches")}
    rows = [
        row | {"phase": phase_of[row["device_id"], row["launch"]]} for row in run.rows("host_gaps")
    ]
    for (phase,), ours in grouped(rows, "phase").items():
        gaps = {(row["device_id"], row["start_ps"]): row["duration_ps"] for row in ours}
        for (name,), some in grouped(ours, "name").items():
            own = sum(row["self_ps"] for row in some)
            yield {
                "phase": phase,
                "name": name,
                "activity": ACTIVITIES[name],
                "gap_count": len(some),
                "event_count": sum(row["events"] for row in some),
                "overlap_ps": None if name is None else sum(row["overlap_ps"] for row in some),
                "self_ps": own,
                "gap_ratio": own / sum(gaps.values()) if any(gaps.values()) else None,
                "mean_self_ps": own / len(gaps),
            }
