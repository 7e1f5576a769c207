"""What several verbs share: options, completion for the shell, opening a warehouse."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from xlahouse.capture.errors import XlahouseError

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse

FORMATS = ("table", "csv", "json", "jsonl", "markdown", "parquet", "arrow")


def complete_run(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names and ids of the warehouse's runs, for the shell; silent where there is none."""
    from xlahouse.sql.listing import read_runs

    try:
        rows = read_runs(ctx.params.get("warehouse") or _default_warehouse()).to_pylist()
    except XlahouseError:
        return []
    words = [word for row in rows for word in (row["name"], row["run_id"]) if word]
    return [word for word in words if word.startswith(incomplete)]


def complete_view(incomplete: str) -> list[str]:
    """Names of views, bare and with their version, for the shell."""
    from xlahouse.sql.library import shipped

    library = shipped()
    return [
        name
        for name in sorted({*library.pointers, *library.pointers.values()})
        if name.startswith(incomplete)
    ]


def _default_warehouse() -> str:
    return os.environ.get("XLAHOUSE_WAREHOUSE") or "./warehouse"


WarehouseOption = Annotated[
    str,
    typer.Option(
        "--warehouse",
        "-w",
        help="The warehouse: a folder or an fsspec URL.",
        envvar="XLAHOUSE_WAREHOUSE",
    ),
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        help=f"{', '.join(FORMATS)}; default: by the suffix of -o, else table.",
    ),
]


def open_warehouse(root: str) -> Warehouse:
    """The warehouse at `root`; DuckDB loads here and not before.

    Raises:
        WarehouseError: there is none.
    """
    from xlahouse.sql.warehouse import Warehouse

    return Warehouse(root)
