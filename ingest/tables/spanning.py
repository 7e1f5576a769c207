"""Groups of all ranks, for collectives whose group is unknown: where the user states that they span all."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from xlahouse.ingest.hlo.program_facts import GROUP_COLUMNS, ProgramFacts
from xlahouse.ingest.tables.worlds import World

_PROGRAM_OP = ["program_id", "op"]
_BETWEEN_TWO = ["send-recv", "collective-permute"]  # their members are a pair


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
