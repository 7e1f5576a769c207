"""Draws rows and plans as text for people: columns under their names, six digits, short cells."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from decimal import Decimal
from html import escape
from textwrap import wrap
from typing import IO, Any

from xlahouse.sql.types import Value

CELL_WIDTH = 80
MOST_NAMED = 8  # columns that a line names
HTML_ROWS = 50  # a notebook shows these, and says so where there are more
# Parts of DuckDB's plan that name files of this machine.
FILES = {"Filename(s)"}
DRAWN_OTHERWISE = {"Estimated Cardinality"}
NUMERIC = {int, float, Decimal}
# Characters that move the cursor, change the terminal or turn the text around, as they are shown.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_MARKS = (0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF)
_UNSEEN = (
    _CONTROLS
    | {code: f"\\u{code:04x}" for code in _MARKS}
    | {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
)


def draw(
    columns: list[str], rows: list[list[Value]], file: IO[str], width: int | None = None
) -> list[str]:
    """Write rows as a table for reading: NULL is said, long texts are cut.

    Args:
        columns: names.
        rows: values, a list a row.
        file: to write to.
        width: of the terminal; columns that do not fit are left out, from the middle. None: all.

    Returns:
        The columns that were left out.
    """
    cells = [["NULL" if value is None else _cut(short(value)) for value in row] for row in rows]
    numeric = [
        bool(kinds := {type(row[at]) for row in rows} - {type(None)}) and kinds <= NUMERIC
        for at in range(len(columns))
    ]
    names = list(map(visible, columns))
    shown = _fitting(names, cells, width)
    if len(shown) == len(names):
        _write_lines(names, cells, numeric, file)
        return []
    head = len(shown) - 1 if shown[-1] == len(names) - 1 and len(shown) > 1 else len(shown)

    def elided(row: list[str]) -> list[str]:
        kept = [row[at] for at in shown]
        return [*kept[:head], "…", *kept[head:]]

    right = [numeric[at] for at in shown]
    _write_lines(
        elided(names), [elided(row) for row in cells], [*right[:head], False, *right[head:]], file
    )
    return [columns[at] for at in range(len(columns)) if at not in shown]


def draw_records(
    columns: list[str], rows: list[list[Value]], file: IO[str], first: int = 1
) -> None:
    """Write each row as lines of a column and its value, in full.

    Args:
        columns: names.
        rows: values, a list a row.
        file: to write to.
        first: number of the first row.
    """
    names = list(map(visible, columns))
    width = max(map(len, names), default=0)
    for number, row in enumerate(rows, start=first):
        file.write(f"row {number}\n")
        for name, value in zip(names, row, strict=True):
            text = "NULL" if value is None else short(value)
            file.write(f"  {name.ljust(width)}  {text}".rstrip() + "\n")


def elision(hidden: list[str], how: str) -> str:
    """A line on columns that did not fit.

    Args:
        hidden: their names.
        how: what shows them.
    """
    said = ", ".join(map(visible, hidden[:MOST_NAMED]))
    more = f" and {len(hidden) - MOST_NAMED} more" if len(hidden) > MOST_NAMED else ""
    columns = "1 column does" if len(hidden) == 1 else f"{len(hidden)} columns do"
    return f"{columns} not fit the terminal: {said}{more}; {how}"


def terminal_width(file: IO[str]) -> int | None:
    """Columns of the terminal that a file is; None where a file is something else."""
    return shutil.get_terminal_size().columns if file.isatty() else None


def _fitting(columns: list[str], cells: list[list[str]], width: int | None) -> list[int]:
    """Places of the columns that fit: from the first on, and the last; at least the first."""
    every = list(range(len(columns)))
    widths = [max(len(columns[at]), *(len(row[at]) for row in cells), 1) + 2 for at in every]
    if width is None or sum(widths) - 2 <= width or len(columns) < 2:
        return every
    # "…" and its blanks are 3; the last column ends without its 2
    last, left = (
        every[-1],
        width - 1,
    )
    shown = [0]
    left -= widths[0]
    keeps_last = widths[last] <= left
    left -= widths[last] if keeps_last else 0
    for at in every[1:-1]:
        if widths[at] > left:
            break
        shown.append(at)
        left -= widths[at]
    return [*shown, last] if keeps_last else shown


def visible(text: str) -> str:
    """Text in which control characters and marks that no reader sees are written as escapes.

    Names in a trace are data: they must not clear a terminal or hide a part of a line.
    """
    return text.translate(_UNSEEN)


def draw_html(columns: list[str], rows: list[list[Value]]) -> str:
    """The first HTML_ROWS rows as a table in HTML; numbers to the right."""
    head = "".join(f"<th>{escape(visible(column))}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(map(_html_cell, row))}</tr>" for row in rows[:HTML_ROWS])
    more = f"<p>the first {HTML_ROWS} rows</p>" if len(rows) > HTML_ROWS else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div style="max-height: 28em; overflow: auto">{table}</div>{more}'


def _html_cell(value: object) -> str:
    right = ' style="text-align: right"' if type(value) in NUMERIC else ""
    return f"<td{right}>{'NULL' if value is None else escape(_cut(short(value)))}</td>"


def _write_lines(
    columns: list[str], cells: list[list[str]], numeric: list[bool], file: IO[str]
) -> None:
    """Columns under their names, numbers to the right; lines end without blanks."""
    widths = [
        max(len(column), *(len(row[at]) for row in cells), 1) if cells else len(column)
        for at, column in enumerate(columns)
    ]

    def line(row: list[str]) -> str:
        padded = (
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(row, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip() + "\n"

    file.write(line(columns))
    file.write("  ".join("-" * width for width in widths) + "\n")
    for row in cells:
        file.write(line(row))


def as_text(value: object) -> object:
    """Lists and structs as JSON; all else as it is."""
    if isinstance(value, list | dict):
        import msgspec

        return msgspec.json.encode(value, enc_hook=str).decode()
    return value


def short(value: object) -> str:
    """For reading: six digits of a float, but a whole number (bytes are DOUBLE) in full."""
    if isinstance(value, float):
        exact = value.is_integer() and abs(value) < 1e15
        return f"{value:.0f}" if exact else f"{value:.6g}"
    if isinstance(value, bool):
        return str(value).lower()
    return visible(str(as_text(value)))


def _cut(text: str) -> str:
    return text if len(text) <= CELL_WIDTH else text[: CELL_WIDTH - 1] + "…"


def without_files(plan: Any) -> Any:
    """DuckDB's plan, without the names of files."""
    if isinstance(plan, dict):
        return {name: without_files(part) for name, part in plan.items() if name not in FILES}
    return [without_files(part) for part in plan] if isinstance(plan, list) else plan


