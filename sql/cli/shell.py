"""The verb `shell`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from xlahouse.sql.cli.options import (
    MemoryOption,
    RunOption,
    TimeoutOption,
    WarehouseOption,
    limits_of,
    open_warehouse,
)


def shell(
    warehouse: WarehouseOption = "./warehouse",
    run: RunOption = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most rows to show.")] = 1000,
    timeout: TimeoutOption = 300,
    memory: MemoryOption = "4GB",
) -> None:
    """Answer queries at a prompt, with completion, history and paging.

    Statements end with a semicolon; .help lists the commands. From a pipe the shell runs a script of
    both.

    \b
    Examples:
      xlahouse shell
      xlahouse shell --run tp4
      xlahouse shell -w wh < questions.sql
      xlahouse shell --timeout 0 --memory 0 --limit 20
    """
    from xlahouse.sql.cli.session import Shell, history_file, run_prompt, run_script

    limits = limits_of(timeout, memory, limit)
    with open_warehouse(warehouse, limits=limits) as opened:
        if sys.stdin is None:
            raise typer.BadParameter("stdin is closed; type at a terminal, or pipe statements in")
        if sys.stdin.isatty():
            from pydoc import pager

            run_prompt(Shell(opened, sys.stdout, pager, limits, run), history_file())
        else:
            run_script(Shell(opened, sys.stdout, limits=limits, run=run), iter(sys.stdin))
