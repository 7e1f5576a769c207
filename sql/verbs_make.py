"""The verbs that make something: demo, capture, ingest, report."""

from __future__ import annotations

import re
import sys
from functools import partial
from os.path import abspath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xlahouse.sql.options import (
    SparkConfOption,
    WarehouseOption,
    check_engine,
    complete_page,
    complete_run,
    open_warehouse,
    spark_settings,
)

if TYPE_CHECKING:
    from xlahouse.reports.site import Written

REPORT_FORMATS = ("html", "png", "svg", "pdf")


def demo(
    out: Annotated[
        Path, typer.Option("--out", help="Folder for traces, warehouse and pages.")
    ] = Path("demo"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Capture again.")] = False,
) -> None:
    """Capture, ingest, query and report, on this machine.

    What was done before is not done again.

    \b
    Examples:
      xlahouse demo
      xlahouse demo --out /tmp/demo
    """
    from xlahouse.sql.demo import run_demo

    run_demo(out, fresh)


def capture(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.yaml", help="What to run.")],
    experiment: Annotated[
        list[str] | None,
        typer.Option("--experiment", help="Only those of this name, * for any letters."),
    ] = None,
    traces: Annotated[Path, typer.Option("--traces", help="Folder for the traces.")] = Path(
        "traces"
    ),
    device: Annotated[str, typer.Option("--device", help="auto, cpu or tpu.")] = "auto",
    devices: Annotated[
        int | None,
        typer.Option("--devices", min=1, help="Devices there are; meshes may be smaller."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Capture again what was captured before.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Tell what each experiment would take; run none.")
    ] = False,
    stamp: Annotated[
        str | None,
        typer.Option("--stamp", help="Name of the captures; the hosts of one run must share it."),
    ] = None,
) -> None:
    """Run profiled inference and keep its traces.

    \b
    Examples:
      xlahouse capture plan.yaml --traces traces
      xlahouse capture plan.yaml --experiment tp4 --device cpu
      xlahouse capture plan.yaml --dry-run
    """
    from xlahouse.capture.dry_run import describe_plan
    from xlahouse.capture.runner import choose_experiments, run_plan
    from xlahouse.sql.progress import progress

    if device not in ("auto", "cpu", "tpu"):
        raise typer.BadParameter(f"{device} is not one of auto, cpu, tpu", param_hint="--device")
    names = tuple(experiment or ())
    if dry_run:
        for line in describe_plan(choose_experiments(plan, names, devices), traces):
            print(line)
        return
    with progress("capture") as say:
        folders = run_plan(
            plan,
            traces,
            names,
            device,
            devices,
            fresh,
            lambda event: say(
                f"{event.experiment}: {event.kind}: {event.message}",
                passing=event.kind == "progress",
            ),
            _check_stamp(stamp),
        )
    for folder in folders:
        print(folder)


def _check_stamp(stamp: str | None) -> str | None:
    """Refuse what could not be part of a folder's name."""
    if stamp is not None and not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z.]*", stamp):
        raise typer.BadParameter(
            "write it as letters, digits and points, such as 20260102T030405", param_hint="--stamp"
        )
    return stamp


def ingest(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH…", help="Traces, or folders that hold them.")
    ],
    warehouse: WarehouseOption = "./warehouse",
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Processes, at most one a run.")
    ] = 2,
    mesh: Annotated[
        str | None, typer.Option("--mesh", help="Mesh, major to minor, such as dp=2,tp=4.")
    ] = None,
    device_kind: Annotated[
        str | None, typer.Option("--device-kind", help="Kind of device, such as 'TPU v6e'.")
    ] = None,
    run: Annotated[str | None, typer.Option("--run", help="What to call the run.")] = None,
    hlo_dump: Annotated[
        str | None,
        typer.Option("--hlo-dump", help="Folder with the compiler's dumps of optimized HLO."),
    ] = None,
    card: Annotated[
        str | None,
        typer.Option("--card", help="Workload card (YAML) that fills what the traces lack."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 on any warning or error in the data.")
    ] = False,
    engine: Annotated[
        str, typer.Option("--engine", help="local; or spark: one task a run on its executors.")
    ] = "local",
    conf: SparkConfOption = None,
) -> None:
    """Read traces into the warehouse; the same trace twice is one run.

    \b
    Examples:
      xlahouse ingest traces
      xlahouse ingest host0.xplane.pb -w wh --mesh dp=2,tp=4 --run baseline
      xlahouse ingest traces --hlo-dump /tmp/xla_dump
      xlahouse ingest host.trace.json.gz --card llama-tp2-tpu.yaml
      xlahouse ingest gs://b/traces -w gs://b/wh --engine spark --conf spark.master=spark://head:7077
    """
    check_engine(engine, ("local", "spark"), conf)
    from xlahouse.ingest.process import loading, prepare_process

    prepare_process()
    with loading():
        from xlahouse.capture.manifest import parse_mesh
        from xlahouse.ingest.run import ingest_paths
        from xlahouse.sql.progress import progress

    axes = parse_mesh(mesh) if mesh is not None else None
    each = None
    if engine == "spark":
        from xlahouse.ingest.on_spark import each_on
        from xlahouse.sql.spark_query import start_session

        each = each_on(start_session(spark_settings(conf)))
        paths, warehouse = [_anywhere(path) for path in paths], _anywhere(warehouse)
        hlo_dump, card = hlo_dump and _anywhere(hlo_dump), card and _anywhere(card)
    with progress("ingest") as say:
        results = ingest_paths(
            paths,
            warehouse,
            workers=workers,
            mesh=axes,
            name=run,
            device_kind=device_kind,
            hlo_dump=hlo_dump,
            card=card,
            strict=strict,
            on_event=say,
            on_progress=lambda done, total: say(f"{done} of {total} runs", passing=True),
            each=each,
        )
    for result in results:
        print(result.run_id)


