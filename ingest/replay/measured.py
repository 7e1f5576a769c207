"""The tables of a measured run that a replay needs, and what makes a run impossible to replay."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.events.tpu_lines import ASYNC_OPS_LINE, STEPS_LINE

# Columns of each table that a replay reads.
NEEDED = {
    table: tuple(columns.split())
    for table, columns in {
        "devices": "device_id host core chip_id",
        "clocks": "clock state",
        "ops": "device_id launch program_id op category line is_async start_ps duration_ps",
        "collectives": "device_id program_id op kind instance start_ps duration_ps is_async wait_ps "
        "arrival_ps request step",
        "launches": "device_id launch start_ps duration_ps enqueue_ps enqueue_thread request step",
        "device_steps": "device_id request step phase start_ps duration_ps",
        "phases": "host start_ps duration_ps source",
        "instructions": "program_id op operands",
        "permute_pairs": "program_id op source_device_id target_device_id",
    }.items()
}

ON_CORE = "on_core"  # added to ops: whether they occupy their line, and do not only show what is in flight


@dataclass(frozen=True)
class Measured:
    """A run's tables, with the columns of NEEDED at least."""

    name: str  # of the run
    devices: pl.DataFrame  # one row per device
    clocks: pl.DataFrame  # one row per clock of the trace
    ops: pl.DataFrame  # one row per execution of an instruction
    collectives: pl.DataFrame  # one row per transfer of a device
    launches: pl.DataFrame  # one row per execution of a program
    device_steps: pl.DataFrame  # one row per step of a device
    phases: pl.DataFrame  # one row per marker of a step
    permute_pairs: pl.DataFrame  # one row per source and target of a permute
    instructions: pl.DataFrame  # one row per instruction of a program

    def check(self) -> None:
        """Refuse a run that does not say who waited for whom.

        Raises:
            WarehouseError: its steps, the groups of its collectives, or its clocks are not known.
        """
        if self.device_steps["step"].null_count() == self.device_steps.height:
            raise WarehouseError(f"{self.name}: it has no steps, so there is nothing to replay")
        groupless = self.collectives.filter(pl.col("instance").is_null())
        if groupless.height:
            names = ", ".join(groupless["op"].unique().sort().head(3).to_list())
            raise WarehouseError(
                f"{self.name}: the groups of {groupless.height} of {self.collectives.height} collectives "
                f"are not known ({names}), so who waits for whom is not either; ingest it with the HLO "
                "(`--hlo-dump`)"
            )
        apart = self.collectives.filter(pl.col("arrival_ps").is_null())
        if apart.height:
            states = self.clocks.filter(pl.col("state").is_in(["ambiguous", "unconnected"]))
            names = ", ".join(states["clock"].drop_nulls().unique().sort().head(3).to_list())
            raise WarehouseError(
                f"{self.name}: {apart.height} collectives are between clocks whose offset is not known "
                f"({names}); state it with `xlahouse ingest --clock CLOCK=PS`"
            )

    def with_places(self) -> pl.DataFrame:
        """The ops with ON_CORE and `chain`, the line that orders them: text, NULL off the core.

        A TensorCore runs its lines in one order; GPUs and CPUs each of theirs.
        """
        cores = dict(self.devices.select("device_id", "core").iter_rows())
        core = pl.col("device_id").replace_strict(cores, default=None, return_dtype=pl.String)
        ops = self.ops.with_columns(core=core)
        shows = (pl.col("line") == ASYNC_OPS_LINE) | (pl.col("line") == STEPS_LINE)
        offloaded = (pl.col("core") == "sparsecore") & pl.col("is_async")
        on_core = ~(shows | offloaded).fill_null(False)
        own = pl.when(pl.col("core") == "tensorcore").then(pl.lit("")).otherwise("line")
        return ops.with_columns(
            on_core.alias(ON_CORE),
            pl.when(on_core).then(own.fill_null("").cast(pl.Categorical)).alias("chain"),
        )
