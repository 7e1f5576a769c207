"""The parts of a page as data: a panel is one question, its SQL, charts, numbers and coverage."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from xlahouse.reports.charts.theme import MAX_MARKS
from xlahouse.reports.charts.units import show_by_name, show_text

# What a panel knows beside its rows: a run's facts, or those of all runs of a site.
F = TypeVar("F", contravariant=True)
VegaLite = dict[str, Any]  # a chart, or a part of one, as Vega-Lite


class Rows(Protocol):
    """What a query returns, as far as pages need it."""

    def pl(self) -> pl.DataFrame:
        """The rows as a Polars frame."""
        ...

    def dicts(self) -> list[dict[str, Any]]:
        """The rows by column."""
        ...


class Queryable(Protocol):
    """A warehouse, as far as pages need it: something that answers SQL."""

    @property
    def root(self) -> str:
        """Its folder or URL."""
        ...

    def query(self, sql: str, params: Mapping[str, object] | None = None) -> Rows:
        """Run one SELECT with `$name` parameters."""
        ...

    def of_run(
        self, run: str, kept: Collection[str] = (), threads: int | None = None
    ) -> AbstractContextManager[Queryable]:
        """The warehouse for queries about one run, where views in `kept` are computed once."""
        ...


@dataclass(frozen=True)
class TableColumn:
    """A column of a page's table."""

    name: str  # column of the query
    heading: str  # above the column
    show: Callable[[Any], str] = show_text  # value -> text of its cell
    exact: Callable[[Any], str] | None = None  # value -> text that hovering over the cell shows
    numeric: bool = True  # aligned to the right
    # Column that names the metric of a row, whose ending states the unit; `show` is then not asked.
    metric: str = ""


@dataclass(frozen=True)
class Figure:
    """A chart with its title."""

    title: str  # above the chart
    chart: alt.Chart  # without a size of its own
    note: str = ""  # how to read it
    shape: str = "half"  # of the page: `half`, `wide` (the whole row) or `square`


@dataclass(frozen=True)
class Panel(Generic[F]):
    """One question about a run, or about several."""

    key: str  # anchor on the page, and part of the name of its CSV file
    title: str  # the subject
    lede: str  # one sentence on what is shown and how it is defined
    sql: str  # the query, with `$run` or `$runs`; it pins versions of views
    columns: tuple[TableColumn, ...]  # the table beside the charts
    figures: Callable[[pl.DataFrame, F], list[Figure]]  # rows and facts -> the charts
    coverage: Callable[[pl.DataFrame, F], str]  # a sentence: how much of the run the rows cover
    why_empty: Callable[[F], str]  # the sentence in place of the charts where there are no rows
    # Sentences that answer the question, above the charts.
    verdict: Callable[[pl.DataFrame, F], list[str]] = field(default=lambda rows, facts: [])
    # Sentences on what is NULL and why.
    notes: Callable[[pl.DataFrame, F], list[str]] = field(default=lambda rows, facts: [])
    open_table: bool = False  # whether the table is shown beside charts without a click
    # Whether the page of these facts has it at all; a question that only some runs pose.
    applies: Callable[[F], bool] = field(default=lambda facts: True)
    # Whether its rows, on the page of a run, rest on other runs too.
    over_runs: bool = False
    # The table where its columns are known only with the rows, or with the facts.
    columns_of: Callable[[pl.DataFrame, F], tuple[TableColumn, ...]] | None = None


@dataclass(frozen=True)
class TableCell:
    """A cell of a table, as text."""

    text: str  # as it is shown
    hint: str = ""  # the exact value, shown on hovering
    numeric: bool = False  # aligned to the right


@dataclass(frozen=True)
class Drawn:
    """A figure ready for the page."""

    id: str  # of the element, unique on the page
    title: str  # above the chart
    note: str  # how to read it
    shape: str  # as of Figure
    spec: VegaLite | None  # None: not drawn
    problem: str = ""  # why it is not drawn


@dataclass(frozen=True)
class Section:
    """A panel with its rows filled in, ready for the template."""

    key: str  # as of Panel
    title: str  # as of Panel
    lede: str  # as of Panel
    sql: str  # as of Panel, with its parameters filled in
    figures: list[Drawn]  # ready for the page
    empty: str  # why there are no rows; empty where there are some
    verdict: list[str]  # sentences above the charts
    coverage: str  # a sentence: how much of the run the rows cover
    notes: list[str]  # sentences on what is NULL and why
    headings: list[TableCell]  # of the table
    cells: list[list[TableCell]]  # of the table, one list a row
    rows_left_out: int  # of the table
    unknown_columns: list[str]  # headings of the table's columns in which no row has a value
    rows: int  # of the query
    open_table: bool  # as of Panel
    csv: str = ""  # file with all of them, beside the page


_UNSAFE = re.compile(r"[^a-z0-9]+")
MAX_ID = 60  # characters of a figure's subject in its id

# A table is for reading; the SQL and the CSV give every row.
MAX_TABLE_ROWS = 200
MANY_COLUMNS = 7  # a wider table may not fit a page: it leaves out columns without any value


