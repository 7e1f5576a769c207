"""Tables of what a world's compilers decided, and of what one execution of a program transfers."""

from __future__ import annotations

import polars as pl

from xlahouse.ingest.compiled.decisions import Decisions
from xlahouse.ingest.hlo.program_facts import ProgramFacts
from xlahouse.ingest.tables.rows import typed

_OP = ["program_id", "op"]
_TAKEN = ("module", "kind", "dtype", "payload_bytes", "layer", "component")


def compiled_tables(
    world: int, instructions: pl.DataFrame, compiled: Decisions
) -> dict[str, pl.DataFrame]:
    """The instructions with what the compiler decided of each, the buffers, the programs.

    Args:
        world: its number.
        instructions: rows of the table instructions.
        compiled: what its compilers decided.
    """
    found = compiled.instructions
    named = instructions.drop([name for name in found.columns if name not in _OP], strict=False)
    number = pl.lit(world, pl.Int64).alias("world")
    return {
        "instructions": named.join(found, on=_OP, how="left", maintain_order="left"),
        "buffers": typed("buffers", compiled.buffers).with_columns(number),
        "programs": typed("programs", compiled.programs).with_columns(number),
    }


def program_collectives(
    facts: ProgramFacts, executed: pl.DataFrame, groups: pl.DataFrame, devices: pl.DataFrame
) -> pl.DataFrame:
    """What one execution of each program transfers on each device: program_collectives without the columns
    of the run, the world and the step.

    Args:
        facts: of the world's programs.
        executed: decisions.EXECUTED.
        groups: rows of replica_groups, with device_id.
        devices: rows of devices.
    """
    begins = pl.col("role").is_in(["sync", "start"]) & pl.col("transfer_op").is_not_null()
    transfers = (
        facts.ops.filter(pl.col("category") == "collective", begins)
        .join(executed, on=_OP, how="inner")
        .select(*_OP, *_TAKEN, "executions", is_async=pl.col("role") == "start")
    )
    cores = devices.filter(pl.col("logical_id").is_not_null()).select("device_id")
    size = pl.len().over(*_OP, "group_index").cast(pl.Int64)
    members = groups.with_columns(group_size=size).unique([*_OP, "device_id"], keep="first")
    placed = transfers.join(cores, how="cross").join(
        members.select(*_OP, "device_id", "group_index", "group_size"),
        on=[*_OP, "device_id"],
        how="left",
    )
    pairs = facts.pairs
    sends = pairs.filter(pl.col("source_device_id") != pl.col("target_device_id"))
    senders = sends.select(*_OP, device_id="source_device_id", sends=True).unique()
    paired = pairs.select(*_OP, paired=True).unique()
    known = placed.join(senders, on=[*_OP, "device_id"], how="left").join(
        paired, on=_OP, how="left"
    )
    silent = pl.col("paired").is_not_null() & pl.col("sends").is_null()
    payload = pl.when(silent).then(pl.lit(0, pl.Int64)).otherwise("payload_bytes")
    return known.with_columns(payload_bytes=payload).drop("paired", "sends")
