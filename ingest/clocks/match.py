"""Matches what two devices on different clocks did, by the evidence that METRICS (Clocks) orders."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import polars as pl

from xlahouse.ingest.clocks.fit import (
    Fit,
    Units,
    choose_shift,
    fit_line,
    fitting_shifts,
)
from xlahouse.ingest.events.frames import STEP_MARKERS

_OP = ["program_id", "op"]
_STEP = ["program_id", "request", "step"]


@dataclass(frozen=True)
class Side:
    """What one device did."""

    launches: pl.DataFrame  # launch, program_id, start_ps, phase, request, step, in order of time
    # The synchronous collectives that both sides are members of: launch, program_id, op, sequence,
    # start_ps, end_ps, in order of time.
    transfers: pl.DataFrame


@dataclass(frozen=True)
class Match:
    """Two clocks compared. fit is None where nothing decides how their launches correspond."""

    evidence: str | None = None  # sequence number, step marker or time; None: nothing decides
    fit: Fit | None = None  # the second clock against the first


def match_clocks(first: Side, second: Side) -> Match:
    """The second device's clock against the first's."""
    by_sequence = _fit_of(_sequence_ends(first, second))
    if by_sequence is not None:
        return Match("sequence number", by_sequence)
    named = _named_pairs(first, second)
    by_name = _fit_of(_launch_ends(first, second, named)) if named.height else None
    if by_name is not None:
        return Match("step marker", by_name)
    return _by_shift(first, second)


def _fit_of(ends: pl.DataFrame) -> Fit | None:
    theirs, ours = ends["end_ps_right"].to_numpy(), ends["end_ps"].to_numpy()
    return fit_line(theirs, theirs - ours)


def _sequence_ends(first: Side, second: Side) -> pl.DataFrame:
    """Ends of collectives that the trace numbers."""
    key = [*_OP, "sequence"]
    numbered = (side.transfers.drop_nulls("sequence") for side in (first, second))
    ours, theirs = (rows.unique(key, keep="none", maintain_order=True) for rows in numbered)
    return ours.join(theirs, on=key)


def _named_pairs(first: Side, second: Side) -> pl.DataFrame:
    """(launch, launch_right): launches of one program in the same marked step, and launches between two
    such pairs where both sides have as many."""
    ours, theirs = (_in_step(side.launches) for side in (first, second))
    named = ours.join(theirs, on=[*_STEP, "turn", "turns"], suffix="_right").sort("place")
    pairs = list(named.select("place", "place_right").iter_rows())
    between = [
        (ours_from + k, theirs_from + k)
        for (ours_from, theirs_from), (ours_to, theirs_to) in pairwise(pairs)
        if ours_to - ours_from == theirs_to - theirs_from
        for k in range(1, ours_to - ours_from)
    ]
    places = sorted({*pairs, *between})
    return _launches_at(first, second, [a for a, _ in places], [b for _, b in places])


def _in_step(launches: pl.DataFrame) -> pl.DataFrame:
    """place of each launch that a marker names, and which of its program's launches in the step it is."""
    placed = launches.with_columns(place=pl.int_range(pl.len()))
    named = placed.filter(pl.col("phase").is_in(STEP_MARKERS)).drop_nulls(["request", "step"])
    return named.select(
        *_STEP,
        "place",
        turn=pl.int_range(pl.len()).over(_STEP),
        turns=pl.len().over(_STEP),
    )


def _launches_at(first: Side, second: Side, ours: list[int], theirs: list[int]) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "launch": first.launches["launch"].gather(ours),
            "launch_right": second.launches["launch"].gather(theirs),
        }
    )


def _launch_ends(first: Side, second: Side, pairs: pl.DataFrame) -> pl.DataFrame:
    """Ends of the k-th execution of each op in paired launches, where both sides have as many."""
    ours, theirs = (_numbered(side.transfers) for side in (first, second))
    key = [*_OP, "turn", "turns"]
    return ours.join(pairs, on="launch").join(
        theirs, left_on=["launch_right", *key], right_on=["launch", *key]
    )


def _numbered(transfers: pl.DataFrame) -> pl.DataFrame:
    key = ["launch", *_OP]
    return transfers.with_columns(turn=pl.int_range(pl.len()).over(key), turns=pl.len().over(key))


def _by_shift(first: Side, second: Side) -> Match:
    """By time alone: the shift of launches that makes the ends agree, if exactly one does."""
    first, second = _with_units(first), _with_units(second)
    (ours, our_launches), (theirs, their_launches) = _units(first), _units(second)
    if not len(ours.program) or not len(theirs.program):
        return Match()
    lasts = [_median_duration(side.transfers) for side in (first, second)]
    shifts = fitting_shifts(ours, theirs, min(lasts))
    period = float(np.median(np.diff(ours.last_end_ps))) if len(ours.last_end_ps) > 1 else 0.0
    chosen = choose_shift(shifts, ours, theirs, period) if shifts else None
    if chosen is None:
        return Match()
    by = chosen.by
    count = min(len(our_launches), len(their_launches) - by) - max(0, -by)
    start = max(0, -by)
    pairs = pl.DataFrame(
        {
            "launch": our_launches.slice(start, count),
            "launch_right": their_launches.slice(start + by, count),
        }
    )
    return Match("time", _fit_of(_launch_ends(first, second, pairs)))


def _with_units(side: Side) -> Side:
    """Where the trace has no launches, each collective stands for one."""
    if side.transfers["launch"].null_count() < side.transfers.height:
        return replace(side, transfers=side.transfers.drop_nulls("launch"))
    return replace(
        side, transfers=side.transfers.with_columns(launch=pl.int_range(pl.len(), dtype=pl.Int64))
    )


def _units(side: Side) -> tuple[Units, pl.Series]:
    """Launches with shared collectives in order of time, as numbers; and their `launch`."""
    rows = (
        side.transfers.group_by("launch")
        .agg(
            pl.col("program_id").last(),
            transfers=pl.len(),
            last_end_ps=pl.col("end_ps").max(),
        )
        .sort("last_end_ps")
    )
    program = rows["program_id"].to_numpy().astype(np.uint64).view(np.int64)
    counts = rows["transfers"].to_numpy().astype(np.int64)
    return Units(program, counts, rows["last_end_ps"].to_numpy()), rows["launch"]


def _median_duration(transfers: pl.DataFrame) -> float:
    lasted = (transfers["end_ps"] - transfers["start_ps"]).to_numpy()
    return float(np.median(lasted)) if len(lasted) else 0.0
