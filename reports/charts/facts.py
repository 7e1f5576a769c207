"""What a page knows about its run: setup, coverage, and why numbers are missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from xlahouse.capture.words import HOST_STEPS
from xlahouse.reports.charts.units import plural

if TYPE_CHECKING:
    from xlahouse.reports.charts.panel import Queryable

Row = Mapping[str, Any]  # column -> value

VIRTUAL_BANNER = "virtual devices: structure valid, times not"
COMPILED_BANNER = "compiled: {steps}; nothing ran"
PREDICTED_BANNER = "predicted: not validated on hardware"
COMPARED_BANNER = "predicted: no time of the run was measured"  # but runs of what it predicts were

_COMPILED_STEPS = {"prefill": "one prefill", "decode": "one decode step"}

# Measured runs of what each prediction is about.
_COMPARED_SQL = """
select run_id, cast(max(runs) as bigint) as compared_runs
from predicted_step_v1
group by run_id
"""

FACTS_SQL = f"""
with device_facts as (
    select
        run_id,
        count(*) as named_devices,
        count(*) filter (where traced) as traced_devices,
        coalesce(bool_or(inferred), false) as inferred
    from devices
    group by run_id
), marker_facts as (
    select
        run_id,
        count(*) filter (where source = 'marker' and request is not null) as markers
    from phases
    group by run_id
), mesh_axes as (
    select distinct run_id, axis_index, axis, size
    from run_mesh_v1
), stages as (
    select run_id, device_id, coordinate as stage
    from run_mesh_v1
    where axis = 'pp' and size > 1
), place_facts as (
    select
        devices.run_id,
        list(
            struct_pack(device_id := devices.device_id, host := host, stage := stage)
            order by devices.device_id
        ) as places
    from devices
    left join stages on stages.run_id = devices.run_id and stages.device_id = devices.device_id
    where core is distinct from 'sparsecore'
    group by devices.run_id
), step_facts as (
    select run_id, min(module) as host_step
    from launches
    where phase = 'step' and module in {HOST_STEPS}
    group by run_id
), mesh_facts as (
    select run_id, string_agg(axis || ' ' || size, ' x ' order by axis_index) as mesh_text
    from mesh_axes
    group by run_id
), issue_facts as (
    select
        run_id,
        count(*) filter (where severity = 'error') as errors,
        count(*) filter (where severity = 'warning') as warnings,
        count(*) filter (where severity = 'info') as infos
    from issues
    group by run_id
), event_facts as (
    select
        run_id,
        cast(sum(events_read) as bigint) as events_read,
        cast(sum(events_rejected) as bigint) as events_rejected
    from coverage
    group by run_id
), collective_facts as (
    select run_id, count(*) as collectives
    from collectives
    group by run_id
), program_facts as (
    select run_id, list(distinct phase order by phase desc) as compiled_phases
    from programs
    where phase is not null
    group by run_id
), parents as (
    select run_id as parent_run_id, name as parent_name
    from runs
)
select
    runs.* exclude (captured_at, ingested_at),
    -- as text: a year may be beyond Python's
    regexp_replace(cast(captured_at at time zone 'UTC' as varchar), '\\.[0-9]+$', '') || ' UTC'
        as captured_text,
    parent_name,
    mesh_text,
    host_step,
    places,
    compiled_phases,
    coalesce(named_devices, 0) as named_devices,
    coalesce(traced_devices, 0) as traced_devices,
    coalesce(inferred, false) as inferred,
    coalesce(markers, 0) as markers,
    coalesce(errors, 0) as errors,
    coalesce(warnings, 0) as warnings,
    coalesce(infos, 0) as infos,
    coalesce(events_read, 0) as events_read,
    coalesce(events_rejected, 0) as events_rejected,
    coalesce(collectives, 0) as collectives
