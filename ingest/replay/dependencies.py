"""What ops of a device wait for across its lines: GPUs and CPUs run several lines at once.

With HLO, an op waits for its operands. Without, for what ended last on another line before it began; so does
a launch's first op on a line where none of its operands ran elsewhere, as what a called computation takes
is not known. Nothing is waited for that ended before the launch began, or before the host enqueued what
begins with the op.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.replay.lines import NOWHERE, Lines
from xlahouse.ingest.replay.measured import Measured
from xlahouse.ingest.replay.points import Points

_PLACE = ["device_id", "launch", "program_id"]


class Dependencies(NamedTuple):
    """Waits of an idle line for another line of its device: columns of one length."""

    source: Integers  # point where an op ends
    target: Integers  # point where an op begins that waited for it
    wait_ps: Integers  # from one to the other


def find_dependencies(run: Measured, lines: Lines, points: Points) -> Dependencies:
    """The waits across lines of a run; none on devices with one line."""
    device, count = np.unique(lines.device, return_counts=True)
    several = device[count > 1]
    if not len(several):
        return Dependencies(*(np.zeros(0, np.int64),) * 3)
    start, duration = (run.ops[name].to_numpy() for name in ("start_ps", "duration_ps"))
    end = start + duration
    works = (run.ops["category"] != "control").to_numpy() & (lines.of_op != NOWHERE)
    rows = np.flatnonzero(works & run.ops["device_id"].is_in(several.tolist()).to_numpy())
    if not len(rows):
        none = np.zeros(0, np.int64)
        return Dependencies(none, none, none)
    line = lines.of_op
    rows = rows[_begins_idle(line.take(rows), start.take(rows), end.take(rows))]
    source = _operands(run, rows, line, end)
    blind = source == NOWHERE
    begun, since = _launch_starts(run, rows)
    blind |= (source == _NO_OPERAND) & _opens(line.take(rows), start.take(rows), begun)
    source[blind] = _last_ended(run, lines, rows[blind], np.flatnonzero(works))
    chosen = (source >= 0) & (end.take(np.maximum(source, 0)) > since)
    rows, source = rows[chosen], source[chosen]
    target = points.place(line.take(rows), start.take(rows))
    ended = points.place(line.take(source), end.take(source))
    known = (target != NOWHERE) & (ended != NOWHERE)
    target, ended = target[known], ended[known]
    at = points.at_ps
    previous = np.where(points.head.take(target), np.iinfo(np.int64).min, at.take(target - 1))
    late = at.take(ended) >= previous
    wait = at.take(target) - at.take(ended)
    return Dependencies(ended[late], target[late], wait[late])


_NO_OPERAND = -2  # HLO is known, and no operand ran on another line
_UNKNOWN = np.iinfo(np.int64).min  # of the start of a launch


def _launch_starts(run: Measured, rows: Integers) -> tuple[Integers, Integers]:
    """(when the launch of each op began, if before the op; that, else its enqueue); _UNKNOWN without."""
    key = ["device_id", "launch"]
    launches = run.launches.select(*key, begun_ps="start_ps", queued_ps="enqueue_ps")
    found = (
        run.ops.select(*key, "start_ps")[rows]
        .join(launches.unique(key, keep="none"), on=key, how="left", maintain_order="left")
        .select(
            begun=pl.when(pl.col("begun_ps") < pl.col("start_ps")).then("begun_ps"),
            queued=pl.when(pl.col("queued_ps") <= pl.col("start_ps")).then("queued_ps"),
        )
    )
    begun = found["begun"].fill_null(_UNKNOWN).to_numpy()
    since = found.select(pl.coalesce("begun", "queued")).to_series().fill_null(_UNKNOWN).to_numpy()
    return begun, since


def _opens(line: Integers, start: Integers, begun: Integers) -> Mask:
    """Whether each op is the first of its launch on its line, as far as these ops know."""
    order = np.lexsort((start, line))
    own, at = line.take(order), begun.take(order)
    opens = np.ones(len(line), np.bool_)
    opens[order[1:]] = (own[1:] != own[:-1]) | (at[1:] != at[:-1])
    opens &= begun != _UNKNOWN
    return opens


def _begins_idle(line: Integers, start: Integers, end: Integers) -> Mask:
    """Whether nothing else of its line runs when an op begins."""
    idle = np.zeros(len(line), np.bool_)
    for number in np.unique(line):
        mine = np.flatnonzero(line == number)
        at = start.take(mine)
        begun = np.searchsorted(np.sort(at), at, side="left")
        over = np.searchsorted(np.sort(end.take(mine)), at, side="right")
        idle[mine] = begun <= over
    return idle


def _last_ended(run: Measured, lines: Lines, rows: Integers, works: Integers) -> Integers:
    """Of each op, the one of its device's other lines that ended last before it began."""
    start, duration = (run.ops[name].to_numpy() for name in ("start_ps", "duration_ps"))
    end = start + duration
    best = np.full(len(rows), NOWHERE)
    reached = np.full(len(rows), np.iinfo(np.int64).min)
    device = lines.device.take(lines.of_op.take(rows))
    for number in range(lines.count):
        of_line = works[lines.of_op.take(works) == number]
        of_line = of_line[np.argsort(end.take(of_line), kind="stable")]
        others = np.flatnonzero(
            (device == lines.device[number]) & (lines.of_op.take(rows) != number)
        )
        if not len(of_line) or not len(others):
            continue
        near = np.searchsorted(end.take(of_line), start.take(rows[others]), side="right") - 1
        found = of_line.take(np.maximum(near, 0))
        later = (near >= 0) & (end.take(found) > reached.take(others))
        best[others[later]] = found[later]
        reached[others[later]] = end.take(found[later])
    return best


