"""Finds collectives that a program has but no timeline shows."""

from __future__ import annotations

import polars as pl

from xlahouse.ingest.events.codes_of_programs import COLLECTIVE_UNSEEN
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.hlo.program_facts import ProgramFacts


def unseen_collectives(
    facts: ProgramFacts, launches: pl.DataFrame, shown: pl.DataFrame, source: str
) -> list[Issue]:
    """The finding for collectives in the HLO of programs that ran, without an event.

    Args:
        facts: of all programs of a world.
        launches: its launches.
        shown: program_id, op of the collectives on its timelines.
        source: the run, for the issue.
    """
    key = ["program_id", "transfer_op"]
    ran = launches.select("program_id").unique()
    has = facts.ops.drop_nulls("transfer_op").join(ran, on="program_id", how="semi")
    # On a timeline a wrapper appears in place of the instruction that transfers.
    seen = has.join(shown, on=["program_id", "op"], how="semi").select(key).unique()
    lost = has.select(key).unique().join(seen, on=key, how="anti").sort(key)
    names = lost["transfer_op"].head(3).to_list() + ["…"] * (lost.height > 3)
    detail = f"{COLLECTIVE_UNSEEN.meaning} ({', '.join(names)})"
    return issues_found(source, (COLLECTIVE_UNSEEN, lost.height, detail))
