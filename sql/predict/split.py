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
_MEANS = ", ".join(f'avg({column}) as "{part}"' for part, column in _PARTS.items())
_SQL = f"""
    select phase, count(*) as steps, {_MEANS}
    from device_time_v1
    where run_id = $run and core is distinct from 'sparsecore'
    group by phase
"""


def split_of(root: str, parent: str, run: str) -> pl.DataFrame:
    """Rows of the table predicted_split, without run_id.

    Args:
        root: of the warehouse, which holds both runs.
        parent: id of the measured run.
        run: id of the predicted one.
    """
    with Warehouse(root) as warehouse:
        measured, predicted = (
            warehouse.query(_SQL, {"run": each})
            .pl()
            .unpivot(
                list(_PARTS), index=["phase", "steps"], variable_name="part", value_name="mean_ps"
            )
            for each in (parent, run)
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
