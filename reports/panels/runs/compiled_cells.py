"""What the TPU's compiler says of every cell of a plan: memory, traffic and cost, before any of them runs."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xlahouse.reports.charts.columns import (
    PHASE_COLUMN,
    bytes_column,
    count_column,
    ratio_column,
    text_column,
)
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.units import plural, show_bytes

SQL = """
with traffic as (
    select
        run_id,
        phase,
        axis,
        case when count(wire_bytes) = count(*) then sum(wire_bytes) end as wire_bytes
    from traffic_volume_v1
    group by run_id, phase, axis
), cells as (
    select
        p.*,
        r.name,
        r.model,
        r.parallelism,
        r.device_kind,
        r.device_count,
        r.batch_size,
        r.prompt_tokens,
        -- A prefill of a server is of one slot, and its prompts have many lengths.
        case
            when p.phase = 'decode' then r.batch_size
            when p.phase = 'prefill' then r.batch_size * r.prompt_tokens
        end as tokens
    from program_fit_v1 as p
    inner join runs as r on r.run_id = p.run_id
    where r.source = 'compiled' and list_contains($runs, r.run_id)
), sent as (
    select
        c.run_id,
        c.phase,
        string_agg(
            t.axis || '=' || coalesce(cast(cast(round(t.wire_bytes / c.tokens) as bigint) as varchar), '?'),
            ', '
            order by t.axis
        ) as token_bytes
    from cells as c
    inner join traffic as t on t.run_id = c.run_id and t.phase = c.phase
    group by c.run_id, c.phase
), costs as (
    select run_id, world, program_id, sum(cycles) as cycles
    from compiler_cost_v1
    group by run_id, world, program_id
)
select
    c.model,
    c.name,
    c.parallelism,
    c.device_kind,
    c.device_count,
    c.batch_size,
    c.prompt_tokens,
    c.phase,
    c.needed_bytes,
    c.device_bytes,
    c.used_ratio,
    case when c.fits then 'yes' when not c.fits then 'no' else 'not known' end as fits,
    coalesce(s.token_bytes, '') as token_bytes,
    k.cycles
from cells as c
left join sent as s on s.run_id = c.run_id and s.phase = c.phase
left join costs as k
    on k.run_id = c.run_id and k.world = c.world and k.program_id = c.program_id
order by c.model, c.device_kind, c.batch_size, c.prompt_tokens, c.name, c.phase desc
"""


def show_axes(text: object) -> str:
    """Bytes by axis as people read them: `ep=2000, tp=?` is `ep 2.00 kB, tp not known`."""
    pairs = (pair.rpartition("=") for pair in str(text).split(", ") if pair)
    shown = (
        f"{axis} {show_bytes(int(size)) if size != '?' else 'not known'}" for axis, _, size in pairs
    )
    return ", ".join(shown) or "none"


COLUMNS = (
    text_column("model", "Model"),
    text_column("name", "Run"),
    text_column("parallelism", "Mesh"),
    text_column("device_kind", "Device"),
    count_column("device_count", "Devices"),
    count_column("batch_size", "Batch"),
    count_column("prompt_tokens", "Prompt"),
    PHASE_COLUMN,
    text_column("fits", "Fits"),
    bytes_column("needed_bytes", "Needed HBM"),
    bytes_column("device_bytes", "HBM of a device"),
    ratio_column("used_ratio", "Share"),
    text_column("token_bytes", "Sent per token, by axis", show_axes),
    count_column("cycles", "Compiler's cycles"),
)


def figures(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[Figure]:
    """None: a table of cells."""
    return []


def coverage(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> str:
    """How many programs of how many runs."""
    return f"{plural(len(rows), 'program')} of {plural(rows['name'].n_unique(), 'compiled run')}."


def verdict(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[str]:
    """How many programs do not fit."""
    refused = len(rows.filter(pl.col("fits") == "no"))
    if not refused:
        return []
    verb = "does" if refused == 1 else "do"
    return [f"{plural(refused, 'program')} {verb} not fit into the memory of a device."]


def why_empty(runs: Sequence[PageFacts]) -> str:
    """Compiled runs without the compiler's assignment."""
    return "The compiler's assignment of memory is not in the programs; compile again."


PANEL: Panel[Sequence[PageFacts]] = Panel(
    key="compiled_cells",
    title="Compiled programs",
    lede="What the TPU's compiler says of each program that has not run: whether it fits into a device's "
    "HBM, the bytes that all devices send for a token, and the cycles that it expects of a device, "
    "collectives left out.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    verdict=verdict,
    open_table=True,
    applies=lambda runs: any(run.compiled for run in runs),
)
