"""Cards of a compiled run: what its programs hold and move, and how long a step is expected to take."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from xlahouse.reports.charts.cards import HeadlineCard
from xlahouse.reports.charts.units import (
    plural,
    show_bytes,
    show_exact,
    show_factor,
    show_ps,
    show_ratio,
)

# A number a row; `part` is the axis of wire bytes, `beside` what the number is compared with.
SQL = """
with compiled as (
    select run_id, batch_size from runs where source = 'compiled'
), found as (
    select run_id, phase, 'needed_bytes' as metric, cast(null as varchar) as part,
        cast(needed_bytes as double) as value, cast(device_bytes as double) as beside
    from program_fit_v1
    union all
    select run_id, phase, 'collectives', null, value, null
    from step_load_v1
    where metric = 'collectives'
    union all
    select run_id, phase, 'wire_bytes', axis,
        case when count(wire_bytes) = count(*) then cast(sum(wire_bytes) as double) end, null
    from traffic_volume_v1
    group by run_id, phase, axis
    union all
    select run_id, phase, 'cycles', null, cast(sum(cycles) as double), null
    from compiler_cost_v1
    group by run_id, phase
    union all
    select run_id, phase, 'forecast', metric, cast(optimistic_ps as double), cast(pessimistic_ps as double)
    from forecast
    where change is null
)
select found.*, batch_size
from found
inner join compiled on compiled.run_id = found.run_id
where value is not null
order by found.run_id, phase, metric, value desc, part
"""
MOST_AXES = 3


def compiled_cards(rows: pl.DataFrame) -> list[HeadlineCard]:
    """The cards of one run: memory of its largest program, and the rest of its decode step.

    Args:
        rows: rows of SQL of the run.
    """
    phase = "decode" if "decode" in rows["phase"] else "prefill"
    step = rows.filter(pl.col("phase") == phase)
    return [*_memory(rows), *_sent(step, phase), *_collectives(step, phase), *_time(step, phase)]


def _memory(rows: pl.DataFrame) -> Iterator[HeadlineCard]:
    needs = rows.filter(pl.col("metric") == "needed_bytes").sort("value", descending=True)
    for row in needs.head(1).iter_rows(named=True):
        fits = "the HBM of this kind of device is not known"
        if row["beside"]:
            verb = "fits" if row["value"] <= row["beside"] else "does not fit"
            share = show_ratio(row["value"] / row["beside"])
            fits = f"{share} of {show_bytes(row['beside'])}: it {verb}"
        yield _card(row, "Memory of a device", show_bytes(row["value"]), fits, row["phase"])


def _sent(step: pl.DataFrame, phase: str) -> Iterator[HeadlineCard]:
    """The axes that send most; a decode step makes a token of each sequence."""
    sent = step.filter(pl.col("metric") == "wire_bytes")
    for row in sent.head(MOST_AXES).iter_rows(named=True):
        tokens = row["batch_size"] if phase == "decode" else None
        amount, per = row["value"] / (tokens or 1), "token" if tokens else "step"
        along = "an axis not known" if row["part"] in (None, "unclassified") else row["part"]
        over = f"step of {plural(tokens, 'token')}" if tokens else "step"
        label = f"Wire bytes a {per}, {along}"
        yield _card(row, label, show_bytes(amount), f"all devices, a {over}", phase, amount)


def _collectives(step: pl.DataFrame, phase: str) -> Iterator[HeadlineCard]:
    for row in step.filter(pl.col("metric") == "collectives").iter_rows(named=True):
        yield _card(row, "Collectives a step", show_factor(row["value"]), "on a device", phase)


def _time(step: pl.DataFrame, phase: str) -> Iterator[HeadlineCard]:
    """A forecast where there is one; else the cycles, as the compiler states no clock."""
    for row in step.filter(pl.col("metric") == "forecast").iter_rows(named=True):
        text = f"{show_ps(row['value'])} to {show_ps(row['beside'])}"
        label = f"{row['part'].upper()}, forecast"
        yield _card(row, label, text, "at best and at worst; not validated on hardware", phase)
        return
    for row in step.filter(pl.col("metric") == "cycles").iter_rows(named=True):
        spread = "of the compiler's estimate, without collectives"
        yield _card(row, "Cycles a step", show_factor(row["value"]), spread, phase)


def _card(
    row: dict[str, float],
    label: str,
    text: str,
    spread: str,
    phase: str,
    value: float | None = None,
) -> HeadlineCard:
    exact = show_exact(row["value"] if value is None else value)
    return HeadlineCard(str(row["metric"]), label, text, exact, spread, f"{phase} program", "")
