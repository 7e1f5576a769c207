"""What changes in a step from one run to another: by kernel, layer and collective, each adding up."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from xlahouse.capture.words import NO_OPS
from xlahouse.reports.charts.bars import named_bars
from xlahouse.reports.charts.columns import dashed_column, factor_column, ps_column, text_column
from xlahouse.reports.charts.labels import NAME_ABOVE, clip
from xlahouse.reports.charts.palette import DIRECTION_COLOURS, present_colours
from xlahouse.reports.charts.panel import Figure, Panel, TableColumn
from xlahouse.reports.charts.theme import colour
from xlahouse.reports.charts.units import PICOSECONDS, plural, show_ps, suit

if TYPE_CHECKING:
    from xlahouse.sql.answers.differences import GroupChange, OpChange, StepDifference

LONGER, LESS, IN_ALL = DIRECTION_COLOURS
MOST_BARS = 10  # beside the bars of the rest and of the sum
_NO_GROUP = {"no layer", "no collective", *NO_OPS}
SCHEMA = {
    **dict.fromkeys(("what", "scope", "shape", "category", "op", "other_op"), pl.String),
    **dict.fromkeys(
        (
            *("executions_per_step", "other_executions_per_step", "step_ps", "other_step_ps"),
            *("count_ps", "rate_ps", "new_ps", "gone_ps", "total_ps", "margin_ps"),
        ),
        pl.Float64,
    ),
    "sure": pl.String,
}


def versus_panel(sql: str, step: StepDifference, base: str, other: str) -> Panel[StepDifference]:
    """The panel of a phase.

    Args:
        sql: the query behind it.
        step: the difference of its steps.
        base: name of the first run.
        other: name of the second run.
    """
    return Panel(
        key=f"versus-{step.phase}",
        title=f"What changes in a {_kind(step)}",
        lede=f"Mean time of a {_kind(step)} that belongs to each op, in {base} and in {other}. Ops are "
        f"matched by scope, opcode, shape and kernel; {_without_op(step)}. The bars of a chart add up to "
        "its last one.",
        sql=sql,
        columns=_columns(base, other),
        figures=figures,
        coverage=coverage,
        why_empty=lambda step: "No op is known.",
        verdict=verdict,
        notes=notes,
    )


def _without_op(step: StepDifference) -> str:
    if step.phase == "prefill":
        return "idle in the step is time without an op, and the time before a prefill is left out"
    return "idle in the step and between steps are times without an op"


def _kind(step: StepDifference) -> str:
    return "step" if step.phase == "step" else f"{step.phase} step"


def _columns(base: str, other: str) -> tuple[TableColumn, ...]:
    return (
        text_column("what", "Kernel"),
        dashed_column("scope", "Where"),
        dashed_column("shape", "Shape"),
        ps_column("step_ps", f"In {clip(base, 24)}"),
        ps_column("other_step_ps", f"In {clip(other, 24)}"),
        ps_column("total_ps", "Change"),
        text_column("sure", "Sure"),
        factor_column("executions_per_step", "Times a step"),
        factor_column("other_executions_per_step", "then"),
        ps_column("count_ps", "By count"),
        ps_column("rate_ps", "By rate"),
        ps_column("new_ps", "New"),
        ps_column("gone_ps", "Gone"),
    )


def op_rows(step: StepDifference) -> pl.DataFrame:
    """One row an op, idle and between, the greatest change first."""
    return pl.DataFrame([_row(op) for op in step.ops], schema=SCHEMA)


def _row(op: OpChange) -> dict[str, object]:
    row: dict[str, object] = {name: getattr(op, name, None) for name in SCHEMA}
    name = op.kernel or op.opcode or "unnamed"
    sure = "yes" if op.rank is not None else "one step" if op.margin_ps is None else "no"
    return row | {"what": NO_OPS.get(op.part, name), "sure": sure}


def figures(rows: pl.DataFrame, step: StepDifference) -> list[Figure]:
    """The change by kernel, and by layer and collective where any is known."""
    kind = _kind(step)
    wanted = (
        ("kernel", step.kernels, "wide"),
        ("layer", step.layers, "half"),
        ("collective", step.collectives, "half"),
    )
    return [
        Figure(f"Change of a {kind} by {name}", change_chart(groups, kind, name), shape=shape)
        for name, groups, shape in wanted
        if _any_change(groups, _NO_GROUP if name != "kernel" else set())
    ]


def _any_change(groups: Sequence[GroupChange], spared: Collection[str]) -> bool:
    return any(group.total_ps and group.name not in spared for group in groups)


def change_chart(groups: Sequence[GroupChange], kind: str, by: str) -> alt.Chart:
    """A bar a change, each from where the one before it ends; the last one is the sum.

    Args:
        groups: the greatest change first.
        kind: of the step, in words.
        by: what the groups are.
    """
    data = bars(groups)
    unit = suit(pl.concat([data["start_ps"], data["end_ps"]]).abs(), PICOSECONDS)
    data = data.with_columns(
        (pl.col("start_ps") / unit.factor).alias("start"),
        (pl.col("end_ps") / unit.factor).alias("end"),
        (pl.col("change_ps") / unit.factor).alias("change"),
        (pl.col("step_ps") / unit.factor).alias("before"),
        (pl.col("other_step_ps") / unit.factor).alias("after"),
    ).drop("start_ps", "end_ps", "step_ps", "other_step_ps")
    title = f"Change of a {kind} by {by}"
    return named_bars(
        data,
        "shown",
        alt.X("start:Q", title=f"{title} ({unit.symbol})", axis=alt.Axis(tickCount=5)),
        colour(
            "direction", present_colours(DIRECTION_COLOURS, data["direction"]), column_width=120
        ),
        [
            alt.Tooltip("name:N", title=by),
            alt.Tooltip("change:Q", title=f"change, {unit.symbol}", format="+,.4~g"),
            alt.Tooltip("before:Q", title=f"before, {unit.symbol}", format=",.4~g"),
            alt.Tooltip("after:Q", title=f"after, {unit.symbol}", format=",.4~g"),
        ],
        title,
        end="end",
    )


def bars(groups: Sequence[GroupChange]) -> pl.DataFrame:
    """The greatest changes, the rest as one, and their sum: name, shown, direction and times in ps."""
    changed = [group for group in groups if group.total_ps]
    first, rest = changed[:MOST_BARS], changed[MOST_BARS:]
    found = [
        (NO_OPS.get(group.name, group.name), group.step_ps, group.other_step_ps) for group in first
    ]
    if rest:
        found.append((f"{len(rest)} more", *_sums(rest)))
    rows, end = [], 0.0
    for name, step_ps, other_step_ps in found:
        start, end = end, end + other_step_ps - step_ps
        rows.append((name, LONGER if end > start else LESS, start, end, step_ps, other_step_ps))
    rows.append(("in all", IN_ALL, 0.0, end, *_sums(groups)))
    names = ["name", "direction", "start_ps", "end_ps", "step_ps", "other_step_ps"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    changes = frame["end_ps"] - frame["start_ps"]
    # Numbered, since two long names may look alike once they are clipped.
    numbers = [f"{place}. " for place in range(1, len(first) + 1)]
    numbers += [""] * (len(frame) - len(first))
    shown = [
        f"{number}{clip(name, NAME_ABOVE - 14)}: {signed(change)}"
        for number, name, change in zip(numbers, frame["name"], changes, strict=True)
    ]
    return frame.with_columns(changes.alias("change_ps"), pl.Series("shown", shown))


def _sums(groups: Sequence[GroupChange]) -> tuple[float, float]:
    return sum(group.step_ps for group in groups), sum(group.other_step_ps for group in groups)


def signed(time_ps: float) -> str:
    """A change with its sign and unit."""
    return f"{'+' if time_ps > 0 else '-' if time_ps < 0 else ''}{show_ps(abs(time_ps))}"


def verdict(rows: pl.DataFrame, step: StepDifference) -> list[str]:
    """How the steps differ, and how much got slower and quicker."""
    longer = [group.total_ps for group in step.kernels if group.total_ps > 0]
    less = [group.total_ps for group in step.kernels if group.total_ps < 0]
    if not longer or not less:
        return [step.sentence]
    sums = (
        f"{signed(sum(of))} from {len(of)} that take{'s' * (len(of) == 1)} {how}"
        for of, how in ((longer, "longer"), (less, "less"))
    )
    return [step.sentence, f"By kernel: {', '.join(sums)}."]


def coverage(rows: pl.DataFrame, step: StepDifference) -> str:
    """How many ops there are, and of how many the change is sure."""
    ops = plural(sum(op.part == "op" for op in step.ops), "op")
    if all(op.margin_ps is None for op in step.ops):
        return f"{ops}; the spread over steps is not known."
    sure = sum(op.rank is not None for op in step.ops)
    return f"{ops}; {sure:,} of {plural(len(step.ops), 'row')} by more than the spread over steps."


def notes(rows: pl.DataFrame, step: StepDifference) -> list[str]:
    """Why there is no chart by layer or collective."""
    if not step.total_ps:
        return []
    wanted = (("layer", step.layers), ("collective", step.collectives))
    return [
        f"Not drawn by {name}: no change belongs to one."
        for name, groups in wanted
        if not _any_change(groups, _NO_GROUP)
    ]
