"""Finds what a run should show and does not: collectives, ops, waits, scopes and links to the host."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xlahouse.ingest.events.codes_of_names import (
    LAUNCH_UNLINKED,
    OPS_MISSING,
    SCOPE_UNKNOWN,
    WAITS_UNSEEN,
)
from xlahouse.ingest.events.codes_of_programs import COLLECTIVE_UNSEEN
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.hlo.program_facts import ProgramFacts
from xlahouse.ingest.tables.assemble import WorldParts
from xlahouse.ingest.tables.device_tables import FinishedBatch


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
    if facts.ops["transfer_op"].null_count() == facts.ops.height:
        return []
    key = ["program_id", "transfer_op"]
    ran = launches.select("program_id").unique()
    has = facts.ops.drop_nulls("transfer_op").join(ran, on="program_id", how="semi")
    # On a timeline a wrapper appears in place of the instruction that transfers.
    seen = has.join(shown, on=["program_id", "op"], how="semi").select(key).unique()
    lost = has.select(key).unique().join(seen, on=key, how="anti").sort(key)
    names = lost["transfer_op"].head(3).to_list() + ["…"] * (lost.height > 3)
    detail = f"{COLLECTIVE_UNSEEN.meaning} ({', '.join(names)})"
    return issues_found(source, (COLLECTIVE_UNSEEN, lost.height, detail))


def unseen_events(world: WorldParts, finished: Sequence[FinishedBatch], source: str) -> list[Issue]:
    """Findings about kinds of events that a world's devices lack, as where a release renames them.

    Args:
        world: the world.
        finished: all its devices.
        source: the run, for the issues.
    """
    working = {device for batch in finished for device in batch.working}
    waiting = {device for batch in finished for device in batch.waiting}
    devices = [device for plane in world.planes for device in plane.devices]
    own = {device.device_id for device in devices if device.core != "sparsecore"}
    cores = {device.device_id for device in devices if device.core == "tensorcore"}
    scoped = any(batch.scoped for batch in finished)
    # A GPU's Chrome trace names no program, and states scopes.
    of_xla = any(d.core == "gpu" and d.plane.startswith("/device") for d in devices)
    compiled = bool(working) and (of_xla or world.launches["program_id"].is_not_null().any())
    return issues_found(
        source,
        (OPS_MISSING, len(own - working)),
        (WAITS_UNSEEN, len(cores & working - waiting)),
        (SCOPE_UNKNOWN, int(compiled and not scoped)),
        (LAUNCH_UNLINKED, world.launches["enqueue_ps"].null_count()),
    )
