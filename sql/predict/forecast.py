"""Forecasts steps of a compiled run, which never ran: an interval, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.replay.programs import Parts
from xlahouse.ingest.schema import BY_NAME
from xlahouse.sql.predict.changes import Change, describe
from xlahouse.sql.predict.chips import chips_of
from xlahouse.sql.predict.clocks import ChipClock, clock_of
from xlahouse.sql.predict.costs import Chip, peaks_of
from xlahouse.sql.predict.fits import PS, fit_transfers
from xlahouse.sql.predict.keeping import keep_rows
from xlahouse.sql.predict.program_costs import CostedProgram, Ground, Range, read_program

if TYPE_CHECKING:
    from xlahouse.ingest.table import RunRow
    from xlahouse.sql.warehouse import Warehouse

_ORIGINS = {
    "cycles": "the compiler's cycles",
    "peaks": "the peaks of math and HBM, one after the other",
    "fitted": "latency and bandwidth of transfers measured here",
    "fitted_to_other_groups": "latency and bandwidth of transfers measured here in other groups",
    "one link": "the peak of one link, without latency but what the user states",
    "stated": "the bandwidth that the user states",
}
METRICS = {"prefill": "ttft", "decode": "tpot"}


@dataclass(frozen=True)
class Forecast:
    """Rows of the tables forecast and forecast_costs, without run_id."""

    steps: pl.DataFrame  # rows of forecast
    costs: pl.DataFrame  # rows of forecast_costs


def forecast_run(
    warehouse: Warehouse, row: RunRow, clock: str | None, change: Change | None = None
) -> Forecast:
    """Forecast the steps of a compiled run.

    Args:
        warehouse: that holds it.
        row: of runs.
        clock: of its chips, such as 1.75GHz; None: from the table.
        change: of its links; None: nothing.

    Raises:
        WarehouseError: a fact is missing: peaks, the clock, a schedule, the work of an instruction; or a
            forecast does not know what is changed.
    """
    change = change or Change()
    given = {"run": row["run_id"]}
    peaks = peaks_of(warehouse, row["run_id"])
    if peaks is None:
        raise WarehouseError(
            f"{row['name']}: the peaks of its devices are not known; set them with `xlahouse set peaks` "
            "or `xlahouse set device-kind`"
        )
    chip = chips_of(warehouse).get(row["run_id"])
    _check(row, change, chip)
    times = change.ici.times if change.ici is not None else None
    linked = peaks._replace(ici_bytes_per_s=peaks.ici_bytes_per_s * (times or 1))
    ticks = clock_of(chip, clock, row["name"], row["device_kind"])
    ground = Ground(row["name"], peaks, ticks, fit_transfers(warehouse, chip), change)
    programs = warehouse.query(
        "select phase, program_id from programs where run_id = $run and phase is not null order by phase",
        given,
    ).rows
    if not programs:
        raise WarehouseError(f"{row['name']}: no program of a prefill or a decode step is known")
    steps, costs = [], []
    for phase, program_id in programs:
        program = read_program(warehouse, row["run_id"], program_id, ground)
        steps.append(_step(str(phase), program, linked, ticks))
        costs += _costs(str(phase), program)
    said = None if change == Change() else describe(change)
    return Forecast(_table("forecast", steps, said), _table("forecast_costs", costs, said))


def keep_forecast(warehouse: Warehouse, row: RunRow, found: Forecast) -> None:
    """Write a forecast, in place of the run's earlier one with the same change; other changes' stay.

    Raises:
        WarehouseError: the run is gone, or was ingested with a newer version.
    """
    tables = {}
    for name, rows in (("forecast", found.steps), ("forecast_costs", found.costs)):
        change = rows["change"][0] if rows.height else None
        others = warehouse.query(
            f"select {', '.join(rows.columns)} from {name} "
            "where run_id = $run and change is distinct from $change order by all",
            {"run": row["run_id"], "change": change},
        ).pl()
        tables[name] = pl.concat([rows, others], how="vertical_relaxed")
    keep_rows(warehouse, row, tables)


def _check(row: RunRow, change: Change, chip: str | None) -> None:
    """Refuse changes that a forecast cannot take, each with the reason and what to do."""
    name = row["name"]
    whys = {
        "--chip": change.chip is not None
        and f"its program was compiled for {chip}, and another chip's program is another one; compile it for "
        f"that chip (`xlahouse compile PLAN.yaml --slice {change.chip}-N -w DIR`) and predict that run",
        "--dcn": change.dcn is not None
        and "its program is of one slice, whose transfers are all over ICI; --ici changes these",
        "--host": change.host != 1
        and "no host is in a forecast; replay a measured run to see what the host costs",
        "--no-skew": change.no_skew
        and "no skew is in a forecast, whose devices are alike; replay a measured run",
        "--perfect-overlap": change.perfect_overlap
        and "its better end has all overlap that the schedule allows; replay a measured run",
    }
    for option, why in whys.items():
        if why:
            raise WarehouseError(f"{name}: a forecast takes no {option}: {why}")


def _table(name: str, rows: list[dict[str, object]], change: str | None) -> pl.DataFrame:
    columns = {
        each.name: pl.String if each.name == "change" else None
        for each in BY_NAME[name].columns
        if each.name != "run_id"
    }
    told = [row | {"change": change} for row in rows]
    return pl.DataFrame(told, schema=columns, infer_schema_length=None)


def _step(phase: str, program: CostedProgram, peaks: Chip, clock: ChipClock) -> dict[str, object]:
    """The row of a program. At best it takes as long as all its matrix products, or all its bytes, need."""
    timeline = program.timeline
    least = timeline.duration(program.entry, program.costs(most=False), at_most=False)
    most = timeline.duration(program.entry, program.costs(most=True), at_most=True)
    floor = PS * max(program.flops / peaks.flops_per_s, program.hbm_bytes / peaks.hbm_bytes_per_s)
    return {
        "phase": phase,
        "metric": METRICS.get(phase, "step"),
        "optimistic_ps": round(max(least.total_ps, floor)),
        "pessimistic_ps": round(max(most.total_ps, floor)),
        **_parts("optimistic", least),
        **_parts("pessimistic", most),
        "hbm_floor_ps": round(PS * program.hbm_bytes / peaks.hbm_bytes_per_s),
        "math_floor_ps": round(PS * program.flops / peaks.flops_per_s),
        "flops_per_s": peaks.flops_per_s,
        "hbm_bytes_per_s": peaks.hbm_bytes_per_s,
        "ici_bytes_per_s": peaks.ici_bytes_per_s,
        "clock_hz": clock.hz,
        "clock_source": clock.source,
    }


def _parts(side: str, parts: Parts) -> dict[str, object]:
    return {
        f"{side}_compute_ps": round(parts.compute_ps),
        f"{side}_exposed_ps": round(parts.transfer_ps),
        f"{side}_copy_ps": round(parts.copy_ps),
    }


def _costs(phase: str, program: CostedProgram) -> list[dict[str, object]]:
    """The rows of a program's costs, by part and origin."""
    found: dict[tuple[str, str], list[Range]] = {}
    for each in program.ranges.values():
        found.setdefault((each.part, each.origin), []).append(each)
    return [
        {
            "phase": phase,
            "part": part,
            "origin": origin,
            "instructions": len(ranges),
            "executions": sum(each.executions or 0 for each in ranges),
            "optimistic_ps": round(sum(_total(each, most=False) for each in ranges)),
            "pessimistic_ps": round(sum(_total(each, most=True) for each in ranges)),
        }
        for (part, origin), ranges in sorted(found.items())
    ]


