"""Which programs the steps of a run without markers are."""

from __future__ import annotations

from typing import Any

from xlahouse.capture.words import plural
from xlahouse.sql.answers.source import Source
from xlahouse.sql.answers.words import duration, percent

# Of a run whose every step is one execution of a program.
_SQL = """
select coalesce(module, 'a program without a name') as module,
    cast(count(*) as bigint) as executions, cast(sum(duration_ps) as bigint) as time_ps
from launches
where run_id = $run and phase = 'step' and not exists (
    select 1 from phases where run_id = $run and phase = 'step' and source <> 'module'
)
group by all order by time_ps desc nulls last, module
"""


def launched(source: Source, run_id: str) -> list[dict[str, Any]]:
    """The programs whose executions are the run's steps, the one with most time first; [] where markers name
    steps. Columns: module, executions over all devices, time_ps."""
    return source.query(_SQL, {"run": run_id}).dicts()


def describe(programs: list[dict[str, Any]]) -> str | None:
    """A sentence on such programs; None of none."""
    if not programs:
        return None
    first, total = programs[0], sum(row["time_ps"] or 0 for row in programs)
    if not total:
        return f"a step is one execution of any of {plural(len(programs), 'program')}"
    each = f"{duration(first['time_ps'] / first['executions'])} an execution"
    if len(programs) == 1:
        return f"a step is one execution of {first['module']}, {each}"
    return (
        f"a step is one execution of any of {len(programs)} programs; {first['module']} takes "
        f"{percent(first['time_ps'] / total)} of their time, {each}"
    )