from runs
left join device_facts using (run_id)
left join marker_facts using (run_id)
left join step_facts using (run_id)
left join mesh_facts using (run_id)
left join place_facts using (run_id)
left join issue_facts using (run_id)
left join event_facts using (run_id)
left join collective_facts using (run_id)
left join program_facts using (run_id)
left join parents using (parent_run_id)
order by name, captured_at, run_id
"""


@dataclass(frozen=True)
class PageFacts:
    """What a page knows about its run."""

    run_id: str  # the run's id
    name: str  # for people; the id where the run has none
    row: Row  # its row of `runs`, counts over its other tables, and its row of run_summary
    warehouse: str  # that it is read from: a folder or URL

    @property
    def inferred(self) -> bool:
        """Whether any device's identity was deduced, as on CPU: then times are not an accelerator's."""
        return bool(self.row["inferred"])

    @property
    def compiled(self) -> bool:
        """Whether its programs were compiled and did not run: it has bytes of a step, and no times."""
        return bool(self.row["source"] == "compiled")

    @property
    def predicted(self) -> bool:
        """Whether no time of the run was measured: a replay of another run worked them out."""
        return bool(self.row.get("source") == "predicted")

    @property
    def parent(self) -> str:
        """The run that a predicted run is a replay of: `tp4 (run 3f851182d3af)`."""
        name, run_id = self.row.get("parent_name"), self.row["parent_run_id"]
        return f"{name} (run {run_id})" if name else f"run {run_id}"

    def circuit_notes(self) -> list[str]:
        """Where the waits of a run predicted over optical circuits are; nothing of other runs."""
        if "reconfigure=" not in (self.row.get("change") or ""):
            return []
        return [
            "Exposed communication and sync wait hold the waits for optical circuits: they pass while a "
            "transfer's op or barrier runs. The overview has them apart (circuit wait)."
        ]

    @property
    def compared(self) -> bool:
        """Whether a measured run of what was predicted says how far the prediction is off."""
        return bool(self.row.get("compared_runs"))

    @property
    def traced(self) -> bool:
        """Whether the trace has events of any device."""
        return bool(self.row["traced_devices"])

    @property
    def marked(self) -> bool:
        """Whether the trace has markers of requests and steps."""
        return bool(self.row["markers"])

    @property
    def unmarked_step(self) -> str:
        """What a step is where no marker names one: the host's mark around many kernels, or a launch."""
        return str(self.row.get("host_step") or "execution of a program")

    @property
    def mesh(self) -> str | None:
        """The mesh that the views use, as `dp 2 x tp 2`, major to minor."""
        text: str | None = self.row["mesh_text"]
        return text

    def groups(self) -> dict[int, str]:
        """Device -> its stage of the pipeline, or else its host; none where there is one of each."""
        places = [place for place in self.row["places"] or () if place["device_id"] is not None]
        staged = any(place["stage"] is not None for place in places)
        named = {
            place["device_id"]: f"stage {place['stage']}" if staged else _host_name(place["host"])
            for place in places
        }
        return named if len(set(named.values())) > 1 else {}

    @property
    def compiled_steps(self) -> str:
        """The steps whose programs a compiled run has."""
        phases = self.row["compiled_phases"] or ()
        steps = [_COMPILED_STEPS.get(phase, phase) for phase in phases]
        return " and ".join(steps) or "no program"

    def covered(self) -> str:
        """How much of the run is in the warehouse at all, for the end of a coverage sentence."""
        row = self.row
        if self.compiled:
            devices = plural(row["named_devices"], "device")
            return f"{self.compiled_steps}, compiled for {devices}."
        devices = f"{row['traced_devices']:,} of {plural(row['named_devices'], 'device')} traced"
        events = f"{row['events_rejected']:,} of {plural(row['events_read'], 'event')} rejected"
        status = (
            ""
            if row["status"] == "complete"
            else f"; the run is {row['status'] or 'of unknown status'}"
        )
        return f"{devices}; {events}{status}."


def _host_name(host: str | None) -> str:
    name = host or "not known"
    return name if name.startswith("host") else f"host {name}"


def compared_runs(source: Queryable, rows: pl.DataFrame) -> pl.DataFrame | None:
    """run_id, compared_runs: measured runs of what each prediction is about; None without predictions.

    Args:
        source: the warehouse.
        rows: of FACTS_SQL.
    """
    predicts = rows["source"].is_in(["predicted", "compiled"]).any()
    return source.query(_COMPARED_SQL).pl() if predicts else None


def read_facts(
    rows: pl.DataFrame, summary: pl.DataFrame, warehouse: str, compared: pl.DataFrame | None = None
) -> list[PageFacts]:
    """Rows of FACTS_SQL, each with its row of SUMMARY_SQL, -> facts, in the order of `rows`.

    Args:
        rows: of FACTS_SQL.
        summary: of SUMMARY_SQL.
        warehouse: that they are read from.
        compared: of compared_runs.
    """
    headlines = {row["run_id"]: row for row in summary.to_dicts()}
    if compared is not None:
        for row in compared.to_dicts():
            headlines[row["run_id"]] |= row
    return [
        PageFacts(
            row["run_id"],
            row["name"] or row["run_id"],
            {**row, **headlines[row["run_id"]]},
            warehouse,
        )
        for row in rows.to_dicts()
    ]


def why_no_rows(untraced: str, otherwise: str) -> Callable[[PageFacts], str]:
    """Why a panel has no rows: no device was traced, so `untraced`; else `otherwise`."""

    def why(facts: PageFacts) -> str:
        if facts.compiled:
            return f"The programs were compiled and did not run, so {untraced}."
        if not facts.traced:
            return f"The trace has no device events, so {untraced}."
        return otherwise

    return why
