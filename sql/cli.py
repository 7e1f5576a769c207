"""The command line: one function a verb, each of which loads what it needs when it is called."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from xlahouse.capture.errors import XlahouseError
from xlahouse.sql import verbs_ask, verbs_make

app = typer.Typer(
    name="xlahouse",
    help="A SQL warehouse for XLA profiler traces: capture, ingest, query, report.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
set_app = typer.Typer(
    help="Change what a run's views take for granted; nothing is ingested again.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
for verb in (
    verbs_make.demo,
    verbs_make.capture,
    verbs_make.ingest,
    verbs_ask.runs,
    verbs_ask.query,
    verbs_ask.views,
    verbs_ask.tables,
    verbs_ask.check,
    verbs_make.report,
):
    app.command()(verb)
set_app.command("mesh")(verbs_make.set_mesh_of)
app.add_typer(set_app, name="set")


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 the input is at fault, 2 wrong usage, 130 interrupted."""
    try:
        app(prog_name="xlahouse")
    except XlahouseError as error:
        for line in str(error).splitlines():
            print(f"xlahouse: {line}", file=sys.stderr)
        sys.exit(1)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"xlahouse {version('xlahouse')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass
