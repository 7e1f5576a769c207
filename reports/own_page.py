"""A user's own page: a Python file with a query and a function that draws its rows."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

import altair as alt
import polars as pl
from altair.utils.schemapi import debug_mode

from xlahouse.capture.errors import ReportError
from xlahouse.capture.opening import read_regular
from xlahouse.reports.charts.panel import Figure, Panel, TableColumn
from xlahouse.reports.charts.theme import CONFIG, MAX_MARKS
from xlahouse.reports.charts.units import plural, show_any
from xlahouse.reports.pages import PAGES

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_PARAMETER = re.compile(r"\$(run|runs)\b")
Charts = Callable[[pl.DataFrame], "alt.TopLevelMixin | Sequence[alt.TopLevelMixin]"]


@dataclass(frozen=True)
class OwnPage:
    """A page of the user's."""

    name: str  # the file's stem, which names the page's files
    path: str  # the file
    text: str  # its content
    title: str  # of the page
    of_run: bool  # whether there is one for each run; else one for the site
    panel: Panel[object]  # its only panel

    def params(self, given: Mapping[str, object]) -> dict[str, object]:
        """The parameters that its query names."""
        named = set(_PARAMETER.findall(self.panel.sql))
        return {name: value for name, value in given.items() if name in named}

    def problem(self, error: Exception) -> str:
        """One line on why it could not be drawn, with the line of the file where it is known."""
        line = _line_of(error, self.path)
        where = f"{self.path}, line {line}" if line else self.path
        said = str(error).strip().splitlines()
        kind = "" if isinstance(error, ReportError) else f"{type(error).__name__}: "
        return f"{where}: {kind}{said[0] if said else 'failed'}; the page is left out"


def read_own_page(path: str | Path) -> OwnPage:
    """Run the file, and take SQL, charts(rows) and, if present, TITLE and LEDE from it.

    Raises:
        ReportError: it cannot be read or run, or lacks what a page needs.
    """
    path = str(path)
    name = Path(path).stem
    if Path(path).suffix != ".py" or not _NAME.fullmatch(name) or name in PAGES:
        raise ReportError(
            f"{path}: a page's file is named as the page: small letters, digits and _, then "
            ".py; not the name of a built-in page"
        )
    text = _read(path)
    found = _run(path, text)
    sql, charts = found.get("SQL"), found.get("charts")
    if not isinstance(sql, str) or not sql.strip():
        raise ReportError(f'{path}: it has no SQL; write SQL = "select … where run_id = $run"')
    if not callable(charts):
        raise ReportError(
            f"{path}: it has no function charts; write def charts(rows): that takes a Polars frame and "
            "returns an Altair chart, or several"
        )
    title = str(found.get("TITLE") or name.replace("_", " ").capitalize())
    named = set(_PARAMETER.findall(sql))
    if len(named) > 1:
        raise ReportError(
            f"{path}: SQL names $run and $runs; a page is of a run or of all, not both"
        )
    panel = _panel(title, str(found.get("LEDE") or ""), sql, charts, path)
    return OwnPage(name, path, text, title, "run" in named, panel)


def _read(path: str) -> str:
    try:
        return read_regular(path).decode()
    except OSError as error:
        raise ReportError(f"{path}: {error.strerror}; give a Python file") from error
    except UnicodeDecodeError as error:
        raise ReportError(f"{path}: it is not UTF-8 text; give a Python file") from error


def _run(path: str, text: str) -> dict[str, object]:
    found: dict[str, object] = {"__name__": "xlahouse_page", "__file__": path}
    try:
        code: CodeType = compile(text, path, "exec")
        exec(code, found)
    except SyntaxError as error:
        raise ReportError(f"{path}, line {error.lineno}: {error.msg}") from error
    except Exception as error:
        raise ReportError(
            f"{path}, line {_line_of(error, path) or 1}: {type(error).__name__}: {error}"
        ) from error
    return found


def _line_of(error: Exception, path: str) -> int | None:
    """The innermost line of the file that an error passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    return next((frame.lineno for frame in reversed(frames) if frame.filename == path), None)


def _panel(title: str, lede: str, sql: str, charts: Charts, path: str) -> Panel[object]:
    return Panel(
        key="rows",
        title=title,
        lede=lede,
        sql=sql,
        columns=(),
        figures=lambda rows, facts: _checked(charts, rows, title),
        coverage=lambda rows, facts: f"{plural(len(rows), 'row')} of the query below.",
        why_empty=lambda facts: "The query found no rows.",
        columns_of=lambda rows, facts: tuple(
            TableColumn(name, name, show_any, numeric=rows.schema[name].is_numeric())
            for name in rows.columns
        ),
    )


def _checked(charts: Charts, rows: pl.DataFrame, title: str) -> list[Figure]:
    """Figures that are valid: faults are reported here, because no test has drawn them.

    Raises:
        ReportError: they are not charts.
        Exception: any that the function raises, or Altair for an invalid chart.
    """
    with debug_mode(True):
        figures = _figures(charts(rows), title)
        with alt.data_transformers.enable("default", max_rows=MAX_MARKS):
            for figure in figures:
                figure.chart.to_dict()
    return figures


def _figures(drawn: object, title: str) -> list[Figure]:
    """Figures from the return value of `charts`.

    Raises:
        ReportError: it is neither a chart nor a list of charts.
    """
    charts = list(drawn) if isinstance(drawn, list | tuple) else [drawn]
    for chart in charts:
        if not isinstance(chart, alt.TopLevelMixin):
            raise ReportError(
                f"charts returned {type(chart).__name__}; return an Altair chart, or a list of them"
            )
    return [_figure(chart, title) for chart in charts]


def _figure(chart: alt.TopLevelMixin, title: str) -> Figure:
    own = chart.title if isinstance(chart.title, str) else title
    made = chart.copy()
    made.title = alt.Undefined
    if made.config is alt.Undefined:
        made = made.configure(**CONFIG)
    if isinstance(made, alt.Chart | alt.LayerChart) and made.width is alt.Undefined:
        made = made.properties(width="container")
    return Figure(own, made, shape="wide")
