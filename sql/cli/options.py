"""Shared parts of verbs: options, completion for the shell, opening a warehouse, all runs in turn."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from xlahouse.capture.errors import WarehouseError, XlahouseError

if TYPE_CHECKING:
    from xlahouse.sql.library import Library
    from xlahouse.sql.limits import QueryLimits
    from xlahouse.sql.warehouse import Warehouse

QUERY_FORMATS = ("table", "line", "csv", "json", "jsonl", "markdown", "parquet", "arrow")


def complete_run(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names and ids of the warehouse's runs, for the shell; silent without a warehouse."""
    from xlahouse.sql.warehouse import Warehouse

    root = ctx.params.get("warehouse") or _default_warehouse()
    try:
        with Warehouse(root, lambda line: None) as warehouse:
            runs = warehouse.query("select name, run_id from runs order by captured_at, run_id")
            words = [word for pair in runs.rows for word in pair if word]
    except XlahouseError:
        return []
    return [word for word in words if word.startswith(incomplete)]


def complete_view(incomplete: str) -> list[str]:
    """Names of views, bare and with their version, for the shell."""
    from xlahouse.sql.library import shipped

    library = shipped()
    return [
        name
        for name in sorted({*library.pointers, *library.pointers.values()})
        if name.startswith(incomplete)
    ]


def complete_page(incomplete: str) -> list[str]:
    """Names of the pages of a report, for the shell."""
    from xlahouse.reports.pages import PAGES

    return [name for name in PAGES if name.startswith(incomplete)]


def _default_warehouse() -> str:
    return os.environ.get("XLAHOUSE_WAREHOUSE") or "./warehouse"


def _check_warehouse(root: str) -> str:
    """Refuse a mistaken root before anything is read or written there."""
    if not root:
        raise typer.BadParameter(
            "it is empty (a variable that is not set?); name a folder or a URL"
        )
    if root.startswith("memory:"):
        raise typer.BadParameter(
            "a warehouse in memory ends with this command; name a folder or a URL"
        )
    return root


WarehouseOption = Annotated[
    str,
    typer.Option(
        "--warehouse",
        "-w",
        help="The warehouse: a folder or an fsspec URL.",
        envvar="XLAHOUSE_WAREHOUSE",
        callback=_check_warehouse,
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        help=f"{', '.join(QUERY_FORMATS)}; default: by the suffix of -o, else table.",
    ),
]


RunOption = Annotated[
    str | None,
    typer.Option(
        "--run",
        metavar="RUN",
        help="Answer as if the warehouse held this run only: id, prefix or name.",
        autocompletion=complete_run,
    ),
]
LimitOption = Annotated[int | None, typer.Option("--limit", min=0, help="Most rows to write.")]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force", help="Write over files that xlahouse did not write, or that changed since."
    ),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option(
        "--timeout", min=0, metavar="SECONDS", help="Longest a query may run; 0: no limit."
    ),
]
MemoryOption = Annotated[
    str | None,
    typer.Option(
        "--memory",
        metavar="SIZE",
        help="Most memory of a query, such as 500MB or 4GB; 0: no limit.",
    ),
]
SparkConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="Spark setting, such as spark.master=spark://head:7077.",
    ),
]


def _use_limits(text: str | None) -> str | None:
    if text is not None:
        from xlahouse.capture.limits import use_limits

        use_limits(text)
    return text


LimitsOption = Annotated[
    str | None,
    typer.Option(
        "--limits",
        metavar="NAME=NUMBER,...",
        help="Limits of what an input may cost, such as planes=8192; an unknown NAME lists them all.",
        envvar="XLAHOUSE_LIMITS",
        callback=_use_limits,
    ),
]


def check_engine(engine: str, known: tuple[str, ...], conf: list[str] | None) -> None:
    """Refuse an unknown engine, and Spark's settings without Spark."""
    if engine not in known:
        raise typer.BadParameter(
            f"{engine} is not one of {', '.join(known)}", param_hint="--engine"
        )
    if conf and engine != "spark":
        raise typer.BadParameter("it is for --engine spark", param_hint="--conf")


