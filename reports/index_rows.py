"""The rows of the index: a setup each, its repeats folded, with numbers in one unit a column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from xlahouse.reports.charts.cards import by_reason
from xlahouse.reports.charts.facts import PageFacts, Row
from xlahouse.reports.charts.units import (
    BYTES,
    NOT_KNOWN,
    SECONDS,
    Unit,
    plural,
    show_exact,
    show_factor,
    suit,
)
from xlahouse.reports.headline import HEADLINE_METRICS
from xlahouse.reports.panels.efficiency.latency import why_no_rate
from xlahouse.reports.setup_facts import evidence


@dataclass(frozen=True)
class IndexCell:
    """A cell: its text, and what sorts it where that is not the text."""

    text: str  # as it is shown
    value: float | None = None  # sorts the cell; None: the text does
    hint: str = ""  # shown on hovering
    numeric: bool = False  # aligned to the right


@dataclass(frozen=True)
class IndexLink:
    """A page of a run."""

    title: str  # of the page
    href: str  # empty where no page of the run is written


@dataclass(frozen=True)
class IndexRow:
    """A setup."""

    name: str  # of its newest run
    runs: list[IndexLink]  # newest first
    pages: list[IndexLink]  # of the newest run, its first page aside
    marks: list[str]  # such as `virtual`: how far its times can be trusted
    cells: list[IndexCell]  # one a column


@dataclass(frozen=True)
class IndexColumn:
    """A column's head."""

    title: str  # of the column
    numeric: bool  # aligned to the right
    groups: bool  # whether it can group rows


@dataclass(frozen=True)
class IndexTable:
    """The table of the index."""

    columns: list[IndexColumn]  # from left to right
    rows: list[IndexRow]  # one a setup
    same: list[str]  # what is the same in all rows, so that no column shows it
    # what no row knows, so that no column shows it, by the reason of the first run
    unknown: list[str]

    @property
    def pages(self) -> bool:
        """Whether any run has more pages than the one that its name links to."""
        return any(row.pages for row in self.rows)


@dataclass(frozen=True)
class _Fact:
    """A column of a setup's fact."""

    title: str  # of the column
    text: Callable[[Row], str | None]  # row of a run -> its cell; None where it is not known
    value: Callable[[Row], float | None] | None = None  # what sorts it, for numbers


def _tokens(row: Row) -> str | None:
    prompt, output = row["prompt_tokens"], row["output_tokens"]
    return None if prompt is None or output is None else f"{prompt:,} + {output:,}"


_FACTS = (
    _Fact("Model", lambda row: row["model"]),
    _Fact("Parallelism", lambda row: row["parallelism"]),
    _Fact(
        "Batch",
        lambda row: None if row["batch_size"] is None else f"{row['batch_size']:,}",
        lambda row: row["batch_size"],
    ),
    _Fact("Tokens", _tokens),
    _Fact("Type", lambda row: row["dtype"]),
    _Fact("Device", lambda row: row["device_kind"]),
    _Fact("Devices", lambda row: f"{row['named_devices']:,}", lambda row: row["named_devices"]),
)
# Column of run_summary -> its heading, the units that may suit it, and whether it is a share.
_METRICS: Mapping[str, tuple[str, tuple[Unit, ...]]] = {
    "ttft_s": ("TTFT", SECONDS),
    "tpot_s": ("TPOT", SECONDS),
    "output_tokens_per_s": ("Output (tokens/s)", ()),
    "output_tokens_per_s_per_chip": ("Output per chip (tokens/s)", ()),
    "wire_bytes": ("Wire", BYTES),
    "exposed_ratio": ("Exposed, of comm. (%)", ()),
    "idle_ratio": ("Idle (%)", ()),
}
_PER_CENT = ("exposed_ratio", "idle_ratio")
_WHY = {metric.name: metric.why for metric in HEADLINE_METRICS} | {
    "output_tokens_per_s_per_chip": lambda facts: (
        why_no_rate(facts)
        if facts.row["output_tokens_per_s"] is None
        else "the devices of a chip are not known"
    )
}


