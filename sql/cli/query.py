"""The verb `query`: one query over tables and views, from an argument, a file or stdin."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from xlahouse.capture.opening import read_regular
from xlahouse.sql.cli.answer import answer
from xlahouse.sql.cli.options import (
    ForceOption,
    FormatOption,
    LimitOption,
    MemoryOption,
    RunOption,
    SparkConfOption,
    TimeoutOption,
    WarehouseOption,
    check_engine,
    limits_of,
    spark_settings,
)


def query(
    sql: Annotated[
        str,
        typer.Argument(
            metavar="SQL|FILE|-",
            help="A query; a .sql file with one; - reads stdin.",
        ),
    ],
    warehouse: WarehouseOption = "./warehouse",
    run: RunOption = None,
    param: Annotated[
        list[str] | None,
        typer.Option("-p", "--param", metavar="NAME=VALUE", help="Value of $NAME in the query."),
    ] = None,
    format: FormatOption = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File to write.")] = None,
    limit: LimitOption = None,
    timeout: TimeoutOption = None,
    memory: MemoryOption = None,
    engine: Annotated[str, typer.Option("--engine", help="duckdb or spark.")] = "duckdb",
    conf: SparkConfOption = None,
    formulas: Annotated[
        bool,
        typer.Option(
            "--formulas",
            help="In a CSV file, leave text that begins with =, +, - or @ as it is; by "
            "default an apostrophe keeps spreadsheets from computing it.",
        ),
    ] = False,
    force: ForceOption = False,
) -> None:
    """Answer one query over tables and views.

    On Spark the query runs on spark.master; a construct that is not known to mean the same there is
    refused. Without --timeout and --memory nothing limits a query.

    \b
    Examples:
      xlahouse query "select axis, sum(wire_bytes) from traffic_volume group by 1"
      xlahouse query 'from latency where run_id = $run' -p run=579c542a5ddd
      xlahouse query "from bubble" --run tp4 --format line
      xlahouse query volume.sql --format csv -o volume.csv
      xlahouse query "from ops" --timeout 10 --memory 1GB --limit 100
      xlahouse query "from run_summary" --engine spark \\
        --conf spark.master=spark://head:7077
    """
    check_engine(engine, ("duckdb", "spark"), conf)
    limits = limits_of(timeout, memory, limit)
    if engine == "spark" and (limits.timeout_s or limits.memory_bytes):
        raise typer.BadParameter(
            "they are for --engine duckdb; limit Spark with --conf",
            param_hint="--timeout, --memory",
        )
    if engine == "spark" and run is not None:
        raise typer.BadParameter("it is for --engine duckdb", param_hint="--run")
    text = _stdin() if sql == "-" else _argument(sql)
    settings = spark_settings(conf) if engine == "spark" else None
    answer(
        warehouse,
        text,
        _parameters(param or []),
        format,
        output,
        limits,
        settings,
        formulas,
        force,
        run,
    )


def _stdin() -> str:
    """All of stdin as UTF-8, like an argument."""
    if sys.stdin is None:
        raise typer.BadParameter(
            "stdin is closed; pipe a query into it, or give it as the argument"
        )
    raw = sys.stdin.buffer.read()
    return raw.decode("utf-8-sig", errors="surrogateescape")


def _argument(given: str) -> str:
    """A query, or the text of a file: no query is a single word that ends in .sql."""
    path = Path(given)
    if path.suffix == ".sql" and (len(given.split()) == 1 or path.is_file()):
        return read_regular(path).decode("utf-8-sig", errors="surrogateescape")
    return _utf8(given)


def _utf8(argument: str) -> str:
    """An argument as UTF-8, whatever the locale; other bytes stay marked, and are refused later."""
    return os.fsencode(argument).decode(errors="surrogateescape")


def _parameters(given: list[str]) -> dict[str, str]:
    pairs = [_utf8(item).partition("=") for item in given]
    for name, equals, _ in pairs:
        if not equals or not name.isidentifier():
            raise typer.BadParameter("write NAME=VALUE", param_hint="-p")
    return {name: value for name, _, value in pairs}
