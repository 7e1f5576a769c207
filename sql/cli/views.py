"""The verb `views`: the list of views, one view in full, or the statements that create them."""

from __future__ import annotations

from typing import Annotated

import typer

from xlahouse.sql.cli.options import WarehouseOption, complete_view, library_of, print_pairs


def views(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A view.", autocompletion=complete_view)
    ] = None,
    warehouse: WarehouseOption = "./warehouse",
    dialect: Annotated[
        str | None,
        typer.Option("--dialect", help="Print CREATE statements: duckdb, spark or bigquery."),
    ] = None,
) -> None:
    """List the views, or print one with its origins, examples and SQL.

    The list has the warehouse's own views too: the .sql files in its folder user_views.

    \b
    Examples:
      xlahouse views
      xlahouse views traffic_volume
      xlahouse views --dialect bigquery > views.sql
    """
    from xlahouse.sql.export.catalogue import describe_view, find_view, list_views
    from xlahouse.sql.export.dialects import DIALECTS, write_ddl

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
        print_pairs(list(list_views(library)))
    else:
        print(describe_view(library, find_view(library, name)), end="")
