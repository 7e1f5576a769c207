"""The verb `check`: audits, and the findings of ingest."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from xlahouse.sql.cli.options import WarehouseOption, open_warehouse


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
        from xlahouse.ingest.events.issue_codes import CODES

        for code in CODES.values():
            print(f"{code.code}: {code.meaning}; {code.cost}")
        return
    from xlahouse.sql.check.check import check_warehouse

    with open_warehouse(warehouse) as opened:
        report = check_warehouse(opened)
    for line in report.lines:
        print(line)
    print(f"{report.errors} errors, {report.warnings} warnings", file=sys.stderr)
    if report.errors or (strict and report.warnings):
        raise typer.Exit(1)
