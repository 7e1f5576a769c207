"""Rows of the replica groups and permute pairs of a run's programs, within the limit on members of groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from xlahouse.capture.limits import exceeded, most
from xlahouse.ingest.events.codes_of_files import LIMIT_EXCEEDED
from xlahouse.ingest.events.codes_of_programs import BAD_REPLICA_GROUPS
from xlahouse.ingest.events.frames import ColumnTypes, same
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.hlo.group_notations import GroupError, Groups
from xlahouse.ingest.hlo.groups import (
    connected,
    count_members,
    count_pairs,
    device_groups,
    device_pairs,
)
from xlahouse.ingest.hlo.megascale import slices_of
from xlahouse.ingest.hlo.messages import HloInstruction
from xlahouse.ingest.hlo.program import Program

GROUP_COLUMNS: ColumnTypes = {
    "program_id": pl.UInt64,
    "op": pl.String,
    "group_index": pl.Int64,
    "position": pl.Int64,
    "logical_id": pl.Int64,
}
PAIR_COLUMNS: ColumnTypes = {
    "program_id": pl.UInt64,
    "op": pl.String,
    "source_device_id": pl.Int64,
    "target_device_id": pl.Int64,
}
_EXCHANGES = ("collective-permute", "send-recv")


@dataclass(frozen=True)
class Grouped:
    """A collective of a program, whose groups are not made yet: a few numbers may stand for millions."""

    program: Program  # the program that holds it
    op: str  # by which its events name it
    collective: HloInstruction  # the instruction that transfers
    kind: str | None  # of the transfer, such as all-gather

    @property
    def members(self) -> int:
        """Members that its groups have together, over all processes that run the program."""
        if self.collective.id in self.program.dcn_parts:
            return sum(map(len, devices_of(self.program)))
        count = count_pairs if self.kind in _EXCHANGES else count_members
        return sum(count(self.collective, place) for place in self.program.assignments)


@dataclass
class GroupRows:
    """The rows, as columns under construction."""

    groups: list[pl.DataFrame] = field(default_factory=list)  # GROUP_COLUMNS
    pairs: list[pl.DataFrame] = field(default_factory=list)  # PAIR_COLUMNS
    issues: list[Issue] = field(default_factory=list)  # findings about groups
    known: set[int] = field(default_factory=set)  # programs that have rows of groups

    @property
    def group_frame(self) -> pl.DataFrame:
        """GROUP_COLUMNS of all collectives."""
        return pl.concat([pl.DataFrame(schema=GROUP_COLUMNS), *self.groups])

    @property
    def pair_frame(self) -> pl.DataFrame:
        """PAIR_COLUMNS of all permutes, sends and recvs."""
        return pl.concat([pl.DataFrame(schema=PAIR_COLUMNS), *self.pairs])


def group_rows(collectives: Iterable[Grouped], source: str) -> GroupRows:
    """Rows of all collectives; the largest are left out where all together exceed the limit.

    Args:
        collectives: of the run's programs.
        source: the run, for issues.
    """
    counted = [(each, each.members) for each in collectives]
    too_large = _too_large(counted)
    rows, left_out = GroupRows(), 0
    for each, members in counted:
        if too_large is not None and members >= too_large:
            left_out += 1
            continue
        try:
            _add(rows, each)
        except GroupError as error:
            detail = f"{each.program.module} {each.op}: {error}"
            rows.issues.append(BAD_REPLICA_GROUPS.found(source, detail=detail))
    if left_out:
        detail = f"{left_out:,} collectives have {exceeded('group_members')}"
        rows.issues.append(LIMIT_EXCEEDED.found(source, left_out, detail))
    return rows


def _too_large(counted: list[tuple[Grouped, int]]) -> int | None:
    """The least number of members that is left out: all with fewer are within the limit together."""
    total = 0
    for members in sorted(members for _, members in counted):
        total += members
        if total > most("group_members"):
            return members
    return None


def _add(rows: GroupRows, each: Grouped) -> None:
    """Make the groups and pairs of a collective.

    Raises:
        GroupError: they contradict themselves or the device assignment.
    """
    groups, exchanged = _participants(each.program, each.collective, each.kind)
    number, op = each.program.program_id, each.op
    sizes = [len(group) for group in groups]
    if sizes:
        columns = {
            "group_index": np.repeat(np.arange(len(groups)), sizes),
            "position": np.concatenate([np.arange(size) for size in sizes]),
            "logical_id": np.concatenate([np.array(group, np.int64) for group in groups]),
        }
        rows.groups.append(_frame(number, op, columns, GROUP_COLUMNS))
        rows.known.add(number)
    if exchanged:
        ends = np.array(exchanged, np.int64)
        columns = {"source_device_id": ends[:, 0], "target_device_id": ends[:, 1]}
        rows.pairs.append(_frame(number, op, columns, PAIR_COLUMNS))


def _frame(
    program_id: int, op: str, columns: dict[str, np.ndarray], schema: ColumnTypes
) -> pl.DataFrame:
    count = len(next(iter(columns.values())))
    key = [same("program_id", program_id, pl.UInt64, count), same("op", op, pl.String, count)]
    return pl.DataFrame(
        [*key, *(pl.Series(name, values, schema[name]) for name, values in columns.items())]
    )


def _participants(
    program: Program, collective: HloInstruction, kind: str | None
) -> tuple[Groups, list[tuple[int, int]]]:
    """(groups, pairs) of a collective as logical device numbers, in each of the processes that run it;
    pairs only of a permute."""
    if collective.id in program.unread:
        raise GroupError("the text of its groups or pairs cannot be read")
    if collective.id in program.dcn_parts:
        target = program.dcn_parts[collective.id].target
        slices = (slices_of(target, devices) for devices in devices_of(program))
        return [list(peers) for of_place in slices for peers in zip(*of_place, strict=True)], []
    if kind in _EXCHANGES or (kind is None and collective.source_target_pairs):
        found = [device_pairs(collective, place) for place in program.assignments]
        exchanged = list(dict.fromkeys(pair for pairs in found for pair in pairs))
        return connected(exchanged), exchanged
    groups = [device_groups(collective, place) for place in program.assignments]
    distinct = list(dict.fromkeys(tuple(group) for of_place in groups for group in of_place))
    if len({member for group in distinct for member in group}) < sum(map(len, distinct)):
        raise GroupError("processes that share devices give them different groups")
    return [list(group) for group in distinct], []


def devices_of(program: Program) -> list[list[int]]:
    """All devices of each of a program's assignments that are known."""
    places = (place for place in program.assignments if place is not None)
    return [[device for row in place.devices for device in row] for place in places]