def fill(panel: Panel[F], rows: pl.DataFrame, facts: F, csv: str = "") -> Section:
    """Draw a panel's charts and format its table; `csv` names the file that has all rows."""
    rows = finite(rows)
    given = panel.columns_of(rows, facts) if panel.columns_of else panel.columns
    columns, unknown = _with_values(given, rows)
    empty = panel.why_empty(facts) if rows.is_empty() else ""
    with debug_mode(False):  # Altair checks each part and each row of data; tests check our charts
        figures = [] if empty else panel.figures(rows, facts)
    return Section(
        key=panel.key,
        title=panel.title,
        lede=panel.lede,
        sql=panel.sql.strip(),
        figures=[
            draw(*named) for named in zip(figures, figure_ids(panel.key, figures), strict=True)
        ],
        empty=empty,
        verdict=[] if empty else panel.verdict(rows, facts),
        coverage="" if empty else panel.coverage(rows, facts),
        notes=[] if empty else panel.notes(rows, facts),
        headings=[TableCell(column.heading, numeric=column.numeric) for column in columns],
        cells=format_rows(columns, rows.head(MAX_TABLE_ROWS)),
        rows_left_out=max(0, len(rows) - MAX_TABLE_ROWS),
        unknown_columns=unknown,
        rows=len(rows),
        open_table=panel.open_table,
        csv="" if rows.is_empty() else csv,
    )


def _with_values(
    columns: Sequence[TableColumn], rows: pl.DataFrame
) -> tuple[Sequence[TableColumn], list[str]]:
    """Of a wide table the columns in which a row has a value, and the headings of the other ones."""
    if len(columns) <= MANY_COLUMNS or rows.is_empty():
        return columns, []
    known = [column for column in columns if rows[column.name].null_count() < len(rows)]
    kept = known or columns[:1]
    return kept, [column.heading for column in columns if column not in kept]


def figure_ids(key: str, figures: Sequence[Figure]) -> list[str]:
    """The id of each figure: its panel and its subject, numbered where two would be the same."""
    found: list[str] = []
    for figure in figures:
        subject = (
            _UNSAFE.sub("-", figure.title.lower().replace("'", "")).strip("-")[:MAX_ID].strip("-")
        )
        name = f"{key}-{subject}" if subject else key
        same = sum(other == name or other.startswith(f"{name}--") for other in found)
        found.append(f"{name}--{same + 1}" if same else name)
    return found


def draw(figure: Figure, id: str) -> Drawn:
    """Turn a figure into Vega-Lite, unless it has more marks than a page can draw."""
    with alt.data_transformers.enable("default", max_rows=MAX_MARKS):
        # Validation is three quarters of the time, and tests validate what panels make.
        spec = figure.chart.to_dict(validate=False)
    marks = count_marks(spec)
    if marks > MAX_MARKS:
        problem = f"Not drawn: {marks:,} marks; a chart has at most {MAX_MARKS:,}."
        return Drawn(id, figure.title, figure.note, figure.shape, None, problem)
    return Drawn(id, figure.title, figure.note, figure.shape, spec)


def count_marks(spec: VegaLite) -> int:
    """Rows that each layer and view draws, added up."""
    return _marks(spec, spec.get("datasets", {}), {})


def _marks(part: VegaLite, datasets: Mapping[str, list[VegaLite]], above: VegaLite) -> int:
    data = part.get("data", above)
    inner = [each for name in _COMPOSED for each in part.get(name, ())]
    if isinstance(part.get("spec"), dict):  # of facets and repetitions
        inner.append(part["spec"])
    if inner:
        return sum(_marks(each, datasets, data) for each in inner)
    return len(data["values"] if "values" in data else datasets.get(data.get("name", ""), ()))


_COMPOSED = ("layer", "hconcat", "vconcat", "concat")


def format_rows(columns: Sequence[TableColumn], rows: pl.DataFrame) -> list[list[TableCell]]:
    """Rows -> cells, one list a row."""
    return [[_cell(column, row) for column in columns] for row in rows.to_dicts()]


def finite(rows: pl.DataFrame) -> pl.DataFrame:
    """Infinite and NaN values as NULL: neither is a number that a page could show, nor is it JSON."""
    known = [
        pl.when(pl.col(name).is_finite()).then(pl.col(name))
        for name, kind in rows.schema.items()
        if kind.is_float()
    ]
    return rows.with_columns(known)


class SharedData(alt.InlineData):  # type: ignore[misc]  # Altair has no types here
    """Rows that copies of a chart share: Altair copies a chart, row by row, for each layer and property."""

    def __deepcopy__(self, memo: object) -> SharedData:
        return self


def inline(rows: pl.DataFrame) -> alt.InlineData:
    """Rows as data inside the specification; column order and row order are kept."""
    return SharedData(values=rows.to_dicts())


def _cell(column: TableColumn, row: Mapping[str, Any]) -> TableCell:
    value = row[column.name]
    show = show_by_name(row[column.metric]) if column.metric else column.show
    text = show(value)
    hint = column.exact(value) if column.exact is not None and value is not None else ""
    return TableCell(text, "" if hint == text else hint, column.numeric)