def _anywhere(path: str) -> str:
    """A path that means the same on executors, which work in folders of their own."""
    return path if "://" in path else abspath(path)


def report(
    pages: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PAGE]...", help="Default: all.", autocompletion=complete_page),
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
        typer.Option("--page", help="A page of your own: a Python file, which is run."),
    ] = None,
    format: Annotated[
        str, typer.Option("--format", help="html; or each figure as png, svg or pdf.")
    ] = "html",
    workers: Annotated[
        int, typer.Option("--workers", min=1, help="Processes that draw runs' pages.")
    ] = 2,
) -> None:
    """Write self-contained HTML pages, the rows of each chart as CSV beside them.

    Pages of each run: overview, communication, intervals, time, efficiency, scheduling, quality; over
    runs: index, comparison, scaling, study. A page whose run did not change is not drawn again.

    \b
    A page of your own is a file such as busiest.py, with a query and a function that draws its rows:
      import altair as alt
      TITLE = "Busiest links"
      SQL = "select axis, sum(wire_bytes) as bytes from traffic_volume where run_id = $run group by axis"
      def charts(rows):
          return alt.Chart(rows).mark_bar().encode(x="bytes", y="axis")
    With $run there is one for each run; with $runs, or neither, one for the site.

    \b
    Examples:
      xlahouse report
      xlahouse report -w wh -o site --run baseline
      xlahouse report communication time --format pdf -o figures
      xlahouse report --page busiest.py
    """
    from xlahouse.reports.own_page import read_own_page
    from xlahouse.sql.progress import progress

    if format not in REPORT_FORMATS:
        raise typer.BadParameter(
            f"{format} is not one of {', '.join(REPORT_FORMATS)}", param_hint="--format"
        )
    own = [read_own_page(path) for path in page or ()]
    with open_warehouse(warehouse, threads=1) as opened, progress("report") as say:

        def on_event(message: str) -> None:
            say(message, passing=True)

        if format != "html":
            from xlahouse.reports.figure_files import render_figures

            for path in render_figures(opened, output, format, run, pages, own, on_event):
                print(path)
            return
        from xlahouse.reports.site import render_site
        from xlahouse.sql.warehouse import Warehouse

        opener = partial(Warehouse, warehouse, _say_nothing, threads=1)
        written = render_site(opened, output, run, pages, own, on_event, opener, workers)
    for path in written.pages:
        print(path)
    _say_of_site(written)


def _say_nothing(line: str) -> None:
    """What is wrong with the warehouse was said when it was first opened."""


def _say_of_site(written: Written) -> None:
    """What a list of files does not tell, on stderr.

    Raises:
        ReportError: an own page failed.
    """
    from xlahouse.capture.errors import ReportError

    if written.unchanged:
        print(f"{len(written.unchanged)} of {len(written.pages)} unchanged", file=sys.stderr)
    for path in written.stale:
        print(f"{path}: its run is in the warehouse no more; remove it", file=sys.stderr)
    if written.problems:
        raise ReportError("\n".join(written.problems))
