"""The verb `predict`: a run replayed with one thing changed, and what is worth changing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from xlahouse.sql.cli.options import WarehouseOption, complete_run, keep_index, open_warehouse

if TYPE_CHECKING:
    from xlahouse.sql.predict.changes import Change
    from xlahouse.sql.predict.loading import Parent

FORMATS = ("table", "json")


def predict(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Id, prefix or name.", autocompletion=complete_run),
    ],
    warehouse: WarehouseOption = "./warehouse",
    name: Annotated[str | None, typer.Option("--as", help="Name of the predicted run.")] = None,
    ici: Annotated[
        str | None,
        typer.Option("--ici", help="ICI bandwidth: 2x, or what a member sends, such as 100GB/s."),
    ] = None,
    dcn: Annotated[
        str | None, typer.Option("--dcn", help="The same of DCN, such as 25GB/s.")
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option("--latency", help="Latency of a ring's step: 1us, or +1us more than now."),
    ] = None,
    host: Annotated[
        float, typer.Option("--host", min=0, help="Time of the host, in times; 0: none.")
    ] = 1.0,
    no_skew: Annotated[
        bool, typer.Option("--no-skew", help="No device waits for another to arrive.")
    ] = False,
    perfect_overlap: Annotated[
        bool, typer.Option("--perfect-overlap", help="Transfers run beside the compute of a step.")
    ] = False,
    chip: Annotated[
        str | None, typer.Option("--chip", help="Peaks of another chip, such as v5p.")
    ] = None,
    advice: Annotated[
        bool, typer.Option("--advice", help="Rank what is worth changing; writes table advice.")
    ] = False,
    format: Annotated[
        str | None, typer.Option("--format", help=f"Of --advice: {' or '.join(FORMATS)}.")
    ] = None,
) -> None:
    """Replay a measured run with something changed.

    The replay is a run of its own, whose `source` is predicted: ops keep the measured run's order, and
    every wait its cause. No hardware has confirmed such times: compare them with a measured run before
    you spend money on them.

    \b
    Examples:
      xlahouse predict tp4 --advice
      xlahouse predict tp4 --ici 2x --as tp4-fast
      xlahouse predict 579c --no-skew --host 0 -w wh
    """
    from xlahouse.sql.predict.loading import load_parent

    if format is not None and (format not in FORMATS or not advice):
        raise typer.BadParameter(f"{' or '.join(FORMATS)}, of --advice", param_hint="--format")
    change = _change(ici, dcn, latency, host, no_skew, perfect_overlap, chip)
    with open_warehouse(warehouse) as opened:
        parent = load_parent(opened, run)
        if advice:
            _print_advice(parent, format or "table")
        else:
            _predict(parent, change, name)
    keep_index(warehouse)


def _change(
    ici: str | None,
    dcn: str | None,
    latency: str | None,
    host: float,
    no_skew: bool,
    perfect_overlap: bool,
    chip: str | None,
) -> Change:
    from xlahouse.sql.predict.changes import Change, parse_latency, parse_rate

    return Change(
        ici=None if ici is None else parse_rate(ici),
        dcn=None if dcn is None else parse_rate(dcn),
        latency=None if latency is None else parse_latency(latency),
        host=host,
        no_skew=no_skew,
        perfect_overlap=perfect_overlap,
        chip=chip,
    )


def _predict(parent: Parent, change: Change, name: str | None) -> None:
    from xlahouse.sql.drawing import draw
    from xlahouse.sql.predict.comparing import phase_times, rests_on_lines
    from xlahouse.sql.predict.writing import predict_run

    found = predict_run(parent, change, name)
    rows = phase_times(parent, found.costs)
    draw(rows.columns, [list(row) for row in rows.rows()], sys.stdout)
    for line in rests_on_lines(found.rests_on):
        print(line, file=sys.stderr)
    already = ", which the warehouse has already" if found.unchanged else ""
    print(f"{found.run_id}  {found.name}: predicted with {found.change}{already}", file=sys.stderr)
    print("no hardware has validated these times", file=sys.stderr)


def _print_advice(parent: Parent, format: str) -> None:
    from xlahouse.sql.drawing import draw
    from xlahouse.sql.predict.advice import advise, keep_advice

    found = advise(parent)
    keep_advice(parent, found)
    if format == "json":
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(found.rows.to_dicts())).decode())
        return
    shown = found.rows.drop("steps")
    draw(shown.columns, [list(row) for row in shown.rows()], sys.stdout)
    print("no hardware has validated the replayed times", file=sys.stderr)
