"""The verbs that set a run's mesh, peaks, kind of device or limits."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from xlahouse.sql.cli.options import WarehouseOption, complete_run, open_warehouse

RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help="Id, prefix or name.", autocompletion=complete_run)
]
set_app = typer.Typer(
    help="Set a run's mesh, peaks, device kind or limits.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
OWN_HELP = "own: remove the setting"


@set_app.command("mesh")
def set_mesh_of(
    run: RunArgument,
    value: Annotated[
        str, typer.Argument(metavar="MESH", help=f"Major to minor: dp=2,tp=4. {OWN_HELP}.")
    ],
    warehouse: WarehouseOption = "./warehouse",
    force: Annotated[
        bool, typer.Option("--force", help="Accept names of axes that no plan knows.")
    ] = False,
) -> None:
    """Set the mesh that gives each collective its axis.

    It prints what changed. Axes have the names that plans know: dp, ep, fsdp, pp, sp, tp.

    \b
    Examples:
      xlahouse set mesh baseline dp=2,tp=4
      xlahouse set mesh 579c tp=8 -w wh
      xlahouse set mesh baseline own
    """
    from xlahouse.sql.settings import mesh_effect, set_mesh

    with open_warehouse(warehouse) as opened:
        before = mesh_effect(opened, opened.resolve_run(run))
        run_id, _ = set_mesh(opened, run, value, force)
    with open_warehouse(warehouse) as opened:  # again: an open one keeps the settings that it read
        after = mesh_effect(opened, run_id)
    print(
        f"{run_id}: mesh {after[0] or 'not known'}, was {before[0] or 'not known'}", file=sys.stderr
    )
    same = before[1] == after[1]
    now = "as before" if same else f"were {_by_axis(before[1])}"
    print(f"collectives by axis: {_by_axis(after[1])}; {now}", file=sys.stderr)


def _by_axis(counts: dict[str, int]) -> str:
    return ", ".join(f"{axis} {count:,}" for axis, count in counts.items()) or "none"


@set_app.command("peaks")
def set_peaks_of(
    run: RunArgument,
    value: Annotated[
        str,
        typer.Argument(
            metavar="PEAKS",
            help="Of a chip: bf16_flops=…,hbm_bytes_per_s=…; of a link, one way: "
            f"ici_bytes_per_s=…; of a link that jobs share (traffic_compatibility): "
            f"shared_link_bytes_per_s=…; peaks that you leave out keep their known values. {OWN_HELP}.",
        ),
    ],
    warehouse: WarehouseOption = "./warehouse",
) -> None:
    """Set the peaks for utilization, MFU and rooflines.

    \b
    Examples:
      xlahouse set peaks baseline bf16_flops=9.18e14,hbm_bytes_per_s=1.6e12
      xlahouse set peaks 579c ici_bytes_per_s=4.5e10 -w wh
      xlahouse set peaks baseline shared_link_bytes_per_s=2.5e10
      xlahouse set peaks baseline own
    """
    from xlahouse.sql.settings import set_peaks

    with open_warehouse(warehouse) as opened:
        run_id, peaks = set_peaks(opened, run, value)
    text = ",".join(f"{name}={number:g}" for name, number in peaks.given()) if peaks else "as known"
    print(f"{run_id}: peaks {text}", file=sys.stderr)


@set_app.command("device-kind")
def set_device_kind_of(
    run: RunArgument,
    value: Annotated[str, typer.Argument(metavar="KIND", help=f"Such as 'TPU v6e'. {OWN_HELP}.")],
    warehouse: WarehouseOption = "./warehouse",
) -> None:
    """Set the kind of device, which selects the shipped peaks.

    \b
    Examples:
      xlahouse set device-kind baseline 'TPU v6e'
      xlahouse set device-kind 579c v5p -w wh
      xlahouse set device-kind baseline own
    """
    from xlahouse.sql.settings import set_device_kind

    with open_warehouse(warehouse) as opened:
        run_id, kind = set_device_kind(opened, run, value)
    print(f"{run_id}: device kind {kind or 'as traced'}", file=sys.stderr)


@set_app.command("limits")
def set_limits_of(
    run: RunArgument,
    value: Annotated[
        str,
        typer.Argument(
            metavar="LIMITS",
            help="In seconds, one or both: ttft=…, time to first token, with the queue where that is "
            "known; tpot=…, time per output token. "
            f"{OWN_HELP}.",
        ),
    ],
    warehouse: WarehouseOption = "./warehouse",
) -> None:
    """Set the TTFT and TPOT within which a request is good.

    serving_summary counts the requests of a server within them (goodput).

    \b
    Examples:
      xlahouse set limits server ttft=0.5,tpot=0.05
      xlahouse set limits 579c tpot=0.03 -w wh
      xlahouse set limits server own
    """
    from xlahouse.sql.settings import set_limits

    with open_warehouse(warehouse) as opened:
        run_id, limits = set_limits(opened, run, value)
    text = ",".join(f"{name}={number:g}" for name, number in limits.given()) if limits else "none"
    print(f"{run_id}: limits {text}", file=sys.stderr)
