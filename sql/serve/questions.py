"""The questions that a server answers, each on a warehouse that was opened for it: what is current counts."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from xlahouse.capture.errors import QueryError
from xlahouse.sql.drawing import as_text
from xlahouse.sql.limits import QueryLimits
from xlahouse.sql.serve.context import about_runs, context_of, unit_of

if TYPE_CHECKING:
    import pyarrow as pa

    from xlahouse.sql.result import Result
    from xlahouse.sql.warehouse import Warehouse

MOST_BYTES = 64 << 20  # of an answer in Arrow
SHOWN_ROWS = 1000  # of a table for reading
RUNS_SQL = """
select run_id, name, model, parallelism, batch_size, device_kind, device_count,
    expected_device_count, status, captured_at, ttft_s, tpot_s, issue_errors, issue_warnings
from run_summary order by captured_at nulls last, run_id
"""


def runs(warehouse: Warehouse, limits: QueryLimits) -> dict[str, Any]:
    """Every run with its setup, coverage and latencies."""
    return query(warehouse, limits, RUNS_SQL)


def tables(warehouse: Warehouse, limits: QueryLimits) -> dict[str, str]:
    """Name -> what a row is, of each table."""
    from xlahouse.sql.export.catalogue import list_tables

    return dict(list_tables())


def views(warehouse: Warehouse, limits: QueryLimits) -> dict[str, str]:
    """Name -> what a row is, of each view."""
    from xlahouse.sql.export.catalogue import list_views

    return dict(list_views(warehouse.library))


def describe(warehouse: Warehouse, limits: QueryLimits, name: str) -> str:
    """The documentation of a table or view.

    Raises:
        ViewError: there is no such table or view.
    """
    from xlahouse.sql.export.catalogue import describe_table, describe_view, find_view
    from xlahouse.sql.library import TABLES

    if name in TABLES:
        return describe_table(TABLES[name])
    return describe_view(warehouse.library, find_view(warehouse.library, name))


def query(
    warehouse: Warehouse, limits: QueryLimits, sql: str, params: Mapping[str, object] | None = None
) -> dict[str, Any]:
    """Columns with type, unit and meaning; rows as JSON values; coverage, and what cannot be known.

    Raises:
        QueryError: the guard refuses the query, it is wrong, or over a limit.
    """
    result = warehouse.query(sql, params)
    found, whole = _first_rows(result, limits.rows)
    rows = _json_rows(result.of_table(found, sql))
    return {
        "rows": rows,
        "row_count": len(rows),
        "complete": whole,
        **context_of(warehouse, sql, found, dict(zip(result.columns, result.types, strict=True))),
    }


def table(warehouse: Warehouse, limits: QueryLimits, sql: str) -> dict[str, Any]:
    """Columns with DuckDB's types, and rows as texts in full; None is NULL.

    Raises:
        QueryError: the guard refuses the query, it is wrong, or over a limit.
    """
    from xlahouse.sql.drawing import visible

    result = warehouse.query(sql)
    columns = [
        {"name": visible(name), "type": kind, "unit": unit_of(name)}
        for name, kind in zip(result.columns, result.types, strict=True)
    ]
    found, whole = _first_rows(result, min(limits.rows or SHOWN_ROWS, SHOWN_ROWS))
    rows = [
        [None if value is None else visible(_exact(value)) for value in row]
        for row in result.of_table(found, sql).rows
    ]
    return {"columns": columns, "rows": rows, "complete": whole}


def file(warehouse: Warehouse, limits: QueryLimits, sql: str, format: str) -> bytes:
    """All rows as a CSV or Arrow file.

    Raises:
        QueryError: the guard refuses the query, it is wrong, or over a limit.
    """
    from xlahouse.sql.formats import write_csv_safely
    from xlahouse.sql.result import Result

    found, whole = _first_rows(warehouse.query(sql), limits.rows)
    if not whole:
        raise QueryError(f"the answer has more than {limits.rows:,} rows; ask for fewer", sql)
    if format == "csv":
        text = io.StringIO()
        write_csv_safely(Result.of_table(found, sql), text)
        return text.getvalue().encode()
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, found.schema) as writer:
        writer.write_table(found)
    raw: bytes = sink.getvalue().to_pybytes()
    return raw


def summary(warehouse: Warehouse, limits: QueryLimits, run: str) -> dict[str, Any]:
    """What `xlahouse summary RUN --json` prints."""
    from xlahouse.sql.answers.summary import summarize

    found: dict[str, Any] = msgspec.to_builtins(summarize(warehouse, run))
    return found


def compare(warehouse: Warehouse, limits: QueryLimits, base: str, other: str) -> dict[str, Any]:
    """What `xlahouse compare BASE OTHER` prints."""
    from xlahouse.sql.answers.compare import JUDGED, compare_runs
    from xlahouse.sql.answers.differences import MOST_OPS, step_differences

    found = compare_runs(warehouse, base, other)
    known = {row.metric for row in found.rows}
    unknown = [metric for metric in JUDGED if metric not in known]
    runs = [warehouse.resolve_run(run) for run in (base, other)]
    return {
        **about_runs(warehouse, runs, unknown),
        "metrics": [row._asdict() | {"unit": unit_of(row.metric)} for row in found.rows],
        "differing": found.differing,
        "differing_count": found.differing_count,
        "steps": [
            {
                "phase": step.phase,
                "sentence": step.sentence,
                "ops": msgspec.to_builtins(step.ops[:MOST_OPS]),
                "kernels": msgspec.to_builtins(step.kernels[:MOST_OPS]),
            }
            for step in step_differences(warehouse, *runs)
        ],
    }


def check(warehouse: Warehouse, limits: QueryLimits) -> dict[str, Any]:
    """What `xlahouse check` prints."""
    from xlahouse.sql.check.check import check_warehouse

    return asdict(check_warehouse(warehouse))


QUESTIONS: dict[str, Callable[..., Any]] = {
    question.__name__: question
    for question in (runs, tables, views, describe, query, table, file, summary, compare, check)
}


def _first_rows(result: Result, most: int | None) -> tuple[pa.Table, bool]:
    """At most `most` rows, and whether they are all.

    Raises:
        QueryError: they are more than MOST_BYTES.
    """
    import pyarrow as pa

    found: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in result.batches():
        found.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if size > MOST_BYTES:
            raise QueryError(
                f"the answer is larger than {MOST_BYTES >> 20} MB; ask for fewer rows or columns",
                result.sql,
            )
        if most is not None and rows > most:
            break
    whole = pa.Table.from_batches(found, result.schema)
    return (whole, True) if most is None or rows <= most else (whole.slice(0, most), False)


def _exact(value: object) -> str:
    """All digits of a value; a whole number without a point, as bytes are DOUBLE."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    return str(value).lower() if isinstance(value, bool) else str(as_text(value))


def _json_rows(result: Result) -> list[dict[str, Any]]:
    """Rows as `query --format json` has them."""
    encoder = msgspec.json.Encoder(enc_hook=str, decimal_format="number")
    found: list[dict[str, Any]] = msgspec.json.decode(encoder.encode(result.dicts()))
    return found
