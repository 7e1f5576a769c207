"""What a pipeline costs the steps of a run: waits for stages, empty microbatches, filling and draining."""

from __future__ import annotations

from dataclasses import dataclass

from xlahouse.sql.answers.source import Source
from xlahouse.sql.answers.words import percent

_HAS_STAGES = "select 1 from run_mesh_v1 where run_id = $run and axis = 'pp' and size > 1 limit 1"
_SQL = """
select
    cast(sum(window_ps + fill_drain_ps) as double) as whole_ps,
    case when count(idle_ps) = count(*) then cast(sum(idle_ps) as double) end as waits_ps,
    case when count(masked_ps) = count(*) then cast(sum(masked_ps) as double) end as masked_ps,
    case when count(fill_drain_ps) = count(*) then cast(sum(fill_drain_ps) as double) end as fill_drain_ps,
    max(ideal_ratio) as ideal_ratio
from bubble_v2
where run_id = $run and phase is not distinct from $phase and cause = 'pipeline'
having count(*) > 0
"""


@dataclass(frozen=True)
class Pipeline:
    """Shares of the steps' windows, filling and draining included; None where the trace does not say."""

    waits_ratio: float | None  # idle while only other stages are busy
    masked_ratio: float | None  # compute on empty microbatches
    fill_drain_ratio: (
        float | None
    )  # idle before and after, while the step is under way on other stages
    ideal_ratio: float | None  # (p-1)/(m+p-1) of p stages and m microbatches


def pipeline_cost(source: Source, run_id: str, phase: str | None) -> Pipeline | None:
    """What the pipeline costs steps of a phase; None of a run without one, or without such steps."""
    if not source.query(_HAS_STAGES, {"run": run_id}).dicts():
        return None
    rows = source.query(_SQL, {"run": run_id, "phase": phase}).dicts()
    if not rows:
        return None
    [row] = rows

    def ratio(name: str) -> float | None:
        part, whole = row[f"{name}_ps"], row["whole_ps"]
        return part / whole if part is not None and whole else None

    return Pipeline(ratio("waits"), ratio("masked"), ratio("fill_drain"), row["ideal_ratio"])


def pipeline_text(found: Pipeline) -> str:
    """Such as `27 % of the steps' windows (waits for other stages 5 %, …); (p-1)/(m+p-1) is 27 %`."""
    parts = {
        "waits for other stages": found.waits_ratio,
        "work on empty microbatches": found.masked_ratio,
        "filling and draining": found.fill_drain_ratio,
    }
    known = {name: ratio for name, ratio in parts.items() if ratio is not None}
    missing = [name for name in parts if name not in known]
    listed = ", ".join(f"{name} {percent(ratio)}" for name, ratio in known.items())
    whole = "at least " if missing else ""
    said = (
        f"{whole}{percent(sum(known.values()))} of the steps' windows ({listed})" if known else ""
    )
    unknown = f"not known: {', '.join(missing)}" if missing else ""
    ideal = (
        f"(p-1)/(m+p-1) is {percent(found.ideal_ratio)}" if found.ideal_ratio is not None else ""
    )
    return "; ".join(text for text in (said, unknown, ideal) if text)
