"""The verb `check`: audits, and the findings of ingest."""

from __future__ import annotations

import sys
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

from xlahouse.sql.cli.options import WarehouseOption, open_warehouse
from xlahouse.sql.drawing import visible

if TYPE_CHECKING:
    from xlahouse.ingest.events.issues import Code


def code_text(code: Code) -> str:
    """A code's severity, meaning, cost and remedy, at 80 columns."""
    severity = (
        f"{code.severity}, or info where {code.info_when}" if code.info_when else code.severity
    )
    lines = [f"{code.code}: {code.meaning}; {code.cost}", f"severity: {severity}"]
    if code.remedy:
        lines.append(f"remedy: {code.remedy}")
    return "\n".join(
        fill(line, 80, initial_indent="  " * bool(place), subsequent_indent="    ")
        for place, line in enumerate(lines)
    )


def check(
    warehouse: WarehouseOption = "./warehouse",
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 on warnings too.")] = False,
    codes: Annotated[
        bool, typer.Option("--codes", help="List what each code means and costs, and stop.")
    ] = False,
) -> None:
    """Run the audits and list ingest's findings; exit 1 on an error.

    \b
    Examples:
      xlahouse check
      xlahouse check -w wh --strict
      xlahouse check --codes
    """
    if codes:
        from xlahouse.ingest.events.issue_codes import CODES

        for code in CODES.values():
            print(code_text(code))
        return
    from xlahouse.sql.check.check import check_warehouse

    with open_warehouse(warehouse) as opened:
        report = check_warehouse(opened)
    for line in report.lines:
        print(visible(line))
    print(f"{report.errors} errors, {report.warnings} warnings", file=sys.stderr)
    if report.errors or (strict and report.warnings):
        raise typer.Exit(1)
