"""The verb `ingest`."""

from __future__ import annotations

import re
from functools import partial
from os.path import abspath
from typing import Annotated

import typer

from xlahouse.sql.cli.options import (
    LimitsOption,
    SparkConfOption,
    WarehouseOption,
    check_engine,
    spark_settings,
)


def ingest(
    paths: Annotated[
        list[str], typer.Argument(metavar="PATH...", help="Traces, or folders with traces.")
    ],
    warehouse: WarehouseOption = "./warehouse",
    workers: Annotated[
        int,
        typer.Option(
            "--workers", min=1, help="Worker processes: one per run; a large run takes all."
        ),
    ] = 2,
    mesh: Annotated[
        str | None, typer.Option("--mesh", help="Mesh, major to minor, such as dp=2,tp=4.")
    ] = None,
    device_kind: Annotated[
        str | None, typer.Option("--device-kind", help="Kind of device, such as 'TPU v6e'.")
    ] = None,
    run: Annotated[str | None, typer.Option("--run", help="Name of the run.")] = None,
    hlo_dump: Annotated[
        str | None,
        typer.Option("--hlo-dump", help="Folder with the compiler's dumps of optimized HLO."),
    ] = None,
    card: Annotated[
        str | None,
        typer.Option("--card", help="Workload card (YAML) with facts that traces lack."),
    ] = None,
    clock: Annotated[
        list[str] | None,
        typer.Option(
            "--clock", metavar="CLOCK=PS", help="Offset of a clock, where it cannot be measured."
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", metavar="all", help="Collectives of unknown group span all ranks."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit 1 on any warning or error in the data.")
    ] = False,
    engine: Annotated[
        str,
        typer.Option(
            "--engine", help="local, or spark: one task per run, or per file of a large run."
        ),
    ] = "local",
    conf: SparkConfOption = None,
    limits: LimitsOption = None,
) -> None:
    """Read traces into the warehouse; the same trace twice is one run.

    \b
    Examples:
      xlahouse ingest traces
      xlahouse ingest host0.xplane.pb -w wh --mesh dp=2,tp=4 --run baseline
      xlahouse ingest traces --hlo-dump /tmp/xla_dump
      xlahouse ingest host.trace.json.gz --card llama-tp2-tpu.yaml
      xlahouse ingest traces --clock host1=5000300000
      xlahouse ingest rank*.json.gz --run eight --group all --mesh dp=8
      xlahouse ingest gs://b/traces -w gs://b/wh --engine spark \\
        --conf spark.master=spark://head:7077
    """
    check_engine(engine, ("local", "spark"), conf)
    if group not in (None, "all"):
        raise typer.BadParameter("the only value is `all`", param_hint="--group")
    from xlahouse.ingest.process import loading, prepare_process

    prepare_process()
    with loading():
        from xlahouse.capture.manifest import parse_mesh
        from xlahouse.ingest.run import Each, each_in_workers, ingest_paths
        from xlahouse.sql.cli.progress import progress

    axes = parse_mesh(mesh) if mesh is not None else None
    each: Each | None = None
    if engine == "spark":
        from xlahouse.ingest.on_spark import each_on
        from xlahouse.sql.spark_query import start_session

        each = each_on(start_session(spark_settings(conf)))
        paths, warehouse = [_anywhere(path) for path in paths], _anywhere(warehouse)
        hlo_dump, card = hlo_dump and _anywhere(hlo_dump), card and _anywhere(card)
    with progress("ingest") as say:
        results = ingest_paths(
            paths,
            warehouse,
            workers=workers,
            mesh=axes,
            name=run,
            device_kind=device_kind,
            hlo_dump=hlo_dump,
            card=card,
            clocks=_offsets(clock or []),
            all_in_one_group=group == "all",
            strict=strict,
            on_event=say,
            on_progress=lambda done, total: say(_of_runs(done, total), passing=True),
            each=each or partial(each_in_workers, on_event=say),
        )
    for result in results:
        print(result.run_id)


def _offsets(given: list[str]) -> dict[str, int]:
    """`host1=5000300000` -> how much later that clock is than its reference, ps."""
    found = {}
    for item in given:
        name, _, offset = item.rpartition("=")
        if not name or not re.fullmatch(r"-?[0-9]{1,18}", offset):
            raise typer.BadParameter(
                "write CLOCK=PS, such as host1=5000300000", param_hint="--clock"
            )
        found[name] = int(offset)
    return found


def _anywhere(path: str) -> str:
    """A path that means the same on executors, which work in folders of their own."""
    return path if "://" in path else abspath(path)


def _of_runs(done: int, total: int) -> str:
    return f"{done} of {total} run{'' if total == 1 else 's'}"
