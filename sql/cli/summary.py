"""The verb `summary`: what a run spends its time on, and what to change."""

from __future__ import annotations

from typing import Annotated

import typer

from xlahouse.sql.cli.options import WarehouseOption, complete_run, open_warehouse


def summary(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Id, prefix or name.", autocompletion=complete_run),
    ],
    warehouse: WarehouseOption = "./warehouse",
    json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Say where a run's time goes, and what would make it faster.

    A verdict; the mean decode step's period, whose parts add up; TTFT and TPOT, or why they are not known; at
    most three findings with their share and lever; and what is wrong or unknown in the data.

    \b
    Examples:
      xlahouse summary tp4
      xlahouse summary 579c -w wh --json
    """
    from xlahouse.sql.answers.summary import summarize
    from xlahouse.sql.answers.wording import summary_lines

    with open_warehouse(warehouse) as opened:
        found = summarize(opened, run)
    if json:
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(found)).decode())
        return
    for line in summary_lines(found, opened.root):
        print(line)
