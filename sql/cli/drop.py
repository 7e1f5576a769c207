"""The verb `drop`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from xlahouse.sql.cli.options import (
    WarehouseOption,
    complete_run,
    do_each,
    keep_index,
    names_of,
    open_warehouse,
)
from xlahouse.sql.drawing import visible

if TYPE_CHECKING:
    from xlahouse.ingest.store.store import Store


RunsArgument = Annotated[
    list[str],
    typer.Argument(metavar="RUN...", help="Ids, prefixes or names.", autocompletion=complete_run),
]


def drop(
    runs: RunsArgument,
    warehouse: WarehouseOption = "./warehouse",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    now: Annotated[
        bool,
        typer.Option("--now", help="Delete the files at once; queries on the run fail."),
    ] = False,
) -> None:
    """Remove runs and their settings from the warehouse.

    Traces stay. Readers are not disturbed: after an hour the next ingest, compact or drop deletes the
    files.

    \b
    Examples:
      xlahouse drop baseline
      xlahouse drop 579c e8b1 --yes --now -w wh
    """
    from xlahouse.ingest.events.files import reaching
    from xlahouse.ingest.store.drop import drop_run
    from xlahouse.ingest.store.store import Store

    with reaching(warehouse):
        store = Store(warehouse)
        chosen = _chosen(store, runs, warehouse)
    listed = ", ".join(f"{run_id} ({name})" if name else run_id for run_id, name in chosen.items())
    if not yes and not _agreed(listed):
        raise typer.Exit(1)
    store.clear_leftovers()

    def drop_one(run_id: str) -> None:
        files = drop_run(store, run_id, at_once=now)
        name = visible(chosen[run_id] or "damaged")
        print(f"{run_id}  {name}: dropped, {files} files", file=sys.stderr)

    do_each({run_id: name or run_id for run_id, name in chosen.items()}, "dropped", drop_one)
    keep_index(warehouse)


def _agreed(listed: str) -> bool:
    """Ask the user whether to drop.

    Raises:
        BadParameter: there is no terminal.
    """
    if not sys.stdin.isatty():
        raise typer.BadParameter(f"to drop {listed} without a terminal to ask on, give --yes")
    return typer.confirm(f"Drop {listed}?", err=True)


def _chosen(store: Store, runs: list[str], root: str) -> dict[str, str | None]:
    """run_id -> name of each run to drop; a damaged run has to be named by its whole id.

    Raises:
        WarehouseError: no such run.
    """
    there = store.run_ids()
    with open_warehouse(root) as opened:
        names = names_of(opened)
        return {
            run_id: names.get(run_id)
            for run in runs
            for run_id in [run if run in there else opened.resolve_run(run)]
        }
