"""The verb `report`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xlahouse.sql.cli.options import (
    ForceOption,
    WarehouseOption,
    complete_page,
    complete_run,
    open_warehouse,
)

if TYPE_CHECKING:
    from xlahouse.reports.site import WrittenSite
    from xlahouse.sql.warehouse import Warehouse

REPORT_FORMATS = ("html", "png", "svg", "pdf")


def report(
    pages: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PAGE]...", help="Names of pages; default: all.", autocompletion=complete_page
        ),
    ] = None,
    warehouse: WarehouseOption = "./warehouse",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the pages.")] = Path(
        "site"
    ),
    run: Annotated[
        list[str] | None,
        typer.Option("--run", help="Only this run; may be repeated.", autocompletion=complete_run),
    ] = None,
    page: Annotated[
        list[Path] | None,
        typer.Option("--page", help="A page of your own: a Python file to run."),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", help="html, or each figure as png, svg or pdf.")
    ] = "html",
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Processes that draw runs' pages.")
    ] = 2,
    single_file: Annotated[
        bool,
        typer.Option("--single-file", help="Put the script into each page, which is then larger."),
    ] = False,
    perfetto: Annotated[
        bool, typer.Option("--perfetto", help="Also write each run's trace for ui.perfetto.dev.")
    ] = False,
    force: ForceOption = False,
) -> None:
    """Write HTML pages that need no network, and their rows as CSV.

    The pages share a script, vega.js, beside them; with --single-file each page can move alone.

    Pages of each run: overview, communication, intervals, time, efficiency, program, scheduling,
    serving, quality; over runs: index, comparison, scaling, study; of two runs, with --run BASE --run OTHER:
    versus. Pages of runs that did not change are not drawn again. A folder with files that xlahouse did not
    write is left alone without --force.

    \b
    A page of your own is a file such as busiest.py, with a query and its chart:
      import altair as alt
      TITLE = "Busiest axes"
      SQL = "select axis, wire_bytes from traffic_volume where run_id = $run"
      def charts(rows):
          return alt.Chart(rows).mark_bar().encode(x="sum(wire_bytes)", y="axis")
    With $run each run has such a page; with $runs, or neither, the site has one.

    \b
    Examples:
      xlahouse report
      xlahouse report -w wh -o site --run baseline
      xlahouse report versus --run baseline --run candidate
      xlahouse report communication time --format pdf -o figures
      xlahouse report --page busiest.py
    """
    from xlahouse.reports.own_page import read_own_page
    from xlahouse.sql.cli.progress import progress
    from xlahouse.sql.outputs import writing_folder

    if format not in REPORT_FORMATS:
        raise typer.BadParameter(
            f"{format} is not one of {', '.join(REPORT_FORMATS)}", param_hint="--format"
        )
    own = [read_own_page(path) for path in page or ()]
    with (
        writing_folder(output, force),
        open_warehouse(warehouse, threads=1) as opened,
        progress("report") as say,
    ):

        def on_event(message: str) -> None:
            say(message, passing=True)

        if format != "html":
            from xlahouse.reports.figure_files import render_figures

            for path in render_figures(opened, output, format, run, pages, own, on_event):
                print(path)
            return
        from xlahouse.reports.site import render_site
        from xlahouse.sql.warehouse import Warehouse

        if perfetto:
            _write_traces(opened, output, run, on_event)

        opener = partial(Warehouse, warehouse, _say_nothing, threads=1)
        written = render_site(
            opened, output, run, pages, own, on_event, opener, workers, single_file
        )
    for path in written.pages:
        print(path)
    _say_of_site(written)


def _write_traces(
    warehouse: Warehouse, output: Path, runs: list[str] | None, on_event: Callable[[str], None]
) -> None:
    """Write the runs' traces for Perfetto where pages look for them."""
    from xlahouse.reports.naming import page_stems
    from xlahouse.reports.site import read_runs, trace_file
    from xlahouse.sql.export.perfetto import write_perfetto

    known, _, chosen = read_runs(warehouse, runs)
    stems = page_stems(known)
    for facts in chosen:
        path = output / trace_file(stems[facts.run_id])
        path.parent.mkdir(parents=True, exist_ok=True)
        write_perfetto(warehouse, facts.run_id, path)
        on_event(f"wrote {path}")


def _say_nothing(line: str) -> None:
    """The first opening has reported the warehouse's faults."""


def _say_of_site(written: WrittenSite) -> None:
    """Report unchanged and stale pages, on stderr.

    Raises:
        ReportError: an own page failed.
    """
    from xlahouse.capture.errors import ReportError

    if written.unchanged:
        print(f"{len(written.unchanged)} of {len(written.pages)} unchanged", file=sys.stderr)
    for path in written.stale:
        print(f"{path}: its run is no longer in the warehouse; remove it", file=sys.stderr)
    if written.problems:
        raise ReportError("\n".join(written.problems))
