"""The command line: one function a verb, each of which loads what it needs when it is called."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xlahouse.capture.errors import XlahouseError

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse

FORMATS = ("table", "csv", "json", "jsonl", "markdown", "parquet", "arrow")

app = typer.Typer(
    name="xlahouse",
    help="A SQL warehouse for XLA profiler traces: capture, ingest, query, report.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
set_app = typer.Typer(
    help="Change what a run's views take for granted; nothing is ingested again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(set_app, name="set")


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 the input is at fault, 2 wrong usage, 130 interrupted."""
    try:
        app(prog_name="xlahouse")
    except XlahouseError as error:
        for line in str(error).splitlines():
            print(f"xlahouse: {line}", file=sys.stderr)
        sys.exit(1)


def _complete_run(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names and ids of the warehouse's runs, for the shell; silent where there is none."""
    from xlahouse.sql.listing import read_runs

    try:
        rows = read_runs(ctx.params.get("warehouse") or _default_warehouse()).to_pylist()
    except XlahouseError:
        return []
    words = [word for row in rows for word in (row["name"], row["run_id"]) if word]
    return [word for word in words if word.startswith(incomplete)]


def _complete_view(incomplete: str) -> list[str]:
    from xlahouse.sql.library import shipped

    library = shipped()
    return [
        name
        for name in sorted({*library.pointers, *library.pointers.values()})
        if name.startswith(incomplete)
    ]


def _default_warehouse() -> str:
    return os.environ.get("XLAHOUSE_WAREHOUSE") or "./warehouse"


WarehouseOption = Annotated[
    str,
    typer.Option(
        "--warehouse",
        "-w",
        help="The warehouse: a folder or an fsspec URL.",
        envvar="XLAHOUSE_WAREHOUSE",
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        help=f"{', '.join(FORMATS)}; default: by the suffix of -o, else table.",
    ),
]


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"xlahouse {version('xlahouse')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


def _open(root: str) -> Warehouse:
    from xlahouse.sql.warehouse import Warehouse

    return Warehouse(root)


@app.command()
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


@app.command()
def capture(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.yaml", help="What to run.")],
    experiment: Annotated[
        list[str] | None, typer.Option("--experiment", help="Only this one; may be repeated.")
    ] = None,
    traces: Annotated[Path, typer.Option("--traces", help="Folder for the traces.")] = Path(
        "traces"
    ),
    device: Annotated[str, typer.Option("--device", help="auto, cpu or tpu.")] = "auto",
    devices: Annotated[
        int | None, typer.Option("--devices", min=1, help="Devices that the meshes must have.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Capture again what was captured before.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the experiments only.")] = False,
) -> None:
    """Run profiled inference and keep its traces.

    \b
    Examples:
      xlahouse capture plan.yaml --traces traces
      xlahouse capture plan.yaml --experiment tp4 --device cpu
      xlahouse capture plan.yaml --dry-run
    """
    from xlahouse.capture.runner import choose_experiments, run_plan
    from xlahouse.sql.progress import progress

    if device not in ("auto", "cpu", "tpu"):
        raise typer.BadParameter(f"{device} is not one of auto, cpu, tpu", param_hint="--device")
    names = tuple(experiment or ())
    if dry_run:
        for chosen in choose_experiments(plan, names, devices):
            print(f"{chosen.name}  {traces / chosen.cell}")
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
        )
    for folder in folders:
        print(folder)


@app.command()
def ingest(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH…", help="Traces, or folders that hold them.")
    ],
    warehouse: WarehouseOption = "./warehouse",
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes; default: up to 2.")
    ] = None,
    mesh: Annotated[
        str | None, typer.Option("--mesh", help="Mesh, major to minor, such as dp=2,tp=4.")
    ] = None,
    device_kind: Annotated[
        str | None, typer.Option("--device-kind", help="Kind of device, such as 'TPU v6e'.")
    ] = None,
    run: Annotated[str | None, typer.Option("--run", help="What to call the run.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 on any warning or error in the data.")
    ] = False,
) -> None:
    """Read traces into the warehouse; the same trace twice is one run.

    \b
    Examples:
      xlahouse ingest traces
      xlahouse ingest host0.xplane.pb -w wh --mesh dp=2,tp=4 --run baseline
    """
    from xlahouse.capture.manifest import parse_mesh
    from xlahouse.ingest.run import ingest_paths
    from xlahouse.sql.progress import progress

    axes = parse_mesh(mesh) if mesh is not None else None
    with progress("ingest") as say:
        results = ingest_paths(
            paths,
            warehouse,
            workers=workers,
            mesh=axes,
            name=run,
            device_kind=device_kind,
            strict=strict,
            on_event=say,
            on_progress=lambda done, total: say(f"{done} of {total} runs", passing=True),
        )
    for result in results:
        print(result.run_id)


@app.command()
def runs(warehouse: WarehouseOption = "./warehouse", format: FormatOption = None) -> None:
    """List the runs.

    \b
    Examples:
      xlahouse runs
      xlahouse runs -w wh --format csv
    """
    sql = """
        select run_id, name, model, parallelism, device_kind, device_count, status, captured_at
        from runs order by captured_at, run_id
    """
    _answer(warehouse, sql, {}, format, None, None)


