"""Time of a step in which devices run ops, of two runs and their repeats, whatever the host does."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from statistics import median

from xlahouse.sql.answers.source import Source

DEVICE_METRICS = ("prefill_device_s", "decode_device_s", "mixed_device_s", "step_device_s")

_REPEATS_SQL = """
select r.run_id, a.run_id as of_run_id
from runs as a
inner join runs as r
    on r.run_id = a.run_id or (
        r.setup = a.setup
        and coalesce(r.source, 'none') not in ('compiled', 'predicted')
        and coalesce(a.source, 'none') not in ('compiled', 'predicted')
    )
where a.run_id in ($base, $other)
"""
_TIMES_SQL = """
select
    run_id,
    phase,
    cast(window_ps - idle_ps as double) / 1e12 / nullif(device_steps, 0) as device_s
from comm_compute_v2
where list_contains($runs, run_id) and phase in ('prefill', 'decode', 'mixed', 'step')
order by run_id, phase
"""


@dataclass(frozen=True)
class DeviceTime:
    """The device time of a phase's mean step, of two setups."""

    metric: str  # such as decode_device_time_s
    # median over the repeats of the base's setup; its own value where both are repeats of one setup
    base: float
    other: float  # the same of the other run
    spread: float | None  # the larger of the repeats' spreads; None where a setup has one run
    runs: int  # repeats of the base's setup
    other_runs: int  # repeats of the other's setup
    verdict: str  # on the other run: better, worse or inconclusive


def device_times(source: Source, base: str, other: str) -> list[DeviceTime]:
    """A row for each phase that both setups have: the windows of its steps, less their idle time."""
    repeats: dict[str, set[str]] = {base: set(), other: set()}
    for row in source.query(_REPEATS_SQL, {"base": base, "other": other}).dicts():
        repeats[row["of_run_id"]].add(row["run_id"])
    runs = sorted(repeats[base] | repeats[other])
    values: dict[str, dict[str, float]] = defaultdict(dict)
    for row in source.query(_TIMES_SQL, {"runs": runs}).dicts():
        if row["device_s"] is not None:
            values[f"{row['phase']}_device_s"][row["run_id"]] = row["device_s"]
    found = []
    for metric in DEVICE_METRICS:
        ours, theirs = (
            [value for run, value in values[metric].items() if run in repeats[name]]
            for name in (base, other)
        )
        own = values[metric].get(base), values[metric].get(other)
        one_setup = repeats[base] == repeats[other]
        if ours and theirs and not (one_setup and None in own):
            found.append(_compared(metric, ours, theirs, own if one_setup else None))
    return found


def _compared(
    metric: str, base: list[float], other: list[float], own: tuple[float | None, ...] | None
) -> DeviceTime:
    """own: the values of the two runs, where they are repeats of one setup, which has one median."""
    spread = max((max(side) - min(side) for side in (base, other) if len(side) > 1), default=None)
    known = None if min(len(base), len(other)) < 2 else spread
    middle, others = own or (median(base), median(other))
    assert middle is not None
    assert others is not None
    if own is not None or known is None or abs(others - middle) <= known:
        verdict = "inconclusive"
    else:
        verdict = "worse" if others > middle else "better"
    return DeviceTime(metric, middle, others, spread, len(base), len(other), verdict)