def spark_settings(conf: list[str] | None) -> dict[str, str]:
    """Settings of Spark by name."""
    pairs = [setting.partition("=") for setting in conf or ()]
    for name, equals, _ in pairs:
        if not equals or not name.startswith("spark."):
            raise typer.BadParameter("write spark.NAME=VALUE", param_hint="--conf")
    return {name: value for name, _, value in pairs}


def limits_of(timeout: float | None, memory: str | None, rows: int | None) -> QueryLimits:
    """The limits of a query as the options say; a limit of 0 means no limit."""
    from xlahouse.capture.errors import QueryError
    from xlahouse.sql.limits import QueryLimits, parse_memory

    try:
        size = None if memory in (None, "0") else parse_memory(memory)
    except QueryError as error:
        raise typer.BadParameter(str(error), param_hint="--memory") from error
    return QueryLimits(timeout or None, size, rows)


def open_warehouse(
    root: str, threads: int | None = None, limits: QueryLimits | None = None
) -> Warehouse:
    """The warehouse at `root`; runs that are left out are reported on stderr.

    DuckDB loads here and not before. On one thread sums of floats are the same to the last digit.

    Raises:
        WarehouseError: there is no warehouse.
    """
    from xlahouse.sql.warehouse import Warehouse

    return Warehouse(
        root,
        lambda line: print(f"xlahouse: {line}", file=sys.stderr),
        memory_limit=limits.memory if limits else None,
        threads=threads,
        timeout_s=limits.timeout_s if limits else None,
    )


def of_one_run(opened: Warehouse, run: str, sql: str) -> Warehouse:
    """The warehouse as if it held one run, for a query that compares no runs.

    Raises:
        WarehouseError: there is no such run.
        QueryError: the query rests on a view that compares runs.
    """
    from xlahouse.capture.errors import QueryError

    views = opened.compares_runs(sql)
    if views:
        raise QueryError(
            f"{', '.join(views)} compares runs, and with --run there is one; name the run in WHERE",
            sql,
        )
    return opened.of_run(run)


def library_of(root: str, name: str | None = None) -> Library:
    """The shipped views, with the warehouse's own if it has any and `name` is not a shipped view.

    Raises:
        WarehouseError: the warehouse cannot be read.
    """
    from xlahouse.sql.library import shipped
    from xlahouse.sql.own_views import with_own_views
    from xlahouse.sql.place import Place

    library = shipped()
    place = Place(root)
    if (name is not None and library.find(name)) or not place.exists("warehouse.json"):
        return library
    found = with_own_views(place, library)
    for line in found.problems:
        print(f"xlahouse: {line}", file=sys.stderr)
    return found.library


def print_pairs(pairs: list[tuple[str, str]]) -> None:
    """Print names in a column and a text beside each."""
    width = max(len(name) for name, _ in pairs)
    for name, text in pairs:
        print(f"{name.ljust(width)}  {text}")


def names_of(opened: Warehouse) -> dict[str, str | None]:
    """run_id -> name of every run that can be read."""
    rows = opened.query("select run_id, name from runs order by captured_at nulls last, run_id")
    return dict(rows.rows)


def do_each(runs: Mapping[str, str], done: str, do: Callable[[str], None]) -> None:
    """Call `do` with each run_id.

    Args:
        runs: run_id -> how the user knows the run.
        done: what has been done to a run then, such as `dropped`.
        do: raises OSError where it left its run as it was.

    Raises:
        WarehouseError: a file could not be written; states which runs are done and which are not.
    """
    left = dict(runs)
    for run_id in runs:
        try:
            do(run_id)
        except OSError as error:
            before = ", ".join(name for other, name in runs.items() if other not in left)
            raise WarehouseError(
                f"{runs[run_id]}: {error.strerror or error}; {done}: {before or 'no run'}; "
                f"not {done}: {', '.join(left.values())}; free some space and repeat the command for these"
            ) from error
        del left[run_id]


def keep_index(root: str) -> int | None:
    """Write the index of runs where it is out of date; None, after a line, where it cannot be written."""
    from xlahouse.ingest.store.run_index import write_index

    try:
        return write_index(root, always=True)
    except OSError as error:
        print(
            f"xlahouse: the index of runs is not written again: {error.strerror or error}; queries "
            "work without it, and `xlahouse compact` writes it",
            file=sys.stderr,
        )
        return None
