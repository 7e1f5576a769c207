"""METRICS, Clocks: what is known of the clocks of a run's devices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.views.oracle.drawn import Drawn, Row
from tests.views.oracle.reading import Run, grouped, middle

TOGETHER = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


def draw_clocks(run: Drawn, names: Sequence[str]) -> None:
    """A row for each clock, the first of them the reference."""
    for place, name in enumerate(names):
        aligned = place > 0
        run.add(
            "clocks",
            clock=name,
            host=name,
            reference=names[0],
            state="aligned" if aligned else "reference",
            evidence=run.rng.choice(("time", "step marker")) if aligned else None,
            clock_offset_ps=run.rng.randint(-(10**6), 10**6) if aligned else 0,
            drift_ppm=run.rng.choice((0.0, 50.0)) if aligned else 0.0,
            spread_ps=run.rng.choice((None, 0, 3000, 10**6)) if aligned else None,
            pairs=run.rng.choice((0, 2, 3, 500)) if aligned else 0,
        )


def _skews(run: Run, clock: str) -> list[int]:
    """Skews of the instances of collectives that end together, which the clock shares with another."""
    known = [
        row
        for row in run.collectives
        if row["instance"] is not None
        and row["arrival_ps"] is not None
        and row["kind"] in TOGETHER
        and not row["is_async"]
        and run.devices[row["device_id"]]["clock"] is not None
    ]
    skews = []
    for rows in grouped(known, "instance").values():
        clocks = {run.devices[row["device_id"]]["clock"] for row in rows}
        arrivals = [row["arrival_ps"] for row in rows]
        if clock in clocks and len(clocks) > 1:
            skews.append(max(arrivals) - min(arrivals))
    return skews


def _usable(row: Row, skew: int | None) -> bool | None:
    if row["state"] != "aligned":
        return {"reference": True, "ambiguous": False}.get(row["state"])
    return None if None in (row["spread_ps"], skew) else row["spread_ps"] <= skew


def _shows_drift(row: Row) -> bool:
    """Whether thirds of the shared ends can be compared."""
    return row["state"] == "reference" or bool(row["pairs"] >= 3)


def clock_offset(run: Run) -> Iterator[Row]:
    """What was measured of each clock, and whether skews across it mean something."""
    for row in run.rows("clocks"):
        skews = _skews(run, row["clock"])
        skew = middle(skews)
        told = row["state"] in ("reference", "aligned")
        copied = ("clock", "host", "reference", "state", "evidence", "spread_ps")
        yield {
            **{name: row[name] for name in copied},
            "devices": sum(
                bool(device["traced"]) and device["clock"] == row["clock"]
                for device in run.devices.values()
            ),
            "offset_ps": row["clock_offset_ps"] if told else None,
            "drift_ppm": row["drift_ppm"] if told and _shows_drift(row) else None,
            "instances": len(skews),
            "median_skew_ps": skew,
            "is_usable": _usable(row, skew),
        }


def clocks(run: Run) -> dict[str, bool | None]:
    """Clock -> whether skews across it mean something; None where that is not known."""
    return {row["clock"]: row["is_usable"] for row in clock_offset(run)}
