"""Which ops make the difference between a run and the first run of its workload."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import altair as alt
import polars as pl

from xlahouse.capture.commands import located
from xlahouse.capture.words import NO_OPS
from xlahouse.reports.charts.bars import amount, named_bars, place_in
from xlahouse.reports.charts.columns import (
    PHASE_COLUMN,
    count_column,
    dashed_column,
    factor_column,
    ps_column,
    text_column,
)
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.labels import NAME_ABOVE, clipped
from xlahouse.reports.charts.palette import CHANGE_COLOURS, present_colours
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.phases import step_of
from xlahouse.reports.charts.theme import colour
from xlahouse.reports.charts.units import PICOSECONDS, plural, suit
from xlahouse.reports.panels.runs.setups import MEMBERS_SQL, virtual_note

# Ops of all pairs of so many runs can be compared within seconds; of 500 they took 8 GB and minutes.
MAX_COMPARED = 64
# The first run of a workload is the base of its other runs; pairs of all runs would be too many.
SQL = f"""{MEMBERS_SQL.strip()}, bases as (
    select subject, min(list_position($runs, run_id)) as place
    from members
    group by subject
)
select
    d.phase,
    members.subject,
    coalesce(b.name, d.run_id) as base,
    coalesce(o.name, d.other_run_id) as other,
    case d.part when 'op' then coalesce(d.kernel, d.opcode, 'unnamed') else d.part end as what,
    d.scope,
    d.shape,
    d.executions_per_step,
    d.other_executions_per_step,
    d.step_ps,
    d.other_step_ps,
    d.count_ps,
    d.rate_ps,
    d.new_ps,
    d.gone_ps,
    d.total_ps,
    d.rank
from op_diff_v1 as d
inner join members on members.run_id = d.run_id
inner join members as compared
    on compared.run_id = d.other_run_id and compared.subject = members.subject
inner join bases
    on bases.subject = members.subject and bases.place = list_position($runs, d.run_id)
inner join runs as b on b.run_id = d.run_id
inner join runs as o on o.run_id = d.other_run_id
where
    len($runs) <= {MAX_COMPARED}
    and d.phase in ('prefill', 'decode', 'mixed', 'step')
    -- The first prefill of a run has no time before it.
    and not (d.phase = 'prefill' and d.part = 'between')
    and d.rank is not null
order by members.subject, base, other, d.other_run_id, d.phase desc, d.rank
"""

COLUMNS = (
    text_column("base", "From run"),
    text_column("other", "To run"),
    PHASE_COLUMN,
    count_column("rank", "Rank"),
    text_column("what", "Kernel"),
    dashed_column("scope", "Where"),
    dashed_column("shape", "Shape"),
    factor_column("executions_per_step", "Times a step"),
    factor_column("other_executions_per_step", "then"),
    ps_column("step_ps", "Time of a step"),
    ps_column("other_step_ps", "then"),
    ps_column("count_ps", "By count"),
    ps_column("rate_ps", "By rate"),
    ps_column("new_ps", "New"),
    ps_column("gone_ps", "Gone"),
    ps_column("total_ps", "Change"),
)

# Part of a change -> its name.
_CHANGES = dict(zip(("rate_ps", "count_ps", "new_ps", "gone_ps"), CHANGE_COLOURS, strict=True))
MAX_PAIRS = 6  # with charts; the table and its CSV have all
MAX_ROWS = 15


def changes_chart(rows: pl.DataFrame) -> alt.Chart:
    """The greatest changes of one phase and pair of runs, each by its reason.

    Args:
        rows: rows of SQL, by rank.
    """
    what = pl.col("what").replace(NO_OPS)
    where = pl.concat_str(what, pl.lit(" "), pl.col("scope").fill_null("")).str.strip_chars()
    # Numbered, since two long names may look alike once they are clipped.
    named = rows.head(MAX_ROWS).with_columns(
        pl.format("{}. {}", "rank", clipped(where, NAME_ABOVE - 4, end=24)).alias("shown")
    )
    unit = suit(named["total_ps"].abs(), PICOSECONDS)
    data = named.unpivot(
        on=list(_CHANGES),
        index=["rank", "shown", "what", "scope", "shape", "total_ps"],
        variable_name="part",
        value_name="part_ps",
    ).filter(pl.col("part_ps") != 0)
    data = data.with_columns(
        change=pl.col("part").replace_strict(_CHANGES),
        amount=pl.col("part_ps") / unit.factor,
    ).drop("part")
    colours = present_colours(CHANGE_COLOURS, data["change"])
    data = data.with_columns(place_in(colours, "change"))
    return named_bars(
        data.sort("rank", "place"),
        "shown",
        amount("amount", f"Change of a step ({unit.symbol})"),
        colour("change", colours, column_width=170),
        [
            alt.Tooltip("what:N", title="kernel"),
            alt.Tooltip("scope:N", title="where"),
            alt.Tooltip("shape:N", title="shape"),
            alt.Tooltip("change:N", title="change"),
            alt.Tooltip("part_ps:Q", title="a step, ps", format=",.0f"),
            alt.Tooltip("total_ps:Q", title="in all, ps", format=",.0f"),
        ],
        "Change of a step's time by op",
    )


def figures(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[Figure]:
    """A chart of each phase of the first pairs."""
    found = []
    pairs = rows.group_by("base", "other", maintain_order=True)
    for number, ((base, other), whole) in enumerate(pairs):
        if number == MAX_PAIRS:
            break
        for (phase,), part in whole.group_by("phase", maintain_order=True):
            note = "The greatest change first; changes within the spread over steps are left out."
            title = f"From {base} to {other}: a {step_of(phase)}"
            found.append(Figure(title, changes_chart(part), note, shape="wide"))
    return found


def coverage(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> str:
    """How many pairs there are."""
    pairs = rows.select("base", "other").n_unique()
    return f"{plural(len(rows), 'change')} in {plural(pairs, 'pair')} of runs."


def notes(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[str]:
    """How far times are valid, and the command for all that changed between two runs."""
    base, other = (shlex.quote(name) for name in rows.select("base", "other").row(0))
    command = located(f"xlahouse report versus --run {base} --run {other}", runs[0].warehouse)
    return [*virtual_note(runs), f"All that changed between two runs on a page: `{command}`."]


def why_empty(runs: Sequence[PageFacts]) -> str:
    """Why there is no row."""
    if len(runs) < 2:
        return "There is one run, so there is no run to compare with."
    if len(runs) > MAX_COMPARED:
        return (
            f"A page of more than {MAX_COMPARED} runs does not compare their ops: `xlahouse compare RUN "
            "OTHER` does for two, and `xlahouse report comparison --run RUN --run OTHER` for a few."
        )
    return (
        "No two runs of one workload differ in a step by more than the spread over their steps, or "
        "they have no phase in common."
    )


PANEL: Panel[Sequence[PageFacts]] = Panel(
    key="op-changes",
    title="Why: which ops make the difference",
    lede="Mean time of a step that belongs to each op, in the first run of a workload and in another. Ops "
    "are matched by scope, opcode, shape and kernel; idle in the step and between steps are times without "
    "an op; the time before a prefill is left out.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
