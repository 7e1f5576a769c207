"""The verb `shell`."""

from __future__ import annotations

import sys

import typer

from xlahouse.sql.cli.options import WarehouseOption, open_warehouse


def shell(warehouse: WarehouseOption = "./warehouse") -> None:
    """Answer queries at a prompt, with completion, history and paging.

    Statements end with a semicolon; .help lists the commands. From a pipe the shell runs a script of
    both.

    \b
    Examples:
      xlahouse shell
      xlahouse shell -w wh < questions.sql
    """
    from xlahouse.sql.cli.session import Shell, history_file, run_prompt, run_script

    with open_warehouse(warehouse) as opened:
        if sys.stdin is None:
            raise typer.BadParameter("stdin is closed; type at a terminal, or pipe statements in")
        if sys.stdin.isatty():
            from pydoc import pager

            run_prompt(Shell(opened, sys.stdout, pager), history_file())
        else:
            run_script(Shell(opened, sys.stdout), iter(sys.stdin))
