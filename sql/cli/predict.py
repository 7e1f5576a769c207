"""The verb `predict`: a run replayed with one thing changed, what is worth changing, and forecasts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from xlahouse.capture.errors import WarehouseError
from xlahouse.sql.cli.options import WarehouseOption, complete_run, keep_index, open_warehouse

if TYPE_CHECKING:
    from collections.abc import Iterable

    import polars as pl

    from xlahouse.ingest.table import RunRow
    from xlahouse.sql.predict.changes import Change, Reconfigure
    from xlahouse.sql.predict.loading import Parent
    from xlahouse.sql.warehouse import Warehouse

FORMATS = ("table", "json")
POLICIES = ("never", "every", "fits", "prefetch")  # as ingest.replay.circuits has them


def predict(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Id, prefix or name.", autocompletion=complete_run),
    ],
    warehouse: WarehouseOption = "./warehouse",
    name: Annotated[str | None, typer.Option("--as", help="Name of the predicted run.")] = None,
    ici: Annotated[
        str | None,
        typer.Option(
            "--ici", help="ICI bandwidth: 2x, or the rate at which a member sends, such as 100GB/s."
        ),
    ] = None,
    dcn: Annotated[
        str | None, typer.Option("--dcn", help="The same for DCN, such as 25GB/s.")
    ] = None,
    latency: Annotated[
        str | None,
        typer.Option("--latency", help="Latency of a ring's step: 1us, or +1us on top of its own."),
    ] = None,
    host: Annotated[
        float,
        typer.Option("--host", min=0, help="Factor on the host's time; 0: the host takes none."),
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
    reconfigure: Annotated[
        list[str] | None,
        typer.Option(
            "--reconfigure",
            help="Optical circuits: time of a change, such as 10ms. Writes table reconfiguration_plan.",
        ),
    ] = None,
    circuits: Annotated[
        int | None,
        typer.Option(
            "--circuits", min=1, help="Ports of a device, each for one axis at a time; default: 1."
        ),
    ] = None,
    rails: Annotated[
        bool, typer.Option("--rails", help="Only transfers between hosts need circuits.")
    ] = False,
    policy: Annotated[
        str | None,
        typer.Option("--policy", help=f"Keep the run under one policy: {', '.join(POLICIES)}."),
    ] = None,
    clock: Annotated[
        str | None,
        typer.Option(
            "--clock",
            help="Clock of a compiled run's chips, such as 1.75GHz; default: the published one.",
        ),
    ] = None,
    advice: Annotated[
        bool, typer.Option("--advice", help="Rank what is worth changing; writes table advice.")
    ] = False,
    format: Annotated[
        str | None,
        typer.Option("--format", help=f"Of advice, plans and forecasts: {' or '.join(FORMATS)}."),
    ] = None,
) -> None:
    """Replay a measured run with a change, or forecast a compiled one.

    The replay is a run of its own, whose `source` is predicted: ops keep the measured run's order, and
    every wait its cause. A forecast is an interval, in the table forecast. Compare such times with a
    measured run before you spend money on them. Over optical circuits, transfers of two axes that are in
    flight at once on one port share the port, as they shared the links: circuits that
    change in no time give the measured times.

    \b
    Examples:
      xlahouse predict tp4 --advice
      xlahouse predict tp4 --ici 2x --as tp4-fast
      xlahouse predict 579c --no-skew --host 0 -w wh
      xlahouse predict tp2.pp2 --reconfigure 10us --reconfigure 10ms --circuits 1
      xlahouse predict tp2.pp2 --reconfigure 10ms --policy every --as switched
      xlahouse predict tp8.compiled --clock 1.75GHz
      xlahouse predict tp8.compiled --ici 2x --latency 1us
    """
    from xlahouse.sql.predict.loading import find_run, load_parent
    from xlahouse.sql.predict.plans import with_circuits

    _check_words(format, advice, reconfigure, policy, circuits, rails, name)
    change = _change(ici, dcn, latency, host, no_skew, perfect_overlap, chip)
    switched = _switched(reconfigure, circuits, rails, policy)
    with open_warehouse(warehouse) as opened:
        row = find_run(opened, run)
        if row["source"] == "compiled":
            if switched or advice or name is not None:
                raise WarehouseError(
                    f"{row['name']} was compiled and did not run, so there is nothing to replay: a forecast "
                    "takes --ici, --latency, --clock and --format; --advice, --as and circuits need a "
                    "measured run"
                )
            _print_forecast(opened, row, change, clock, format or "table")
            return
        if clock is not None:
            raise WarehouseError(f"{row['name']}: only a forecast of a compiled run takes --clock")
        parent = load_parent(opened, run)
        if advice:
            _print_advice(parent, format or "table")
        elif switched and policy is None:
            _print_plan(parent, change, switched, format or "table")
        elif format is not None:
            raise typer.BadParameter("a replay is a run, not rows", param_hint="--format")
        else:
            _predict(parent, with_circuits(change, switched[0]) if switched else change, name)
    keep_index(warehouse)


def _check_words(
    format: str | None,
    advice: bool,
    reconfigure: list[str] | None,
    policy: str | None,
    circuits: int | None,
    rails: bool,
    name: str | None,
) -> None:
    """Refuse options that mean nothing together.

    Raises:
        BadParameter: one of them is not among its values, or needs another.
    """
    plans = bool(reconfigure) and policy is None
    if format is not None and format not in FORMATS:
        raise typer.BadParameter(
            f"{format} is not one of {', '.join(FORMATS)}", param_hint="--format"
        )
    if policy is not None and policy not in POLICIES:
        raise typer.BadParameter(
            f"{policy} is not one of {', '.join(POLICIES)}", param_hint="--policy"
        )
    if not reconfigure and (policy is not None or circuits is not None or rails):
        raise typer.BadParameter(
            "circuits need the time of a change, such as --reconfigure 10ms",
            param_hint="--circuits, --rails, --policy",
        )
    if advice and reconfigure:
        raise typer.BadParameter("advice does not cover circuits", param_hint="--advice")
    if policy is not None and reconfigure and len(reconfigure) > 1:
        raise typer.BadParameter(
            "give one time of a change to keep its run", param_hint="--reconfigure"
        )
    if plans and name is not None:
        raise typer.BadParameter(
            "a plan is not a run; keep the run of one policy with --policy", param_hint="--as"
        )


def _switched(
    reconfigure: list[str] | None, circuits: int | None, rails: bool, policy: str | None
) -> list[Reconfigure]:
    """Circuits with each time of a change."""
    from xlahouse.sql.predict.changes import Reconfigure, parse_delay

    return [
        Reconfigure(parse_delay(each), circuits or 1, rails, policy or POLICIES[0])
        for each in reconfigure or ()
    ]


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
    from xlahouse.sql.predict.comparing import (
        error_lines,
        growth_lines,
        predicted_times,
        rests_on_lines,
    )
    from xlahouse.sql.predict.writing import predict_run

    found = predict_run(parent, change, name)
    root = parent.warehouse.root
    rows = predicted_times(root, parent.row["run_id"], found.run_id)
    draw(rows.columns, [list(row) for row in rows.rows()], sys.stdout)
    for line in (*growth_lines(rows), *rests_on_lines(found.rests_on)):
        print(line, file=sys.stderr)
    already = ", which the warehouse has already" if found.unchanged else ""
    print(f"{found.run_id}  {found.name}: predicted with {found.change}{already}", file=sys.stderr)
    for line in error_lines(root, found.run_id):
        print(line, file=sys.stderr)


def _print_advice(parent: Parent, format: str) -> None:
    from xlahouse.sql.predict.advice import advise
    from xlahouse.sql.predict.keeping import keep_rows

    found = advise(parent)
    keep_rows(parent.warehouse, parent.row, {"advice": found.rows})
    _print_rows(found.rows, found.rows.drop("steps"), format)


def _print_plan(parent: Parent, change: Change, switched: list[Reconfigure], format: str) -> None:
    from xlahouse.sql.predict.costs import Facts
    from xlahouse.sql.predict.plans import keep_plan, plan_circuits, shown_plan

    delays = [each.delay_ps for each in switched]
    first = switched[0]
    rows = plan_circuits(Facts(parent), change, delays, first.circuits, first.rails)
    keep_plan(parent, rows)
    _print_rows(rows, shown_plan(rows), format)


def _print_forecast(
    warehouse: Warehouse, row: RunRow, change: Change, clock: str | None, format: str
) -> None:
    from xlahouse.sql.predict.changes import Change as Changes
    from xlahouse.sql.predict.comparing import UNCONFIRMED, error_lines
    from xlahouse.sql.predict.forecast import (
        cost_lines,
        forecast_run,
        keep_forecast,
        shown_forecast,
    )

    found = forecast_run(warehouse, row, clock, change)
    keep_forecast(warehouse, row, found)
    # What was measured is the run as it is.
    same = change == Changes()
    confirmed = error_lines(warehouse.root, row["run_id"]) if same else [UNCONFIRMED]
    _print_rows(found.steps, shown_forecast(found.steps), format, confirmed)
    for line in cost_lines(found):
        print(line, file=sys.stderr)


def _print_rows(
    rows: pl.DataFrame, shown: pl.DataFrame, format: str, confirmed: Iterable[str] | None = None
) -> None:
    from xlahouse.sql.drawing import draw
    from xlahouse.sql.predict.comparing import UNCONFIRMED

    if format == "json":
        import msgspec

        print(msgspec.json.format(msgspec.json.encode(rows.to_dicts())).decode())
        return
    draw(shown.columns, [list(row) for row in shown.rows()], sys.stdout)
    for line in confirmed or [UNCONFIRMED]:
        print(line, file=sys.stderr)