@set_app.command("mesh")
def set_mesh_of(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Id, prefix or name.", autocompletion=_complete_run),
    ],
    value: Annotated[str, typer.Argument(metavar="MESH", help="Major to minor: dp=2,tp=4.")],
    warehouse: WarehouseOption = "./warehouse",
) -> None:
    """Set the mesh by which collectives get their axis.

    \b
    Examples:
      xlahouse set mesh baseline dp=2,tp=4
      xlahouse set mesh 579c tp=8 -w wh
    """
    from xlahouse.sql.mesh import set_mesh

    with _open(warehouse) as opened:
        run_id, axes = set_mesh(opened, run, value)
    text = " x ".join(f"{axis.axis}={axis.size}" for axis in axes)
    print(f"{run_id}: mesh {text}", file=sys.stderr)


@app.command()
def query(
    sql: Annotated[str, typer.Argument(metavar="SQL|-", help="One query; - reads it from stdin.")],
    warehouse: WarehouseOption = "./warehouse",
    param: Annotated[
        list[str] | None,
        typer.Option("-p", "--param", metavar="NAME=VALUE", help="Value of $NAME in the query."),
    ] = None,
    format: FormatOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help="At most so many rows.")
    ] = None,
) -> None:
    """Answer one query over tables and views.

    \b
    Examples:
      xlahouse query "select axis, sum(wire_bytes) from traffic_volume group by axis"
      xlahouse query "from latency where run_id = \\$run" -p run=579c542a5ddd
      xlahouse query - --format csv -o volume.csv < volume.sql
    """
    text = sys.stdin.read() if sql == "-" else _utf8(sql)
    _answer(warehouse, text, _parameters(param or []), format, output, limit)


def _utf8(argument: str) -> str:
    """An argument as UTF-8, whatever the locale; what is none stays marked, and is refused later."""
    return os.fsencode(argument).decode(errors="surrogateescape")


def _parameters(given: list[str]) -> dict[str, str]:
    pairs = [_utf8(item).partition("=") for item in given]
    for name, equals, _ in pairs:
        if not equals or not name.isidentifier():
            raise typer.BadParameter("write NAME=VALUE", param_hint="-p")
    return {name: value for name, _, value in pairs}


def _answer(
    root: str,
    sql: str,
    params: dict[str, str],
    format: str | None,
    output: Path | None,
    limit: int | None,
) -> None:
    from xlahouse.sql.formats import format_for, write_result

    chosen = format or format_for(output)
    if chosen not in FORMATS:
        raise typer.BadParameter(
            f"{chosen} is not one of {', '.join(FORMATS)}", param_hint="--format"
        )
    if chosen in ("parquet", "arrow") and output is None and sys.stdout.isatty():
        raise typer.BadParameter(f"{chosen} is not for a terminal; give -o FILE")
    with _open(root) as opened:
        rows = write_result(opened.query(sql, params), chosen, output, limit)
    if output is not None:
        print(f"{output}: {rows:,} row{'' if rows == 1 else 's'}", file=sys.stderr)


@app.command()
def views(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", autocompletion=_complete_view)
    ] = None,
) -> None:
    """List the views, or print one's documentation and SQL.

    \b
    Examples:
      xlahouse views
      xlahouse views traffic_volume
    """
    from xlahouse.sql.catalogue import describe_view, find_view, list_views
    from xlahouse.sql.library import shipped

    if name is None:
        _print_pairs(list(list_views(shipped())))
    else:
        print(describe_view(shipped(), find_view(shipped(), name)), end="")


@app.command()
def tables(name: Annotated[str | None, typer.Argument(metavar="[NAME]")] = None) -> None:
    """List the tables, or print one's columns.

    \b
    Examples:
      xlahouse tables
      xlahouse tables collectives
    """
    from xlahouse.sql.catalogue import describe_table, find_table, list_tables

    if name is None:
        _print_pairs(list(list_tables()))
    else:
        print(describe_table(find_table(name)), end="")


def _print_pairs(pairs: list[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in pairs)
    for name, text in pairs:
        print(f"{name.ljust(width)}  {text}")


@app.command()
def check(
    warehouse: WarehouseOption = "./warehouse",
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on warnings too.")] = False,
) -> None:
    """Run the audits and list what ingest found; exit 1 where something is wrong.

    \b
    Examples:
      xlahouse check
      xlahouse check -w wh --strict
    """
    from xlahouse.sql.check import check_warehouse

    with _open(warehouse) as opened:
        report = check_warehouse(opened)
    for line in report.lines:
        print(line)
    print(f"{report.errors} errors, {report.warnings} warnings", file=sys.stderr)
    if report.errors or (strict and report.warnings):
        raise typer.Exit(1)


@app.command()
def report(
    pages: Annotated[
        list[str] | None, typer.Argument(metavar="[PAGE]…", help="Default: all.")
    ] = None,
    warehouse: WarehouseOption = "./warehouse",
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the pages.")] = Path(
        "site"
    ),
    run: Annotated[
        list[str] | None,
        typer.Option("--run", help="Only this run; may be repeated.", autocompletion=_complete_run),
    ] = None,
) -> None:
    """Write self-contained HTML pages.

    \b
    Examples:
      xlahouse report
      xlahouse report -w wh -o site --run baseline
    """
    from xlahouse.reports.site import render_site
    from xlahouse.sql.progress import progress

    with _open(warehouse) as opened, progress("report") as say:
        written = render_site(
            opened, output, run, pages, on_event=lambda message: say(message, passing=True)
        )
    for path in written:
        print(path)
