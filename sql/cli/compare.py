"""The verb `compare`: two runs side by side, for people and for CI."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from xlahouse.sql.cli.options import WarehouseOption, complete_run, open_warehouse


def compare(
    base: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="The base: id, prefix or name.", autocompletion=complete_run
        ),
    ],
    other: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="The run to compare with it.", autocompletion=complete_run
        ),
    ],
    warehouse: WarehouseOption = "./warehouse",
    fail_over: Annotated[
        float | None,
        typer.Option(
            "--fail-over",
            min=0,
            metavar="PCT",
            help="Exit 1 if the second run is worse by over PCT percent, 3 if inconclusive.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            help="Metric for --fail-over; may be repeated. "
            "Default: ttft_s, tpot_s, output_tokens_per_s, and the device time of a step.",
        ),
    ] = None,
    format: Annotated[str, typer.Option("--format", help="table or json.")] = "table",
) -> None:
    """Print two runs side by side, and why their steps differ.

    Values are medians over the repeats of each run's setup. The verdict is on the second run: better,
    worse, or inconclusive while the difference is within the repeats' spread or a setup has one run. Bytes
    and counts need no repeats: better, worse or equal. decode_device_s and the like are the time of a mean
    step in which a device runs ops. Below are the ten ops, of these two runs, whose share of a step changed
    most; --format json has all, also by kernel, layer and collective: each adds up to the step's difference.
    xlahouse report versus --run RUN --run RUN draws them on a page.

    A compiled run has no times and no totals: compared with one, the table shows the bytes that a step of
    each phase moves and holds on a device.

    \b
    Examples:
      xlahouse compare tp4 dp2.tp2
      xlahouse compare tp4.compiled tp4
      xlahouse compare baseline candidate --fail-over 3
      xlahouse compare baseline candidate --format json
    """
    from xlahouse.sql.answers.compare import JUDGED, compare_loads, compare_runs, judge
    from xlahouse.sql.answers.differences import step_differences
    from xlahouse.sql.answers.wording_compare import as_json, print_comparison, print_loads

    if format not in ("table", "json"):
        raise typer.BadParameter(f"{format} is not one of table, json", param_hint="--format")
    with open_warehouse(warehouse) as opened:
        ids = opened.resolve_run(base), opened.resolve_run(other)
        found = compare_runs(opened, *ids)
        _check_metrics(metric, [row.metric for row in found.rows])
        loads = compare_loads(opened, *ids)
        steps = step_differences(opened, *ids)
    if format == "json":
        print(as_json(*ids, found, loads, steps))
    elif loads:
        print_loads(loads, sys.stdout)
    else:
        print_comparison(found, steps, sys.stdout)
    if found.differing_count > 1:
        print(
            f"xlahouse: warning: the setups differ in {found.differing_count} things: "
            f"{found.differing}; no difference can be attributed to one of them",
            file=sys.stderr,
        )
    elif found.differing:
        print(f"they differ in {found.differing}", file=sys.stderr)
    if fail_over is not None:
        code, why = judge(found, fail_over, metric or JUDGED)
        print(why, file=sys.stderr)
        raise typer.Exit(code)


def _check_metrics(asked: list[str] | None, known: list[str]) -> None:
    for name in asked or []:
        if known and name not in known:
            raise typer.BadParameter(
                f"no metric {name}; the runs share {', '.join(known)}", param_hint="--metric"
            )
