"""The verbs that keep a warehouse in order: compact, drop."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from xlahouse.sql.options import WarehouseOption, complete_run, open_warehouse

if TYPE_CHECKING:
    from xlahouse.ingest.store import Store
    from xlahouse.sql.warehouse import Warehouse

RunsArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Ids, prefixes or names.", autocompletion=complete_run),
]


def compact(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Ids, prefixes or names; none: all.",
            autocompletion=complete_run,
        ),
    ] = None,
    warehouse: WarehouseOption = "./warehouse",
) -> None:
    """Make a run's many files few, and keep all runs' rows in one.

    Queries over runs of many devices open quicker. Readers are not disturbed: the old files go an
    hour later, with the next ingest, compact or drop.

    \b
    Examples:
      xlahouse compact
      xlahouse compact baseline 579c -w wh
    """
    from xlahouse.capture.errors import WarehouseError
    from xlahouse.ingest.compact import compact_run
    from xlahouse.ingest.run_index import write_index
    from xlahouse.ingest.store import Store
    from xlahouse.reports.units import plural
    from xlahouse.sql.progress import progress

    with open_warehouse(warehouse) as opened:
        names = _names(opened)
        chosen = {opened.resolve_run(run): None for run in runs or names}
    store, failed = Store(warehouse), False
    store.clear_leftovers()
    with progress("compact") as say:
        for run_id in chosen:
            say(f"{run_id}  {names[run_id]}", passing=True)
            try:
                done = compact_run(store, run_id)
            except WarehouseError as error:
                say(f"xlahouse: {error}")
                failed = True
                continue
            now = f", now {done.after}" if done.after != done.before else ": as few as can be"
            say(f"{run_id}  {names[run_id]}: {plural(done.before, 'file')}{now}")
    print(f"{plural(write_index(warehouse, always=True), 'run')} in the index", file=sys.stderr)
    if failed:
        raise typer.Exit(1)


def drop(
    runs: RunsArgument,
    warehouse: WarehouseOption = "./warehouse",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    now: Annotated[
        bool,
        typer.Option("--now", help="Free the space at once; queries that read the run fail."),
    ] = False,
) -> None:
    """Take runs out of the warehouse, their settings with them; traces are not touched.

    Readers are not disturbed: the files go an hour later, with the next ingest, compact or drop.

    \b
    Examples:
      xlahouse drop baseline
      xlahouse drop 579c e8b1 --yes --now -w wh
    """
    from xlahouse.ingest.drop import drop_run
    from xlahouse.ingest.files import reaching
    from xlahouse.ingest.run_index import write_index
    from xlahouse.ingest.store import Store

    with reaching(warehouse):
        store = Store(warehouse)
        chosen = _chosen(store, runs, warehouse)
    listed = ", ".join(f"{run_id} ({name})" if name else run_id for run_id, name in chosen.items())
    if not yes and not _agreed(listed):
        raise typer.Exit(1)
    store.clear_leftovers()
    for run_id, name in chosen.items():
        files = drop_run(store, run_id, at_once=now)
        print(f"{run_id}  {name or 'damaged'}: dropped, {files} files", file=sys.stderr)
    write_index(warehouse, always=True)


def _agreed(listed: str) -> bool:
    """Whether the user says so; nobody can where there is no terminal.

    Raises:
        BadParameter: there is no terminal.
    """
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"to drop {listed} without a terminal to ask on, give --yes")
    return typer.confirm(f"Drop {listed}?", err=True)


def _names(opened: Warehouse) -> dict[str, str | None]:
    """run_id -> name of every run that can be read."""
    rows = opened.query("select run_id, name from runs order by captured_at nulls last, run_id")
    return dict(rows.rows)


def _chosen(store: Store, runs: list[str], root: str) -> dict[str, str | None]:
    """run_id -> name of what to drop; a damaged run has to be named by its whole id.

    Raises:
        WarehouseError: no such run.
    """
    there = store.run_ids()
    with open_warehouse(root) as opened:
        names = _names(opened)
        return {
            run_id: names.get(run_id)
            for run in runs
            for run_id in [run if run in there else opened.resolve_run(run)]
        }
