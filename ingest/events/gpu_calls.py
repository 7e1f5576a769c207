"""Finds the execution that launched a GPU kernel, by the runtime's calls and correlation ids."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl

from xlahouse.ingest.events.codes_of_devices import LAUNCH_UNKNOWN
from xlahouse.ingest.events.issues import Issue, issues_found

# The host event around the launches of one execution's kernels; older XLA names it by the module.
EXECUTION = r"^GpuExecutable::ExecuteThunks$|:XLA GPU module$"
_CALL_COLUMNS = {
    "correlation_id": pl.Int64,
    "call": pl.String,
    "execution": pl.Int64,
    "enqueue_ps": pl.Int64,
    "enqueue_thread": pl.String,
}


@dataclass(frozen=True)
class HostCalls:
    """Calls of the GPU's runtime."""

    # _CALL_COLUMNS: the call's name, and number and start of the execution that made it; NULL where unknown
    frame: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=_CALL_COLUMNS))
    # calls that launch ops of a program, but lie in no execution that can be identified
    unplaced: int = 0

    def issues(self, source: str) -> list[Issue]:
        """The finding about calls that lie in no execution."""
        return issues_found(source, (LAUNCH_UNKNOWN, self.unplaced))


def calls_of(calls: pl.DataFrame, events: pl.DataFrame) -> HostCalls:
    """Calls with the executions that made them.

    Args:
        calls: event, thread, start_ps, call, correlation_id, of_program (true, or NULL), by start.
        events: all of the host: event, thread, name, start_ps, duration_ps.
    """
    executions = events.filter(pl.col("name").str.contains(EXECUTION)).select(
        executor="thread",
        enqueue_thread="thread",
        execution=pl.col("event").cast(pl.Int64),
        enqueue_ps="start_ps",
        until=pl.col("start_ps") + pl.col("duration_ps"),
    )
    owned = _owned(calls, executions.sort("enqueue_ps"))
    found = calls.join(owned, on="event", how="left")
    lost = found.filter(pl.col("of_program") & pl.col("execution").is_null()).height
    frame = found.unique("correlation_id", keep="first", maintain_order=True)
    return HostCalls(
        frame.select(pl.col(name).cast(kind) for name, kind in _CALL_COLUMNS.items()), lost
    )


def _owned(calls: pl.DataFrame, executions: pl.DataFrame) -> pl.DataFrame:
    """(event, execution, enqueue_ps, enqueue_thread) of the calls that an execution made.

    Calls and executions are on lines of different names even where they are of one thread. The line of
    executions that spans most of the program's calls of a line is of the same thread; where two span as
    many, the one of the same name is, or neither.
    """
    lines = executions.select("executor").unique()
    spanned = (
        calls.join(lines, how="cross")
        .sort("start_ps")
        .join_asof(
            executions,
            left_on="start_ps",
            right_on="enqueue_ps",
            by="executor",
            check_sortedness=False,
        )
        .filter(pl.col("start_ps") < pl.col("until"))
    )
    votes = spanned.group_by("thread", "executor").agg(
        votes=pl.col("of_program").sum(), same=(pl.col("thread") == pl.col("executor")).first()
    )
    ranked = votes.with_columns(
        rank=pl.struct("votes", "same").rank("min", descending=True).over("thread")
    )
    best = ranked.filter((pl.col("rank") == 1) & (pl.len().over("thread", "rank") == 1))
    chosen = best.select("thread", "executor")
    return spanned.join(chosen, on=["thread", "executor"]).select(
        "event", "execution", "enqueue_ps", "enqueue_thread"
    )