def _operands(run: Measured, rows: Integers, line: Integers, end: Integers) -> Integers:
    """Of each op, its operand of another line that ended last before it began.

    NOWHERE where its HLO is not known, _NO_OPERAND where it is and no operand ran on another line.
    """
    found = np.full(len(rows), NOWHERE)
    ops = run.ops.select(*_PLACE, "op", "start_ps").with_columns(
        row=pl.int_range(pl.len()), line=pl.Series(line), end_ps=pl.Series(end)
    )
    needs = executed_operands(run.instructions, run.ops.select("program_id", "op").unique())
    users = ops[rows].with_columns(place=pl.int_range(pl.len()))
    known = users.join(needs.select("program_id", "op").unique(), on=["program_id", "op"])
    found[known["place"].to_numpy()] = _NO_OPERAND
    wanted = users.join(needs, on=["program_id", "op"]).drop_nulls("operand").sort("start_ps")
    ended = ops.select(*_PLACE, operand="op", ended_ps="end_ps", source="row", of_line="line")
    pairs = wanted.join_asof(
        ended.sort("ended_ps"),
        left_on="start_ps",
        right_on="ended_ps",
        by=[*_PLACE, "operand"],
        strategy="backward",
        check_sortedness=False,
    ).filter(pl.col("source").is_not_null() & (pl.col("of_line") != pl.col("line")))
    latest = pairs.sort("ended_ps").unique("place", keep="last")
    found[latest["place"].to_numpy()] = latest["source"].to_numpy()
    return found


def executed_operands(instructions: pl.DataFrame, executed: pl.DataFrame) -> pl.DataFrame:
    """program_id, op, operand: of each executed op the executed ops whose values it takes.

    Values pass through instructions that execute nothing, such as bitcasts and tuple elements. An op
    without such an operand has one row, its operand NULL.
    """
    ran = set(executed.iter_rows())
    operands = {
        (program, op): tuple((program, name) for name in text.split(",") if name)
        for program, op, text in instructions.select(
            "program_id", "op", pl.col("operands").fill_null("")
        ).iter_rows()
    }
    rows = []
    for key in sorted(ran & operands.keys()):
        seen, waiting, any_found = set(), list(operands[key]), False
        while waiting:
            other = waiting.pop()
            if other in seen:
                continue
            seen.add(other)
            if other in ran:
                rows.append((*key, other[1]))
                any_found = True
            else:
                waiting += operands.get(other, ())
        if not any_found:
            rows.append((*key, None))
    schema = {"program_id": pl.UInt64, "op": pl.String, "operand": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")
