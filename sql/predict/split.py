"""Where the time of a predicted run's steps goes, beside that of the measured run."""

from __future__ import annotations

import polars as pl

from xlahouse.ingest.schema import BY_NAME
from xlahouse.sql.warehouse import Warehouse

TABLE = "predicted_split"
# Parts of a period: shares of the window, and the time before it.
_PARTS = {
    "compute": "compute_ps",
    "exposed communication": "exposed_ps",
    "exposed copy": "exposed_copy_ps",
    "sync wait": "sync_wait_ps",
    "idle": "idle_ps",
    "before the step": "period_ps - window_ps",
}
CIRCUIT_WAIT = "circuit wait"  # only of a run over circuits: of exposed communication and sync wait
_MEANS = ", ".join(f'avg({column}) as "{part}"' for part, column in _PARTS.items())
_SQL = f"""
    select phase, count(*) as steps, {_MEANS}
    from device_time_v1
    where run_id = $run and core is distinct from 'sparsecore'
    group by phase
"""
# Means over all steps of devices: most of them wait for no circuits.
_WAITS = """
    select phase, cast(sum(exposed_ps) as double) as exposed, cast(sum(sync_wait_ps) as double) as sync
    from circuit_waits where run_id = $run group by phase
"""


def split_of(root: str, parent: str, run: str, over_circuits: bool) -> pl.DataFrame:
    """Rows of the table predicted_split, without run_id.

    Args:
        root: of the warehouse, which holds both runs.
        parent: id of the measured run.
        run: id of the predicted one.
        over_circuits: whether its transfers wait for circuits.
    """
    with Warehouse(root) as warehouse:
        means = [warehouse.query(_SQL, {"run": each}).pl() for each in (parent, run)]
        if over_circuits:
            waits = warehouse.query(_WAITS, {"run": run}).pl()
            means = [_apart(means[0], waits.clear()), _apart(means[1], waits)]
    parts = [*_PARTS, *([CIRCUIT_WAIT] if over_circuits else [])]
    measured, predicted = (
        each.unpivot(parts, index=["phase", "steps"], variable_name="part", value_name="mean_ps")
        for each in means
    )
    both = measured.rename({"mean_ps": "measured_ps"}).join(
        predicted.select("phase", "part", predicted_ps="mean_ps"),
        on=["phase", "part"],
        how="left",
        nulls_equal=True,
    )
    times = (
        pl.col(name).cast(pl.Float64).round().cast(pl.Int64)
        for name in ("measured_ps", "predicted_ps")
    )
    columns = [name for name in BY_NAME[TABLE].schema.names if name != "run_id"]
    return both.with_columns(*times, pl.col("steps").cast(pl.Int64)).select(columns)


def _apart(means: pl.DataFrame, waits: pl.DataFrame) -> pl.DataFrame:
    """The means with the waits for circuits in a column of their own."""
    of_step = (pl.col(name).fill_null(0) / pl.col("steps") for name in ("exposed", "sync"))
    both = means.join(waits, on="phase", how="left", nulls_equal=True).with_columns(*of_step)
    return both.with_columns(
        pl.col("exposed communication") - pl.col("exposed"),
        pl.col("sync wait") - pl.col("sync"),
        (pl.col("exposed") + pl.col("sync")).alias(CIRCUIT_WAIT),
    ).drop("exposed", "sync")
