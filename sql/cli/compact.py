"""The verb `compact`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from xlahouse.sql.cli.options import (
    WarehouseOption,
    complete_run,
    keep_index,
    names_of,
    open_warehouse,
)

if TYPE_CHECKING:
    from xlahouse.ingest.store.compact import Compacted
    from xlahouse.ingest.store.store import Store


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
    """Merge the files of each run, index all runs, pack small ones.

    Queries over runs of many devices then open faster. Where no run is named, rows of many small runs are
    also copied into one file per table, so that a query over thousands of them opens few files. Readers
    are not disturbed: after an hour the next ingest, compact or drop deletes the old files.

    \b
    Examples:
      xlahouse compact
      xlahouse compact baseline 579c -w wh
    """
    from xlahouse.capture.errors import WarehouseError
    from xlahouse.ingest.store.compact import Compacted, compact_run
    from xlahouse.ingest.store.packs import files_of_compact
    from xlahouse.ingest.store.store import Store
    from xlahouse.reports.charts.units import plural
    from xlahouse.sql.cli.progress import progress

    with open_warehouse(warehouse) as opened:
        names = names_of(opened)
        chosen = {opened.resolve_run(run): None for run in runs or names}
    store, failed = Store(warehouse), False
    store.clear_leftovers()
    compacted = files_of_compact(store)
    with progress("compact") as say:
        for run_id in chosen:
            say(f"{run_id}  {names[run_id]}", passing=True)
            try:
                files = compacted.get(run_id)
                done = Compacted(run_id, files, files) if files else compact_run(store, run_id)
            except (WarehouseError, OSError) as error:
                said = str(error)
                if isinstance(error, OSError):  # its lease could not be written
                    said = f"{run_id}: {error.strerror or error}; the run stays as it was"
                say(f"xlahouse: {said}")
                failed = True
                continue
            say(f"{run_id}  {names[run_id]}: {_described(done)}")
    indexed = keep_index(warehouse)
    if indexed is not None:
        print(f"{plural(indexed, 'run')} in the index", file=sys.stderr)
        failed = not (runs or _pack(store)) or failed
    if failed or indexed is None:
        raise typer.Exit(1)


def _described(done: Compacted) -> str:
    from xlahouse.reports.charts.units import plural

    files = plural(done.before, "file")
    if done.after != done.before:
        files += f", now {done.after}"
    if done.filled:
        return f"{files}; {plural(done.filled, 'table')} got the columns of this version"
    return files if done.after != done.before else f"{files}: as few as possible"


def _pack(store: Store) -> bool:
    """Pack the small runs; whether it could."""
    from xlahouse.ingest.store.packs import pack_runs
    from xlahouse.reports.charts.units import plural

    try:
        packed = pack_runs(store)
    except OSError as error:
        print(
            f"xlahouse: small runs are not packed: {error.strerror or error}; queries work without that",
            file=sys.stderr,
        )
        return False
    if packed:
        print(f"{plural(packed, 'small run')} packed", file=sys.stderr)
    return True