def _total(given: Range, most: bool) -> float:
    cost = given.most if most else given.least
    return (cost.line_ps + (cost.flight_ps or 0)) * (given.executions or 0)


def shown_forecast(steps: pl.DataFrame) -> pl.DataFrame:
    """A forecast's columns for people, in ms."""
    names = ("optimistic", "pessimistic")
    return steps.select(
        "phase",
        "metric",
        *(
            (pl.col(f"{side}{part}_ps") / 1e9).alias(f"{side}{part}_ms")
            for part in ("", "_compute", "_exposed")
            for side in names
        ),
    )


def cost_lines(found: Forecast) -> Iterator[str]:
    """What a forecast rests on, a line each."""
    for row in found.steps.head(1).iter_rows(named=True):
        yield f"clock {row['clock_hz'] / 1e9:.4g} GHz: {row['clock_source']}"
        yield (
            f"peaks of a device: {row['flops_per_s'] / 1e12:.4g} TFLOP/s, HBM "
            f"{row['hbm_bytes_per_s'] / 1e9:.4g} GB/s, a link {row['ici_bytes_per_s'] / 1e9:.4g} GB/s"
        )
    for row in found.costs.iter_rows(named=True):
        yield (
            f"{row['phase']} {row['part']}: {row['instructions']} instructions, "
            f"{row['optimistic_ps'] / 1e9:.4g} to {row['pessimistic_ps'] / 1e9:.4g} ms before overlap, "
            f"at worst by {_ORIGINS[row['origin']]}"
        )
