"""The verb `tables`: the list of tables, or the columns of one."""

from __future__ import annotations

from typing import Annotated

import typer

from xlahouse.sql.cli.options import print_pairs


def tables(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A table.")] = None,
) -> None:
    """List the tables, or print one's columns.

    \b
    Examples:
      xlahouse tables
      xlahouse tables collectives
    """
    from xlahouse.sql.export.catalogue import describe_table, find_table, list_tables

    if name is None:
        print_pairs(list(list_tables()))
    else:
        print(describe_table(find_table(name)), end="")
