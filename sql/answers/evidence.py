"""What is behind a loss, in a few words: how late the host is, which cause, which ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlahouse.capture.words import HOST_STEPS
from xlahouse.sql.answers.lagging import lagging_text, most_lagging
from xlahouse.sql.answers.source import Source
from xlahouse.sql.answers.split import Part, Split
from xlahouse.sql.answers.words import duration, percent

# The launches that the host is latest for, up to nine tenths of all lateness, stand apart: a few long gaps
# say nothing of the other launches.
LATE_SQL = """
with gaps as (
    select
        launch_gap_ps,
        greatest(launch_gap_ps, 0) as gap_ps,
        case when dispatch_ps is not null then greatest(launch_gap_ps, 0) end as enqueued_gap_ps,
        case when dispatch_ps is not null
            then greatest(greatest(launch_gap_ps, 0) - dispatch_ps, 0) end as late_ps,
        l.device_id,
        l.launch
    from launch_overhead_v1 as l
    inner join devices as d on d.run_id = l.run_id and d.device_id = l.device_id
    where l.run_id = $run and l.phase is not distinct from $phase and d.core is distinct from 'sparsecore'
), ranked as (
    select
        *,
        sum(late_ps) over () as all_late_ps,
        sum(late_ps) over (
            order by late_ps desc nulls last, device_id, launch
            rows between unbounded preceding and current row
        ) - late_ps as later_ps
    from gaps
)
select
    count(launch_gap_ps) as launches,
    sum(gap_ps) as gap_ps,
    sum(enqueued_gap_ps) as enqueued_gap_ps,
    sum(late_ps) as late_ps,
    count(case when late_ps > 0 and later_ps < 0.9 * all_late_ps then 1 end) as late_launches,
    sum(case when late_ps > 0 and later_ps < 0.9 * all_late_ps then late_ps end) as latest_ps
from ranked
"""
CAUSE_SQL = f"""
select cause, cast(sum(idle_ps) as bigint) as idle_ps, (
    select count(*) from launches
    where run_id = $run and phase is not distinct from $phase and module in {HOST_STEPS}
) as steps_of_host
from bubble_v2
where run_id = $run and phase is not distinct from $phase and cause <> 'between_steps'
group by cause
having sum(idle_ps) > 0
order by idle_ps desc, cause
limit 1
"""
COLLECTIVE_SQL = """
select kind, cast(sum(count) as bigint) as count, sum(exposed_ps) as exposed_ps
from exposed_collective_v1
where run_id = $run and phase is not distinct from $phase and axis is not distinct from $axis
    and kind is not null
group by kind
order by exposed_ps desc, kind
limit 1
"""
COPY_SQL = """
select kernel, cast(sum(executions) as bigint) as executions
from op_profile_v1
where run_id = $run and phase is not distinct from $phase and category in ('copy', 'host_transfer')
group by kernel
order by sum(duration_ps) desc, kernel
limit 1
"""
FEW_LATE = 0.1  # of the launches: fewer are gaps of their own, and no property of a launch


def evidence(source: Source, run_id: str, split: Split, part: Part) -> str:
    """A few words on what is behind a part of a split; empty where the views say no more."""
    if part.name == "sync_wait":
        return _latest(source, run_id)
    asked = _QUESTIONS.get(part.name)
    if asked is None:
        return ""
    sql, say = asked
    known = {"run": run_id, "phase": split.phase, "axis": part.axis}
    given = {name: value for name, value in known.items() if f"${name}" in sql}
    rows = source.query(sql, given).dicts()
    return say(rows[0], split, part) if rows else ""


def _say_late(row: dict[str, Any], split: Split, part: Part) -> str:
    if not row["launches"]:
        return ""
    if row["gap_ps"] < part.time_ps / 2:
        return "most of it lies inside launches, not between them"
    of_steps = (
        row["launches"] > split.device_steps
    )  # most launches of a step follow another closely
    each, count = (split.per, split.count) if of_steps else ("launch", row["launches"])
    if row["late_ps"] is not None and row["late_ps"] >= row["enqueued_gap_ps"] / 2:
        few = row["late_launches"]
        if 0 < few <= FEW_LATE * row["launches"]:
            late = duration(row["latest_ps"] / few)
            return f"the host is late for {few:,} of {row['launches']:,} launches, by {late} each"
        return f"the host is late by {duration(row['late_ps'] / count)} a {each}"
    gap = duration(row["gap_ps"] / count)
    said = f"a launch starts {gap} after the one before has ended"
    if of_steps:
        said = f"the gaps before the launches of a {split.per} add up to {gap}"
    if row["late_ps"] is None:
        return f"{said}; the trace does not say when the host enqueued it"
    return f"{said}, and the host had enqueued most of them in time"


def _say_cause(row: dict[str, Any], split: Split, part: Part) -> str:
    of_it = _of_it(row["idle_ps"], part)
    if row["cause"] == "unattributed":
        return f"{of_it} without a known cause"
    if row["cause"] == "device" and row["steps_of_host"]:
        return f"{of_it} between kernels, which the host launches one by one"
    return f"{of_it} {_CAUSES[row['cause']]}"


def _of_it(amount_ps: float, part: Part) -> str:
    share = percent(amount_ps / part.time_ps) if part.time_ps else "0 %"
    return "all" if share == "100 %" else f"{share} of it"


def _say_collective(row: dict[str, Any], split: Split, part: Part) -> str:
    each = row["count"] / split.count
    return f"{_of_it(row['exposed_ps'], part)} in {row['kind']}, {each:.3g} a {split.per}"


def _say_copy(row: dict[str, Any], split: Split, part: Part) -> str:
    each = row["executions"] / split.count
    return f"most copy time is in {row['kernel']}, {each:.3g} a {split.per}"


def _latest(source: Source, run_id: str) -> str:
    found = most_lagging(source, run_id)
    return lagging_text(found) if found and found.last_ratio else ""


# The causes of idle_gap in words.
_CAUSES = {
    "device": "between ops of a program that runs",
    "host": "while the device waits for the host",
    "imbalance": "while the device waits for a slower one",
    "pipeline": "while the device waits for another stage",
}
_QUESTIONS: dict[str, tuple[str, Callable[[dict[str, Any], Split, Part], str]]] = {
    "between_steps": (LATE_SQL, _say_late),
    "idle": (CAUSE_SQL, _say_cause),
    "exposed": (COLLECTIVE_SQL, _say_collective),
    "exposed_copy": (COPY_SQL, _say_copy),
}
