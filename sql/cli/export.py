"""The verbs that write a run in the form of another tool."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xlahouse.sql.cli.options import (
    ForceOption,
    WarehouseOption,
    complete_run,
    complete_view,
    do_each,
    open_warehouse,
)

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse

export_app = typer.Typer(
    help="Write runs in the format of another tool.", no_args_is_help=True, rich_markup_mode=None
)
RunsArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Ids, prefixes or names.", autocompletion=complete_run),
]
OutputOption = Annotated[
    Path, typer.Option("--output", "-o", help="The file; for several runs a folder.")
]


@export_app.command()
def perfetto(
    runs: RunsArgument,
    output: OutputOption,
    warehouse: WarehouseOption = "./warehouse",
    force: ForceOption = False,
) -> None:
    """Write a trace that opens in ui.perfetto.dev.

    Each device is a process with its launches, the lines of its plane, its collectives by axis
    (arrows join the participants of an instance) and its counters; each host is a process with its
    phases and threads.

    \b
    Examples:
      xlahouse export perfetto tp4 -o tp4.pftrace
      xlahouse export perfetto tp4 dp2.tp2 -w wh -o traces
    """
    from xlahouse.sql.export.perfetto import write_perfetto

    _export_each(runs, output, warehouse, ".pftrace", write_perfetto, force)


@export_app.command()
def chakra(
    runs: RunsArgument,
    output: OutputOption,
    warehouse: WarehouseOption = "./warehouse",
    force: ForceOption = False,
) -> None:
    """Write Chakra execution traces for simulators.

    ASTRA-sim reads them. The output is a folder: RUN.NPU.et for each traced device, and
    comm_groups.json. Nodes are compute ops, collectives and the sends and receives of permutes, with
    sizes, groups and dependencies.

    \b
    Examples:
      xlahouse export chakra tp4 -o tp4-chakra
    """
    from xlahouse.sql.export.chakra import write_chakra

    _export_each(runs, output, warehouse, "", write_chakra, force)


@export_app.command("ccl-bench")
def ccl_bench(
    runs: RunsArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the runs' folders.")],
    warehouse: WarehouseOption = "./warehouse",
    force: ForceOption = False,
) -> None:
    """Write a CCL-Bench folder for each run, and rows of its website.

    A folder has the workload card and the whole trace as Chrome JSON; benchmark_data.json has each
    run's metrics by CCL-Bench's definitions (view ccl_legacy) and, as xlahouse_METRIC, by ours (view
    ccl_bench), null where they are unknown. Fields of CCL-Bench that have no source are listed, never
    made up.

    \b
    Examples:
      xlahouse export ccl-bench tp4 -o rows
      xlahouse export ccl-bench tp4 dp2.tp2 -w wh -o rows
    """
    from xlahouse.sql.cli.progress import progress
    from xlahouse.sql.export.ccl_rows import write_rows
    from xlahouse.sql.outputs import writing_folder

    with (
        writing_folder(output, force),
        open_warehouse(warehouse) as opened,
        progress("export") as say,
    ):
        ids = list(dict.fromkeys(opened.resolve_run(run) for run in runs))
        for row in write_rows(opened, ids, output, lambda line: say(line, passing=True)):
            print(row.folder)
            for remark in row.remarks:
                print(f"{row.folder.name}: {remark}", file=sys.stderr)


@export_app.command()
def duckdb(
    output: Annotated[Path, typer.Option("--output", "-o", help="The file, such as runs.duckdb.")],
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Ids, prefixes or names; default: all.",
            autocompletion=complete_run,
        ),
    ] = None,
    copy: Annotated[
        bool, typer.Option("--copy", help="Copy the rows, so that the file can move.")
    ] = False,
    warehouse: WarehouseOption = "./warehouse",
    force: ForceOption = False,
) -> None:
    """Write one file that any client of DuckDB opens.

    It has tables, views and their documentation. Without --copy it reads the files that the warehouse
    has now, in their place; if they move, run the printed statement in the file.

    \b
    Examples:
      xlahouse export duckdb -o runs.duckdb --copy
      xlahouse export duckdb tp4 dp2.tp2 -o two.duckdb
    """
    from xlahouse.sql.cli.progress import progress
    from xlahouse.sql.export.duckdb_file import write_duckdb
    from xlahouse.sql.outputs import writing_file

    with (
        writing_file(output, force),
        open_warehouse(warehouse) as opened,
        progress("export") as say,
    ):
        known = [run["run_id"] for run in opened.runs()]
        ids = [opened.resolve_run(run) for run in runs] if runs else known
        line = write_duckdb(opened, ids, output, copy, lambda name: say(name, passing=True))
    print(output)
    if line is not None:
        print(f"if the warehouse moves, run in the file: {line}", file=sys.stderr)


@export_app.command()
def dataset(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="A new folder, or an old dataset to replace.")
    ],
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Ids, prefixes or names; default: all.",
            autocompletion=complete_run,
        ),
    ] = None,
    views: Annotated[
        list[str] | None,
        typer.Option(
            "--views",
            metavar="NAME[,NAME...]",
            help="Only these views, and the tables about runs.",
            autocompletion=complete_view,
        ),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv/--no-csv", help="Write CSV beside Parquet.")] = True,
    warehouse: WarehouseOption = "./warehouse",
    force: ForceOption = False,
) -> None:
    """Write a dataset: views as Parquet and CSV, with a dictionary.

    Its readers need neither xlahouse nor the traces: DICTIONARY.md (and dictionary.json) states what a
    row is, each column's type, unit and meaning, the version of its definition, and the number of rows
    of each run. The same warehouse gives the same bytes.

    \b
    Examples:
      xlahouse export dataset -o dataset
      xlahouse export dataset tp4 dp2.tp2 -o two --views latency --no-csv
    """
    from xlahouse.sql.cli.progress import progress
    from xlahouse.sql.export.dataset import write_dataset
    from xlahouse.sql.outputs import outside_warehouses

    chosen = [name.strip() for text in views or () for name in text.split(",") if name.strip()]
    if views is not None and not chosen:
        raise typer.BadParameter("it names no view", param_hint="--views")
    outside_warehouses(output)
    with open_warehouse(warehouse) as opened, progress("export") as say:
        known = [run["run_id"] for run in opened.runs()]
        ids = [opened.resolve_run(run) for run in runs] if runs else known
        write_dataset(opened, ids, output, chosen, csv, lambda name: say(name, passing=True), force)
    print(output)


def _export_each(
    runs: list[str],
    output: Path,
    root: str,
    suffix: str,
    write: Callable[[Warehouse, str, Path, Callable[[str], None]], object],
    force: bool,
) -> None:
    """Write each run into a file of its own (a folder, without a suffix) and print their names."""
    from xlahouse.sql.cli.progress import progress
    from xlahouse.sql.outputs import file_stems, outside_warehouses, writing_file, writing_folder

    outside_warehouses(output)
    with ExitStack() as stack:
        warehouse = stack.enter_context(open_warehouse(root))
        ids = dict.fromkeys(warehouse.resolve_run(run) for run in runs)
        names = {row["run_id"]: row["name"] for row in warehouse.runs() if row["run_id"] in ids}
        stems = file_stems(names)
        several = len(ids) > 1 or (suffix != "" and output.is_dir())
        if len(ids) > 1 or not suffix:
            stack.enter_context(writing_folder(output, force))
        (output if several else output.parent).mkdir(parents=True, exist_ok=True)
        say = stack.enter_context(progress("export"))

        def write_one(run_id: str) -> None:
            path = output / f"{stems[run_id]}{suffix}" if several else output
            one = writing_file(path, force or len(ids) > 1) if suffix else nullcontext()
            with one:
                write(warehouse, run_id, path, lambda line: say(line, passing=True))
            print(path)

        do_each({run_id: names[run_id] or run_id for run_id in ids}, "written", write_one)
