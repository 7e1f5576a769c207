"""What each policy of changing optical circuits would cost the steps of a run: the reconfiguration plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from xlahouse.ingest.replay.circuits import POLICIES
from xlahouse.ingest.replay.schedule import Costs
from xlahouse.ingest.replay.step_times import step_times
from xlahouse.ingest.schema import BY_NAME
from xlahouse.sql.predict.changes import Change, Reconfigure, describe
from xlahouse.sql.predict.comparing import phase_means, whole_ps
from xlahouse.sql.predict.costs import Facts, circuits_of, costs_of
from xlahouse.sql.predict.keeping import keep_rows
from xlahouse.sql.predict.loading import Parent, table_of

TABLE = "reconfiguration_plan"
_KEY = ["policy", "delay_ps", "circuits", "scope", "change"]
_STEP = ["request", "step"]


def plan_circuits(
    facts: Facts, change: Change, delays_ps: Sequence[int], circuits: int, rails: bool
) -> pl.DataFrame:
    """Rows of the table without run_id: each policy with each delay.

    Args:
        facts: of the run.
        change: what else is changed; without circuits of its own.
        delays_ps: times that a change takes.
        circuits: of a device at once.
        rails: whether only transfers between hosts need circuits.

    Raises:
        WarehouseError: the run has nothing to switch, or what the change needs is not known.
    """
    costs, _ = costs_of(facts, change)
    schedule = facts.parent.schedule
    without = step_times(schedule, schedule.replay(costs))
    also = describe(change) if change != Change() else None
    rows = [
        _of_policy(facts, costs, without, Reconfigure(delay, circuits, rails, policy))
        for delay in sorted(set(delays_ps))
        for policy in POLICIES
    ]
    columns = [name for name in BY_NAME[TABLE].schema.names if name != "run_id"]
    return pl.concat(rows).with_columns(change=pl.lit(also, pl.String)).select(columns)


def _of_policy(
    facts: Facts, costs: Costs, without: pl.DataFrame, given: Reconfigure
) -> pl.DataFrame:
    """The rows of a policy and a delay, one a phase."""
    schedule = facts.parent.schedule
    found = schedule.switch(costs, circuits_of(facts, given))
    after = step_times(schedule, schedule.replay(costs, found.reached))
    phases = whole_ps(phase_means(without, after))
    of_steps = without.select("phase", *_STEP)
    changes = found.changes.join(of_steps, on=_STEP, nulls_equal=True).group_by("phase")
    changed = changes.agg(
        changes=pl.len(),
        hidden=pl.sum("hidden_ps"),
        exposed=pl.sum("exposed_ps"),
        shared=pl.sum("shares"),
    )
    traffic = found.traffic.join(of_steps, on=_STEP, nulls_equal=True).group_by("phase")
    sent = pl.when(pl.col("wire_bytes").is_not_null().all()).then(pl.sum("wire_bytes"))
    carried = traffic.agg(sent=sent, carried=pl.col("wire_bytes").filter("carried").sum())
    rows = phases.join(changed, on="phase", how="left", nulls_equal=True).join(
        carried, on="phase", how="left", nulls_equal=True
    )
    per_step = {
        "changes_per_step": "changes",
        "step_hidden_ps": "hidden",
        "step_exposed_ps": "exposed",
        "shared_changes_per_step": "shared",
    }
    added = pl.col("replayed_step_ps") - pl.col("step_ps")
    return rows.sort("phase", nulls_last=True).with_columns(
        *(
            (pl.col(total).fill_null(0) / (pl.col("steps") * found.devices)).alias(name)
            for name, total in per_step.items()
        ),
        policy=pl.lit(given.policy),
        delay_ps=pl.lit(given.delay_ps, pl.Int64),
        circuits=pl.lit(given.circuits, pl.Int64),
        scope=pl.lit("rails" if given.rails else "axes"),
        added_ps=added,
        added_ratio=added / pl.col("step_ps").replace(0, None),
        ports=pl.lit(found.ports, pl.Int64),
        circuit_bytes_ratio=pl.col("carried") / pl.col("sent").replace(0, None),
    )


def keep_plan(parent: Parent, rows: pl.DataFrame) -> None:
    """Write a plan into the warehouse; earlier rows of other delays, circuits, scopes and changes stay."""
    before = table_of(parent.warehouse, TABLE, parent.row["run_id"], whole=True)
    kept = before.join(rows.select(_KEY).unique(), on=_KEY, how="anti", nulls_equal=True)
    whole = pl.concat([kept.select(rows.columns), rows], how="vertical_relaxed")
    keep_rows(parent.warehouse, parent.row, {TABLE: whole})


def shown_plan(rows: pl.DataFrame) -> pl.DataFrame:
    """A plan's columns for people: times in ms and us."""
    return rows.select(
        "policy",
        "phase",
        delay_us=pl.col("delay_ps") / 1e6,
        step_ms=pl.col("step_ps") / 1e9,
        replayed_step_ms=pl.col("replayed_step_ps") / 1e9,
        added_percent=pl.col("added_ratio") * 100,
        changes_per_step="changes_per_step",
        hidden_us=pl.col("step_hidden_ps") / 1e6,
        exposed_us=pl.col("step_exposed_ps") / 1e6,
        ports="ports",
        circuit_bytes_percent=pl.col("circuit_bytes_ratio") * 100,
    )


def with_circuits(change: Change, given: Reconfigure) -> Change:
    """The change, over circuits."""
    return replace(change, reconfigure=given)
