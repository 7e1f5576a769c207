"""The verb `compile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def compile(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.yaml", help="Plan of experiments.")],
    experiment: Annotated[
        list[str] | None,
        typer.Option("--experiment", help="Only experiments of this name; * matches any text."),
    ] = None,
    slice_name: Annotated[
        str | None,
        typer.Option("--slice", help="Chips to compile for, such as v6e-8; default: the plan's."),
    ] = None,
    program: Annotated[
        list[str] | None,
        typer.Option("--program", help="prefill or decode; may be repeated. Default: both."),
    ] = None,
    traces: Annotated[Path, typer.Option("--traces", help="Folder for the programs.")] = Path(
        "traces"
    ),
    warehouse: Annotated[
        str | None,
        typer.Option(
            "--warehouse", "-w", help="Warehouse to ingest the programs into; default: none."
        ),
    ] = None,
    compiler: Annotated[
        str | None,
        typer.Option("--compiler", help="A Python with jax and libtpu; default: this one."),
    ] = None,
    search: Annotated[
        bool,
        typer.Option(
            "--search/--no-search",
            help="Where the chips have too little memory: find the largest batch that compiles, "
            "else the smallest mesh.",
        ),
    ] = True,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, help="Seconds for one program.")
    ] = 3600.0,
    memory: Annotated[
        float, typer.Option("--memory", min=1, help="GiB of memory for one program.")
    ] = 16.0,
    workers: Annotated[
        int,
        typer.Option(
            "--workers",
            min=1,
            help="Experiments compiled at once; each takes about one core, and up to --memory.",
        ),
    ] = 2,
) -> None:
    """Compile a plan with the TPU's own compiler; no TPU is needed.

    \b
    Examples:
      xlahouse compile plan.yaml --slice v6e-8
      xlahouse compile plan.yaml --experiment tp8 --program decode -w warehouse
      xlahouse compare tp8.compiled tp8
    """
    from xlahouse.capture.compile import plan as plans
    from xlahouse.capture.compile.child import ChildLimits
    from xlahouse.capture.compiled_facts import PROGRAMS
    from xlahouse.ingest.run import ingest_paths
    from xlahouse.sql.cli.progress import progress

    chosen = tuple(name for name in PROGRAMS if not program or name in program)
    unknown = sorted(set(program or ()) - set(PROGRAMS))
    if unknown:
        raise typer.BadParameter(
            f"{unknown[0]}; programs: {', '.join(PROGRAMS)}", param_hint="--program"
        )
    done: dict[int, Path] = {}  # by place in the plan
    with progress("compile") as say:

        def tell(event: plans.CompileEvent) -> None:
            say(f"{event.experiment}: {event.message}", passing=not event.ended)
            if event.folder is not None:
                done[event.place] = event.folder

        try:
            plans.compile_plan(
                plan,
                traces,
                tuple(experiment or ()),
                slice_name,
                compiler,
                ChildLimits(timeout, memory),
                tell,
                chosen,
                search,
                workers,
            )
        finally:  # what failed costs no other experiment
            folders = [done[place] for place in sorted(done)]
            if warehouse is not None and folders:
                ingest_paths(list(map(str, folders)), warehouse, on_event=say)
            for folder in folders:
                print(folder)
