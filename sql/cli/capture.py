"""The verb `capture`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from xlahouse.sql.cli.options import LimitsOption


def capture(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.yaml", help="Plan of experiments.")],
    experiment: Annotated[
        list[str] | None,
        typer.Option("--experiment", help="Only experiments of this name; * matches any text."),
    ] = None,
    traces: Annotated[Path, typer.Option("--traces", help="Folder for the traces.")] = Path(
        "traces"
    ),
    device: Annotated[str, typer.Option("--device", help="auto, cpu or tpu.")] = "auto",
    devices: Annotated[
        int | None,
        typer.Option("--devices", min=1, help="Number of devices; meshes may be smaller."),
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Capture again where there are traces.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Estimate each experiment; run none.")
    ] = False,
    stamp: Annotated[
        str | None,
        typer.Option("--stamp", help="Name of the captures, the same on all hosts of a run."),
    ] = None,
    limits: LimitsOption = None,
) -> None:
    """Run profiled inference and keep its traces.

    \b
    Examples:
      xlahouse capture plan.yaml --traces traces
      xlahouse capture plan.yaml --experiment tp4 --device cpu
      xlahouse capture plan.yaml --dry-run
    """
    from xlahouse.capture.compile.cell import compiled_before
    from xlahouse.capture.run.dry_run import describe_plan
    from xlahouse.capture.run.runner import choose_experiments, run_plan
    from xlahouse.sql.cli.progress import progress

    if device not in ("auto", "cpu", "tpu"):
        raise typer.BadParameter(f"{device} is not one of auto, cpu, tpu", param_hint="--device")
    names = tuple(experiment or ())
    if dry_run:
        chosen = choose_experiments(plan, names, devices)
        for line in describe_plan(chosen, traces, lambda each: compiled_before(each, traces)):
            print(line)
        return
    with progress("capture") as say:
        folders = run_plan(
            plan,
            traces,
            names,
            device,
            devices,
            fresh,
            lambda event: say(
                f"{event.experiment}: {event.kind}: {event.message}",
                passing=event.kind == "progress",
            ),
            _check_stamp(stamp),
        )
    for folder in folders:
        print(folder)


def _check_stamp(stamp: str | None) -> str | None:
    """Refuse a text that cannot be part of a folder's name."""
    if stamp is not None and not re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z.]*", stamp):
        raise typer.BadParameter(
            "write it as letters, digits and points, such as 20260102T030405", param_hint="--stamp"
        )
    return stamp
