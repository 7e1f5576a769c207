"""How much of a device's memory a run took, as its allocators and its compiled programs say."""

from __future__ import annotations

import polars as pl

from xlahouse.reports.charts.columns import (
    bytes_column,
    ratio_column,
    text_column,
)
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.units import plural

SQL = """
with measured as (
    select allocator as name, max(device_id) as device_id, max(peak_bytes) as bytes
    from memory_timeline_v2
    where run_id = $run and source = 'allocator'
    group by allocator
), compiled as (
    select module as name, program_id, max(total_bytes) as bytes
    from program_memory_v1
    where run_id = $run and memory = 'HBM'
    group by module, program_id
), found as (
    select 'allocator' as source, name, device_id, bytes
    from measured
    union all
    select 'program', name, null, bytes
    from compiled
)
select found.*, device_bytes, cast(bytes as double) / nullif(device_bytes, 0) as used_ratio
from found
left join hbm_capacity_v1 on run_id = $run
order by source, bytes desc nulls last, name
"""

COLUMNS = (
    text_column("source", "By"),
    text_column("name", "Allocator or program"),
    text_column("device_id", "Device", lambda value: "-" if value is None else str(value)),
    bytes_column("bytes", "Most bytes held"),
    bytes_column("device_bytes", "HBM of a device"),
    ratio_column("used_ratio", "Share"),
)


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """None: the table is short, and the line above the headline is the answer."""
    return []


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many allocators and programs there are."""
    kinds = rows["source"].to_list()
    counted = [
        plural(kinds.count(kind), kind) for kind in ("allocator", "program") if kind in kinds
    ]
    return f"{', '.join(counted)}."


def why_empty(facts: PageFacts) -> str:
    """Neither kind of source is in the trace."""
    return (
        "The trace has no allocator's counters, and no program with its buffers: profile with host "
        "tracing on, or give the compiler's dump (`xlahouse ingest TRACES --run RUN --hlo-dump FOLDER`)."
    )


PANEL: Panel[PageFacts] = Panel(
    key="memory",
    title="Memory",
    lede="The most that each allocator had in use, also before the profile, and what each compiled program "
    "allocates in HBM: arguments, results, constants and temporary values.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
)
