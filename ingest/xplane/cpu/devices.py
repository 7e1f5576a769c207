"""Finds the devices of a CPU run's events: as they state them, or from the program.

Where events do not state their device, an execution's places count from 0, whatever devices its program
runs on (ingest/xplane/cpu/chain.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import polars as pl

from xlahouse.ingest.hlo.program import Program
from xlahouse.ingest.xplane.cpu.chain import SLOT
from xlahouse.ingest.xplane.cpu.events import ON_DEVICE


@dataclass(frozen=True)
class Numbered:
    """Acts with their devices."""

    acts: pl.DataFrame  # with `device_id`, NULL where unknown
    split: int = 0  # places in executions whose events name several devices
    # devices numbered by their place alone, though their program runs on more devices than there are here
    assumed: int = 0
    stated: bool = False  # every op states its device and its execution


def stated_runs(acts: pl.DataFrame) -> pl.DataFrame | None:
    """Acts with the execution and the device that they state; None unless every op states both.

    `run_id` counts the executions of a process, and JAX writes it beside `device_ordinal` on every op since
    0.9. Nothing is then deduced from names of events or from the order of closures.

    Args:
        acts: of a plane (ingest/xplane/cpu/events.py).

    Returns:
        Acts with chain.Placement's columns and `device_id`.
    """
    ops = acts.drop_nulls("op")
    if ops["run_id"].has_nulls() or ops["device_ordinal"].has_nulls():
        return None
    runs = (
        acts.drop_nulls("run_id")
        .group_by("run_id")
        .agg(pl.col("start_ps").min().alias("enqueue_ps"), pl.col("event").min().alias("execution"))
    )
    ran = pl.col("op").is_not_null()
    placed = acts.join(runs, on="run_id", how="left", maintain_order="left").join(
        _global_devices(acts), on="device_ordinal", how="left", maintain_order="left"
    )
    return placed.with_columns(
        ordinal=pl.when(ran).then("device_ordinal"),
        device_id=pl.coalesce("stated_id", "device_ordinal"),
    ).drop("stated_id")


def _global_devices(acts: pl.DataFrame) -> pl.DataFrame:
    """device_ordinal, stated_id: the number that groups give to each local device of a process.

    It is that of the executions on this device: their names begin with the local number.
    """
    local = pl.col("name").str.extract(ON_DEVICE).cast(pl.Int64, strict=False)
    return (
        acts.drop_nulls("global_device_id")
        .select("global_device_id", device_ordinal=pl.coalesce("device_ordinal", local))
        .drop_nulls()
        .group_by("device_ordinal")
        .agg(
            stated_id=pl.col("global_device_id").min(),
            several=pl.col("global_device_id").n_unique() > 1,
        )
        .filter(~pl.col("several"))
        .drop("several")
    )


def assignments(programs: Mapping[int, Program]) -> pl.DataFrame:
    """Where programs run: program_id, ordinal (a place), assigned (its device), of (number of places)."""
    return pl.DataFrame(
        [(number, *placed) for number, each in programs.items() for placed in _assigned(each)],
        schema={"program_id": pl.UInt64, "ordinal": pl.Int64, "assigned": pl.Int64, "of": pl.Int64},
        orient="row",
    )


def are_places(assigned: pl.DataFrame) -> bool:
    """Whether every program numbers its devices by their place."""
    return bool((assigned["ordinal"] == assigned["assigned"]).all())


def number_devices(acts: pl.DataFrame, assigned: pl.DataFrame) -> Numbered:
    """The devices of acts.

    An event's own device_ordinal wins; then that of other events at its place in the execution, the
    program's device assignment, and the place itself.

    Args:
        acts: as chain.Placement has them.
        assigned: as assignments gives them.
    """
    silent = acts["device_ordinal"].null_count() == acts.height
    here = acts.select((pl.col("ordinal").max() + 1).fill_null(0)).item()
    usual = are_places(assigned) and (assigned["of"] <= here).all()
    if silent and usual:
        return Numbered(acts.with_columns(device_id="ordinal"))
    told = pl.col("device_ordinal")
    places = (
        acts.drop_nulls(SLOT)
        .group_by(SLOT)
        .agg(pl.col("program_id").drop_nulls().first(), least=told.min(), most=told.max())
        .with_columns(count=pl.col("ordinal").max().over("program_id") + 1)
        .join(assigned, on=["program_id", "ordinal"], how="left")
    )
    is_one, all_here = pl.col("least") == pl.col("most"), pl.col("of") == pl.col("count")
    assumed = places.filter(pl.col("of") > pl.col("count"), pl.col("least").is_null())
    found = places.select(
        *SLOT,
        device_id=pl.coalesce(
            pl.when(is_one).then("least"), pl.when(all_here).then("assigned"), "ordinal"
        ),
    )
    numbered = acts.join(found, on=SLOT, how="left", maintain_order="left")
    numbered = numbered.with_columns(device_id=pl.coalesce("device_ordinal", "device_id"))
    return Numbered(numbered, places.filter(~is_one).height, assumed["ordinal"].n_unique())


def _assigned(program: Program) -> Iterator[tuple[int, int, int]]:
    """(place, device, number of places) of a program: partition after partition of each replica."""
    rows = program.assignment.devices if program.assignment is not None else ()
    order = [device for replica in zip(*rows, strict=False) for device in replica]
    if min(order, default=-1) < 0 or len(set(order)) < len(order):
        return iter(())  # damaged, which is reported where groups use it
    return ((place, device, len(order)) for place, device in enumerate(order))
