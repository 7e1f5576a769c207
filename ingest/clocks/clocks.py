"""Finds how far the clocks of a world's files are apart, before any table is written (METRICS, Clocks).

A clock is that of the process that wrote a file. Two clocks are compared through one device of each, by the
ends of synchronous collectives that both took part in; a clock that shares none with the reference is
chained through one that does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from xlahouse.ingest.events.time_move import UNMOVED, TimeMove

if TYPE_CHECKING:
    from xlahouse.ingest.clocks.match import Match, Side

# All members of these leave together; a permute's do not.
MEETING = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_OP = ["program_id", "op"]

REFERENCE, ALIGNED, AMBIGUOUS, UNCONNECTED = "reference", "aligned", "ambiguous", "unconnected"


@dataclass(frozen=True)
class Clock:
    """What is known of a file's clock."""

    file: int  # place among the world's files
    component: int  # clocks of one component can be compared: the file of its reference
    state: str = REFERENCE  # or ALIGNED, AMBIGUOUS, UNCONNECTED
    move: TimeMove = UNMOVED  # to the component's reference
    # how launches of both clocks were matched; None where they were not
    evidence: str | None = None
    spread_ps: int | None = None  # p95 less p5 of the residuals
    pairs: int = 0  # matched ends


@dataclass(frozen=True)
class Meeting:
    """Two devices of different files that are members of the same groups."""

    first: int  # file
    second: int  # file
    first_device: int  # of the first file
    second_device: int  # of the second file


def meetings(
    groups: pl.DataFrame,
    ops: pl.DataFrame,
    file_of: Mapping[int, int],
    launches_of: Mapping[int, int],
) -> list[Meeting]:
    """For each two files that share groups, the two devices that share most and lost least.

    Args:
        groups: program_facts.GROUPS.
        ops: program_facts.FACTS.
        file_of: file of each traced device.
        launches_of: how many launches of a device the trace holds.
    """
    traced = pl.DataFrame(
        [(device, file, launches_of.get(device, 0)) for device, file in file_of.items()],
        {"logical_id": pl.Int64, "file": pl.Int64, "launches": pl.Int64},
        orient="row",
    )
    meeting = ops.filter(pl.col("kind").is_in(MEETING)).select(_OP).unique()
    key = [*_OP, "group_index"]
    present = (
        groups.join(meeting, on=_OP)
        .join(traced, on="logical_id")
        .sort("launches", "logical_id", descending=[True, False])
        .group_by(*key, "file", maintain_order=True)
        .agg(device=pl.col("logical_id").first(), launches=pl.col("launches").first())
    )
    head = present.sort("file").group_by(key).first()
    head = head.rename({"file": "first", "device": "one", "launches": "seen"})
    pairs = present.join(head, on=key).filter(pl.col("file") != pl.col("first"))
    least = pl.min_horizontal("launches", "seen")
    counted = pairs.group_by("first", "file", "one", "device").agg(
        pl.len(), least.min().alias("seen")
    )
    best = counted.sort(["len", "seen", "one", "device"], descending=[True, True, False, False])
    chosen = best.group_by("first", "file", maintain_order=True).first()
    rows = chosen.sort("first", "file").select("first", "file", "one", "device").rows()
    return [Meeting(*row) for row in rows]


def find_clocks(
    files: int,
    met: Sequence[Meeting],
    sides: Callable[[Sequence[Meeting]], Iterable[tuple[Side, Side]]],
    given: Mapping[int, int],
) -> list[Clock]:
    """The clock of each file.

    Args:
        files: how many there are.
        met: pairs of files whose devices meet in collectives.
        sides: of each meeting, what both of its devices did.
        given: offsets in ps that the user states, by file; they are not measured.
    """
    stated = {file: TimeMove(-offset) for file, offset in given.items()}
    found: dict[int, Clock] = {}
    from xlahouse.ingest.clocks.match import match_clocks  # runs of one file do not wait for it

    matches: dict[Meeting, Match] = {}
    for start in _by_connections(files, met):
        if start in found:
            continue
        found[start] = Clock(start, start, REFERENCE)
        todo = [start]
        while todo:
            at = todo.pop(0)
            asked = [
                meeting
                for meeting in met
                if meeting not in matches
                and (other := _across(meeting, at)) is not None
                and other not in found
                and other not in stated
            ]
            for meeting, both in zip(asked, sides(asked), strict=True):
                matches[meeting] = match_clocks(*both)
            for meeting in met:
                other = _across(meeting, at)
                if other is None or other in found:
                    continue
                if other in stated:
                    found[other] = Clock(other, start, ALIGNED, stated[other], "setting")
                    todo.append(other)
                    continue
                match = matches[meeting]
                if match.fit is None:
                    continue
                move = match.fit.move if meeting.first == at else match.fit.move.reversed
                joined = move.then(found[at].move)
                evidence, spread = match.evidence, match.fit.spread_ps
                found[other] = Clock(
                    other, start, ALIGNED, joined, evidence, spread, match.fit.pairs
                )
                todo.append(other)
    ambiguous = {
        file
        for meeting, match in matches.items()
        if match.fit is None
        for file in (meeting.first, meeting.second)
        if found[meeting.first].component != found[meeting.second].component
    }
    return [_judged(found[file], found, ambiguous) for file in range(files)]


def _by_connections(files: int, met: Sequence[Meeting]) -> list[int]:
    """Files, those that meet another one first: the reference is the first that does."""
    connected = {file for meeting in met for file in (meeting.first, meeting.second)}
    return sorted(range(files), key=lambda file: (file not in connected, file))


def _across(meeting: Meeting, at: int) -> int | None:
    if meeting.first == at:
        return meeting.second
    return meeting.first if meeting.second == at else None


def _judged(clock: Clock, found: Mapping[int, Clock], ambiguous: set[int]) -> Clock:
    """A component's own reference beside other components: why it is not aligned with theirs."""
    first = next(iter(found))
    if clock.state != REFERENCE or clock.file == first:
        return clock
    state = AMBIGUOUS if clock.file in ambiguous else UNCONNECTED
    return Clock(clock.file, clock.component, state)
