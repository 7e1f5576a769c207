"""The verb `compact`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from xlahouse.sql.cli.options import (
    WarehouseOption,
    complete_run,
    keep_index,
    names_of,
    open_warehouse,
)


def compact(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Ids, prefixes or names; default: all.",
            autocompletion=complete_run,
        ),
    ] = None,
    warehouse: WarehouseOption = "./warehouse",
) -> None:
    """Merge the many files of a run, and index the rows of all runs.

    Queries over runs of many devices then open faster. Readers are not disturbed: after an hour the
    next ingest, compact or drop deletes the old files.

    \b
    Examples:
      xlahouse compact
      xlahouse compact baseline 579c -w wh
    """
    from xlahouse.capture.errors import WarehouseError
    from xlahouse.ingest.store.compact import compact_run
    from xlahouse.ingest.store.store import Store
    from xlahouse.reports.charts.units import plural
    from xlahouse.sql.cli.progress import progress

    with open_warehouse(warehouse) as opened:
        names = names_of(opened)
        chosen = {opened.resolve_run(run): None for run in runs or names}
    store, failed = Store(warehouse), False
    store.clear_leftovers()
    with progress("compact") as say:
        for run_id in chosen:
            say(f"{run_id}  {names[run_id]}", passing=True)
            try:
                done = compact_run(store, run_id)
            except (WarehouseError, OSError) as error:
                said = str(error)
                if isinstance(error, OSError):  # its lease could not be written
                    said = f"{run_id}: {error.strerror or error}; the run stays as it was"
                say(f"xlahouse: {said}")
                failed = True
                continue
            now = f", now {done.after}" if done.after != done.before else ": as few as can be"
            say(f"{run_id}  {names[run_id]}: {plural(done.before, 'file')}{now}")
    indexed = keep_index(warehouse)
    if indexed is not None:
        print(f"{plural(indexed, 'run')} in the index", file=sys.stderr)
    if failed or indexed is None:
        raise typer.Exit(1)
