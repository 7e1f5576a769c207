"""The verbs that answer: runs, query, views, tables, check."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer

from xlahouse.sql.options import (
    FORMATS,
    FormatOption,
    SparkConfOption,
    WarehouseOption,
    check_engine,
    complete_view,
    library_of,
    open_warehouse,
    spark_settings,
)


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


def query(
    sql: Annotated[
        str,
        typer.Argument(
            metavar="SQL|FILE|-",
            help="One query; a .sql file that holds it; - reads it from stdin.",
        ),
    ],
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
    engine: Annotated[str, typer.Option("--engine", help="duckdb, or spark.")] = "duckdb",
    conf: SparkConfOption = None,
) -> None:
    """Answer one query over tables and views.

    On Spark it runs where spark.master says, and is refused where a construct is not known to mean the
    same there.

    \b
    Examples:
      xlahouse query "select axis, sum(wire_bytes) from traffic_volume group by axis"
      xlahouse query "from latency where run_id = \\$run" -p run=579c542a5ddd
      xlahouse query volume.sql --format csv -o volume.csv
      xlahouse query "from run_summary" --engine spark --conf spark.master=spark://head:7077
    """
    check_engine(engine, ("duckdb", "spark"), conf)
    text = _stdin() if sql == "-" else _argument(sql)
    settings = spark_settings(conf) if engine == "spark" else None
    _answer(warehouse, text, _parameters(param or []), format, output, limit, settings)


def _stdin() -> str:
    """All of stdin as UTF-8, like an argument."""
    if sys.stdin is None:
        raise typer.BadParameter(
            "stdin is closed; pipe a query into it, or give it as the argument"
        )
    raw = sys.stdin.buffer.read()
    return raw.decode("utf-8-sig", errors="surrogateescape")


def _argument(given: str) -> str:
    """A query, or what a file holds: no query is a single word that ends in .sql."""
    path = Path(given)
    if path.suffix == ".sql" and (len(given.split()) == 1 or path.is_file()):
        return path.read_bytes().decode("utf-8-sig", errors="surrogateescape")
    return _utf8(given)


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
    spark: dict[str, str] | None = None,
) -> None:
    from xlahouse.sql.formats import format_for, write_result

    chosen = format or format_for(output)
    if chosen not in FORMATS:
        raise typer.BadParameter(
            f"{chosen} is not one of {', '.join(FORMATS)}", param_hint="--format"
        )
    if chosen in ("parquet", "arrow") and output is None and sys.stdout.isatty():
        raise typer.BadParameter(f"{chosen} is not for a terminal; give -o FILE")
    with ExitStack() as stack:
        with _keeping_all():
            opened = stack.enter_context(open_warehouse(root))
            if spark is None:
                result = opened.query(sql, params)
            else:
                from xlahouse.sql.spark_query import query_spark, start_session

                result = query_spark(opened, start_session(spark), sql, params, limit)
        rows = write_result(result, chosen, output, limit)
    if output is not None:
        print(f"{output}: {rows:,} row{'' if rows == 1 else 's'}", file=sys.stderr)


@contextmanager
def _keeping_all() -> Iterator[None]:
    """Whatever loads stays: looking for garbage meanwhile takes a tenth of a short query."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def views(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", autocompletion=complete_view)
    ] = None,
    warehouse: WarehouseOption = "./warehouse",
    dialect: Annotated[
        str | None,
        typer.Option(
            "--dialect", help="Print statements that create them: duckdb, spark or bigquery."
        ),
    ] = None,
) -> None:
    """List the views, or print one's documentation, origins, examples and SQL.

    A warehouse's own views, the .sql files in its folder user_views, are among them.

    \b
    Examples:
      xlahouse views
      xlahouse views traffic_volume
      xlahouse views --dialect bigquery > views.sql
    """
    from xlahouse.sql.catalogue import describe_view, find_view, list_views
    from xlahouse.sql.dialects import DIALECTS, write_ddl

    if dialect is not None and dialect not in DIALECTS:
        raise typer.BadParameter(
            f"{dialect} is not one of {', '.join(DIALECTS)}", param_hint="--dialect"
        )
    library = library_of(warehouse, name)
    if dialect is not None:
        names = {find_view(library, name).name, name} if name else set(library.pointers)
        for statement in write_ddl(library, names, dialect):
            print(f"{statement}\n")
    elif name is None:
        _print_pairs(list(list_views(library)))
    else:
        print(describe_view(library, find_view(library, name)), end="")


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


def check(
    warehouse: WarehouseOption = "./warehouse",
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on warnings too.")] = False,
    codes: Annotated[
        bool, typer.Option("--codes", help="List what each code means and costs, and stop.")
    ] = False,
) -> None:
    """Run the audits and list what ingest found; exit 1 where something is wrong.

    \b
    Examples:
      xlahouse check
      xlahouse check -w wh --strict
      xlahouse check --codes
    """
    if codes:
        from xlahouse.ingest.issue_codes import CODES

        for code in CODES.values():
            print(f"{code.code}: {code.meaning}; {code.cost}")
        return
    from xlahouse.sql.check import check_warehouse

    with open_warehouse(warehouse) as opened:
        report = check_warehouse(opened)
    for line in report.lines:
        print(line)
    print(f"{report.errors} errors, {report.warnings} warnings", file=sys.stderr)
    if report.errors or (strict and report.warnings):
        raise typer.Exit(1)
