"""Answers a query and writes its rows in the format that the user asked for."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import typer

from xlahouse.capture.words import plural
from xlahouse.sql.cli.options import QUERY_FORMATS, of_one_run, open_warehouse
from xlahouse.sql.limits import QueryLimits, memory_wall
from xlahouse.sql.outputs import writing_file


def answer(
    root: str,
    sql: str,
    params: dict[str, str],
    format: str | None,
    output: Path | None,
    limits: QueryLimits,
    spark: dict[str, str] | None = None,
    formulas: bool = False,
    force: bool = False,
    run: str | None = None,
) -> None:
    """Answer a query, on DuckDB or with `spark` settings on Spark, and write its rows; of one run with `run`.

    Raises:
        BadParameter: an unknown format, or one that no terminal shows.
    """
    from xlahouse.sql.formats import format_for, write_result

    chosen = format or format_for(output)
    if chosen not in QUERY_FORMATS:
        raise typer.BadParameter(
            f"{chosen} is not one of {', '.join(QUERY_FORMATS)}", param_hint="--format"
        )
    if chosen in ("parquet", "arrow") and output is None and sys.stdout.isatty():
        raise typer.BadParameter(f"{chosen} is not for a terminal; give -o FILE")
    with ExitStack() as stack:
        stack.enter_context(writing_file(output, force, streams=True))
        with _keeping_all():
            opened = stack.enter_context(open_warehouse(root, limits=limits))
            stack.enter_context(memory_wall(limits.memory_bytes))
            if spark is None:
                narrowed = opened if run is None else of_one_run(opened, run, sql)
                result = narrowed.query(sql, params)
            else:
                from xlahouse.sql.spark_query import query_spark, start_session

                result = query_spark(opened, start_session(spark), sql, params, limits.rows)
        rows = write_result(result, chosen, output, limits.rows, formulas)
        if not rows and spark is None:
            for line in opened.run_hints(sql, params):
                print(f"xlahouse: {line}", file=sys.stderr)
    if output is not None:
        print(f"{output}: {plural(rows, 'row')}", file=sys.stderr)


@contextmanager
def _keeping_all() -> Iterator[None]:
    """Whatever loads stays: looking for garbage meanwhile takes a tenth of a short query."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
