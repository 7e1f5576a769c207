"""What is wrong or unknown in a run's data: findings of its ingest, and clocks that contradict each other."""

from __future__ import annotations

from dataclasses import dataclass

from xlahouse.capture.commands import shown
from xlahouse.sql.answers.source import Source

DISAGREE = "starts_before_enqueue"  # also a finding of `xlahouse check`
_ISSUES = """
select severity, code, message, cast(sum(count) as bigint) as count from issues
where run_id = $run and severity in ('error', 'warning')
group by severity, code, message order by severity, code, message
"""
_EARLY = """
select count(case when starts_before_enqueue then 1 end) as early, count(enqueue_ps) as linked
from launch_overhead_v1 where run_id = $run having count(case when starts_before_enqueue then 1 end) > 0
"""


@dataclass(frozen=True)
class DataFinding:
    """Something wrong or unknown in the run's data."""

    severity: str  # error, warning or info
    code: str  # as in the table issues, or DISAGREE
    message: str  # as in the table issues, its commands completed
    count: int  # events or rows that it concerns


def data_findings(source: Source, run_id: str, name: str) -> tuple[DataFinding, ...]:
    """Errors and warnings about a run, the worst first.

    Args:
        source: has the run.
        run_id: its id.
        name: of the run, in commands.
    """
    given = {"run": run_id}
    found = [
        DataFinding(**row | {"message": shown(row["message"], name, source.root)})
        for row in source.query(_ISSUES, given).dicts()
    ]
    return (*found, *(_disagreement(**row) for row in source.query(_EARLY, given).dicts()))


def _disagreement(early: int, linked: int) -> DataFinding:
    message = (
        f"{early:,} of {linked:,} linked launches start before the host enqueues them: the clocks of host "
        "and device disagree, and times from a host's marker are in doubt"
    )
    return DataFinding("warning", DISAGREE, message, early)