def index_table(
    runs: Sequence[PageFacts], pages: Callable[[PageFacts], list[IndexLink]]
) -> IndexTable:
    """The table of the index.

    Args:
        runs: in the order of the page.
        pages: a run's pages, the first one first; none where none are written.
    """
    setups = _setups(runs)
    shown = [fact for fact in _FACTS if _differs(fact, setups)]
    hidden = [fact for fact in _FACTS if fact not in shown]
    known = [name for name in _METRICS if any(_known(name, setup) for setup in setups)]
    units = {name: _unit(name, setups) for name in known}
    columns = [IndexColumn(fact.title, fact.value is not None, True) for fact in shown]
    columns.append(IndexColumn("Runs", True, False))
    columns += [IndexColumn(_heading(name, units[name]), True, False) for name in known]
    columns.append(IndexColumn("Errors and warnings", True, False))
    rows = [
        _row(setup, pages, [_fact_cell(fact, setup[0].row) for fact in shown], units)
        for setup in setups
    ]
    same = [(fact.title.lower(), fact.text(setups[0][0].row)) for fact in hidden]
    return IndexTable(
        columns, rows, [f"{title} {text}" for title, text in same if text], _unknown(known, setups)
    )


def _unknown(known: Sequence[str], setups: list[list[PageFacts]]) -> list[str]:
    """`TTFT, TPOT: no markers …`, a text a reason, as the first run whose devices are traced has it."""
    first = [setup[0] for setup in setups]
    asked = next((facts for facts in first if facts.traced), first[0] if first else None)
    return by_reason(
        (title, _WHY[name](asked))
        for name, (title, _) in _METRICS.items()
        if asked and name not in known
    )


def _setups(runs: Sequence[PageFacts]) -> list[list[PageFacts]]:
    """Runs of each setup and source, the newest first."""
    found: dict[tuple[str, str], list[PageFacts]] = {}
    for facts in runs:
        key = (facts.row["setup"] or facts.run_id, evidence(facts.row))
        found.setdefault(key, []).append(facts)
    return [
        sorted(group, key=lambda facts: facts.row["captured_text"] or "", reverse=True)
        for group in found.values()
    ]


def _differs(fact: _Fact, setups: list[list[PageFacts]]) -> bool:
    return len(setups) < 2 or len({fact.text(setup[0].row) for setup in setups}) > 1


def _row(
    setup: list[PageFacts],
    pages: Callable[[PageFacts], list[IndexLink]],
    facts: list[IndexCell],
    units: Mapping[str, Unit],
) -> IndexRow:
    newest = setup[0]
    ways = pages(newest)
    marks = [evidence(newest.row)] if evidence(newest.row) != "measured" else []
    marks += ["virtual"] if newest.inferred else []
    found = sum(each.row["errors"] + each.row["warnings"] for each in setup)
    hint = f"{plural(sum(each.row['errors'] for each in setup), 'error')}, the others warnings"
    return IndexRow(
        newest.name,
        [IndexLink(each.name, _first(pages(each))) for each in setup],
        ways[1:],
        marks,
        [
            *facts,
            IndexCell(f"{len(setup):,}", len(setup), numeric=True),
            *(_metric_cell(name, setup, units[name]) for name in units),
            IndexCell(f"{found:,}", found, hint if found else "", numeric=True),
        ],
    )


def _first(pages: list[IndexLink]) -> str:
    return pages[0].href if pages else ""


def _fact_cell(fact: _Fact, row: Row) -> IndexCell:
    value = fact.value(row) if fact.value else None
    text = fact.text(row)
    why = "" if text else "no manifest of the trace states it"
    return IndexCell(text or "", value, why, numeric=fact.value is not None)


def _known(name: str, setup: list[PageFacts]) -> list[float]:
    # Without device events a sum over devices is not 0 but unknown.
    values = [facts.row[name] for facts in setup if facts.traced]
    return [value for value in values if value is not None]


def _unit(name: str, setups: list[list[PageFacts]]) -> Unit:
    """The unit of a column: that of the middle one of its values that are not 0."""
    units = _METRICS[name][1]
    if name in _PER_CENT:
        return Unit(0.01, "%")
    values = [value for setup in setups for value in _known(name, setup) if value]
    return suit([median(values)] if values else [], units) if units else Unit(1, "")


def _heading(name: str, unit: Unit) -> str:
    title, units = _METRICS[name]
    return f"{title} ({unit.symbol})" if units else title


def _metric_cell(name: str, setup: list[PageFacts], unit: Unit) -> IndexCell:
    values = _known(name, setup)
    if not values:
        why = _WHY.get(name)
        return IndexCell("", None, why(setup[0]) if why else NOT_KNOWN, numeric=True)
    middle = median(values)
    hint = show_exact(middle)
    if len(values) > 1:
        hint += f", median of {len(values)} runs, {show_exact(min(values))} to {show_exact(max(values))}"
    return IndexCell(show_factor(middle / unit.factor), middle, hint, numeric=True)
