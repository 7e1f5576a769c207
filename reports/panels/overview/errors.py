"""How far predictions of the run's kind were from what was measured, on all runs of the warehouse."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from xlahouse.reports.charts.columns import PHASE_COLUMN, count_column, ps_column, text_column
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.panel import Figure, Panel, TableColumn
from xlahouse.reports.charts.phases import by_phase, phase_order
from xlahouse.reports.charts.units import NOT_KNOWN, plural

SQL = f"""
with steps as (
    select * from predicted_step_v1
), kinds as (
    select distinct method, change from steps where run_id = $run
)
select
    s.run_id, coalesce(s.name, s.run_id) as name, s.phase, s.least_predicted_ps, s.most_predicted_ps,
    s.measured_ps, s.runs, s.error_ratio, e.predictions, e.pairs, e.median_error_ratio,
    e.largest_error_ratio
from steps as s
inner join kinds as k on k.method = s.method and k.change is not distinct from s.change
inner join prediction_error_v1 as e
    on e.method = s.method and e.change is not distinct from s.change and e.phase = s.phase
order by {phase_order("s.phase")}, s.run_id <> $run, s.error_ratio is null, name, s.run_id
"""

# Predicted / measured - 1 of ops, by the costs that forecasts and other chips rest on.
OF_PUBLIC_TRACES = (
    "Ops of the public v6e trace: three fusions that ran 400 times each are -0.6 % to +2.4 % off by the "
    "compiler's cycles (at 1.75 GHz, a clock that rests on these ops) and -17.9 % to -9.4 % by HBM's peak; a "
    "broadcast that ran once is +252.4 % and -24.5 % off.",
    "The public vLLM trace does not state its chip, so its 2,837 kinds of ops have no prediction.",
)


def signed(ratio: float | None) -> str:
    """`+4.0 %`: above the measured time."""
    return NOT_KNOWN if ratio is None else f"{100 * ratio:+.1f} %"


def columns(rows: pl.DataFrame, facts: PageFacts) -> tuple[TableColumn, ...]:
    """A forecast is an interval, a replay one time."""
    interval = (
        ps_column("least_predicted_ps", "Predicted at best"),
        ps_column("most_predicted_ps", "Predicted at worst"),
    )
    return (
        text_column("name", "Prediction"),
        PHASE_COLUMN,
        *(interval if facts.compiled else (ps_column("least_predicted_ps", "Predicted"),)),
        ps_column("measured_ps", "Measured"),
        count_column("runs", "Measured runs"),
        TableColumn("error_ratio", "Predicted / measured - 1", signed, str),
    )


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """Errors are read, not drawn."""
    return []


def verdict(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """The errors of each phase, or that there is nothing measured to compare with."""
    if not rows["pairs"].sum():
        what = "No forecast" if facts.compiled else f"Nothing predicted with {_change(facts)}"
        return [f"{what} was measured here yet: its error is not known."]
    return list(_errors(rows, facts))


def _errors(rows: pl.DataFrame, facts: PageFacts) -> Iterator[str]:
    noun, change = ("forecast", "") if facts.compiled else ("replay", f" with {_change(facts)}")
    for phase, part in by_phase(rows):
        row = part.row(0, named=True)
        if row["pairs"]:
            yield (
                f"{phase.capitalize()}: {row['pairs']:,} of {plural(row['predictions'], noun)}{change} "
                f"measured here; median error {signed(row['median_error_ratio'])}, largest "
                f"{100 * row['largest_error_ratio']:.1f} %."
            )


def _change(facts: PageFacts) -> str:
    return str(facts.row["change"])


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many predictions the warehouse has."""
    return f"{plural(rows['run_id'].n_unique(), 'prediction')} of this kind in the warehouse."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """What is compared with what, and how far single ops were off."""
    return [_compared_with(facts), *OF_PUBLIC_TRACES]


def _compared_with(facts: PageFacts) -> str:
    if facts.compiled:
        return (
            "The interval is compared with the window of a device's mean step: the median over measured "
            "runs of the forecast's setup. An error within the interval is 0."
        )
    return (
        "A replay is compared with the period of a device's mean step: the median over measured runs "
        "that are alike in all but the change. Only another chip, another speed of ICI, or no change "
        "describes hardware that a run can be measured on."
    )


PANEL: Panel[PageFacts] = Panel(
    key="prediction-errors",
    title="Errors of such predictions",
    lede="Each prediction of this kind in the warehouse, beside the measured runs of the predicted setup.",
    sql=SQL,
    columns=(),
    columns_of=columns,
    figures=figures,
    coverage=coverage,
    why_empty=lambda facts: "No prefill and no decode step is predicted here.",
    verdict=verdict,
    notes=notes,
    open_table=True,
    applies=lambda facts: facts.predicted or facts.compiled,
    over_runs=True,
)
