"""Who takes part in collectives: members on clocks apart, members not seen, or, as stated, all ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import polars as pl

from xlahouse.ingest.clocks.clocks import MEETING
from xlahouse.ingest.events.codes_of_devices import PARTICIPANTS_MISSING
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.hlo.group_rows import GROUP_COLUMNS
from xlahouse.ingest.hlo.groups import connected
from xlahouse.ingest.hlo.program_facts import ProgramFacts
from xlahouse.ingest.tables.collectives import Collectives
from xlahouse.ingest.tables.instances import CIRCLE
from xlahouse.ingest.tables.worlds import World

_GROUP = ["program_id", "op", "group_index"]
_PROGRAM_OP = ["program_id", "op"]
_BETWEEN_TWO = ["send-recv", "collective-permute"]  # their members are a pair


def across_clocks(
    found: Collectives, groups: pl.DataFrame, component_of: Mapping[int, int]
) -> pl.Series:
    """Whether each event is of a group with members on clocks that cannot be compared."""
    if len(set(component_of.values())) <= 1:
        return pl.repeat(False, found.events.height, eager=True)
    component = pl.col("device_id").replace_strict(component_of, default=None)
    members = groups.with_columns(component=component).drop_nulls("component")
    apart = members.group_by(_GROUP).agg(apart=pl.col("component").n_unique() > 1)
    return _of_events(found, apart)["apart"].fill_null(False)


def partly_seen(
    found: Collectives, groups: pl.DataFrame, traced: AbstractSet[int], source: str
) -> list[Issue]:
    """The finding that instances have fewer participants than traced members (METRICS, Clocks).

    Args:
        found: collectives of a world.
        groups: replica_groups rows, with device_id.
        traced: devices of which the trace has events.
        source: the run.
    """
    if groups.is_empty() or found.events.is_empty():
        return []
    members = groups.filter(pl.col("device_id").is_in(list(traced)))
    expected = members.group_by(_GROUP).agg(traced=pl.len())
    seen = found.events.select("instance").with_columns(_of_events(found, expected)["traced"])
    short = (
        seen.drop_nulls()
        .group_by("instance")
        .agg(seen=pl.len(), traced=pl.col("traced").first())
        .filter(pl.col("seen") < pl.col("traced"))
    )
    return issues_found(source, (PARTICIPANTS_MISSING, short.height))


def _of_events(found: Collectives, of_group: pl.DataFrame) -> pl.DataFrame:
    """Columns of a group for each event; NULL where the event has no group."""
    ops = found.kinds.select("program_id", "op")[found.events["of_kind"]]
    rows = ops.with_columns(found.events["group_index"])
    return rows.join(of_group, on=_GROUP, how="left", maintain_order="left")


def circles_of(facts: ProgramFacts) -> pl.DataFrame:
    """program_id, device_id, circle: the least of the devices that meet it in collectives of the program."""
    meeting = facts.ops.filter(pl.col("kind").is_in(MEETING)).select(_PROGRAM_OP).unique()
    groups = facts.groups.join(meeting, on=_PROGRAM_OP, how="semi")
    members = groups.group_by(_GROUP).agg(pl.col("logical_id").unique().sort())
    rows = []
    for program, lists in members.group_by("program_id").agg(pl.col("logical_id").unique()).rows():
        circles = connected([(members[0], member) for members in lists for member in members])
        rows += [(program, device, circle[0]) for circle in circles for device in circle]
    schema = {"program_id": pl.UInt64, "device_id": pl.Int64, CIRCLE: pl.Int64}
    return pl.DataFrame(rows, schema, orient="row")


def members_of(world: World, facts: ProgramFacts) -> tuple[int, ...]:
    """Logical ids of all that may take part: devices, and ranks that files state without being here."""
    ranks = max((size for file in world.files for _, size in file.ranks), default=0)
    return tuple(sorted(world.logical_ids(facts) | set(range(ranks))))


def with_all_ranks(
    groups: pl.DataFrame, ops: pl.DataFrame, pairs: pl.DataFrame, members: Iterable[int]
) -> pl.DataFrame:
    """Groups, and for each collective among the ops without one a group of all members.

    Args:
        groups: GROUP_COLUMNS.
        ops: program_id, op, kind.
        pairs: program_id, op of permutes.
        members: logical ids.
    """
    between_two = pl.col("kind").is_in(_BETWEEN_TWO).fill_null(False)
    lone = ops.filter(~between_two).select(_PROGRAM_OP).unique().sort(_PROGRAM_OP)
    for known in (groups, pairs):
        lone = lone.join(known, on=_PROGRAM_OP, how="anti")
    ids = pl.DataFrame({"logical_id": list(members)}, schema={"logical_id": pl.Int64})
    all_of_them = lone.join(ids.with_row_index("position"), how="cross")
    added = all_of_them.with_columns(pl.lit(0).alias("group_index"))
    return pl.concat([groups, added.select(pl.col(n).cast(t) for n, t in GROUP_COLUMNS.items())])