def draw_plan(plan: Any) -> Iterator[str]:
    """Lines of DuckDB's plan: an operator's facts below its name, and what it reads further in."""
    operators = plan.get("operator", []) if isinstance(plan, dict) else plan
    if isinstance(plan, dict) and "query" in plan:
        took, read = plan["query"].get("total_time"), plan.get("io", {}).get("total_bytes_read")
        yield f"took {took:.6f} s, read {read:,} bytes"
    for operator in operators:
        yield from _draw_operator(operator, "")


def _draw_operator(operator: dict[str, Any], indent: str) -> Iterator[str]:
    name, facts = operator["name"], operator.get("extra_info", {})
    children = operator.get("children") or []
    if name in ("RESULT_COLLECTOR", "EXPLAIN_ANALYZE"):  # of the EXPLAIN itself
        for child in children:
            yield from _draw_operator(child, indent)
        return
    expected = (
        f"about {facts['Estimated Cardinality']} rows expected"
        if DRAWN_OTHERWISE & set(facts)
        else ""
    )
    measured = ""
    if "timing" in operator:
        measured = f"{operator['intermediate_rows']:,} rows, {operator['timing']:.6f} s"
    yield f"{indent}{': '.join(part for part in (name, measured or expected) if part)}"
    for fact, value in facts.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        if fact not in DRAWN_OTHERWISE and text:
            width = max(CELL_WIDTH - len(indent), CELL_WIDTH // 2)
            lines = wrap(
                f"{fact}: {text}", width, initial_indent="    ", subsequent_indent="      "
            )
            yield from (f"{indent}{line}" for line in lines)
    for child in children:
        yield from _draw_operator(child, f"{indent}  ")
