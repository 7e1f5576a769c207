"""Turns a change into costs of a replay: what each transfer saves, and how each op scales."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.replay.circuits import Circuits
from xlahouse.ingest.replay.moved import masked_ops
from xlahouse.ingest.replay.schedule import Costs
from xlahouse.sql.predict.changes import Change, Rate, Reconfigure
from xlahouse.sql.predict.chips import chips_of
from xlahouse.sql.predict.fits import TRANSFERS, Fits, fit_transfers
from xlahouse.sql.predict.loading import Parent
from xlahouse.sql.predict.savings import savings_of

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse

# One row a transfer of all its members that moves bytes between devices.
SENT = """
    select
        c.instance, min(c.axis) as axis, count(distinct d.host) > 1 as over_hosts,
        case when count(c.wire_bytes) = count(*) then sum(c.wire_bytes) end as wire_bytes
    from _collective_wire_v1 c
    join _run_key_v1 k on k.run_key = c.run_key
    join devices d on d.run_id = k.run_id and d.device_id = c.device_id
    where k.run_id = $run and c.instance is not null
        and c.group_size is distinct from 1 and c.axis <> 'none'
        and (c.group_index is not null or c.payload_bytes is distinct from 0)
    group by c.instance order by c.instance
"""
_PEAKS = ("flops_per_s", "hbm_bytes_per_s", "ici_bytes_per_s")


class Chip(NamedTuple):
    """Peaks of a device and of its links."""

    flops_per_s: float  # bf16
    hbm_bytes_per_s: float  # of one device
    ici_bytes_per_s: float  # of one link, one way


@dataclass(frozen=True)
class Facts:
    """What the warehouse knows about the costs of a run."""

    parent: Parent  # the run

    def _rows(self, sql: str) -> pl.DataFrame:
        found = self.parent.warehouse.query(sql, {"run": self.parent.row["run_id"]})
        return found.pl()

    @cached_property
    def transfers(self) -> pl.DataFrame:
        """One row a transfer of the run."""
        return self._rows(f"{TRANSFERS} where b.run_id = $run")

    @cached_property
    def sent(self) -> pl.DataFrame:
        """instance, axis, wire_bytes, over_hosts: the run's transfers between devices."""
        return self._rows(SENT)

    @cached_property
    def fits(self) -> Fits:
        """Lines of the transfers of the run's kind of chip."""
        return fit_transfers(self.parent.warehouse, self.chip_name)

    @cached_property
    def chip_name(self) -> str | None:
        """What chips the run's devices are, as chips_of has it."""
        return chips_of(self.parent.warehouse).get(self.parent.row["run_id"])

    @cached_property
    def rooflines(self) -> pl.DataFrame:
        """The run's compute ops with what bounds them; one row a program and op."""
        return self._rows(
            "select program_id, op, bound_by, is_lower_bound, math_ps, hbm_ps, predicted_ps, "
            "observed_ps from roofline_v2 where run_id = $run and category = 'compute'"
        )

    @cached_property
    def chip(self) -> Chip | None:
        """Peaks of the run's devices; None where one is not known."""
        return peaks_of(self.parent.warehouse, self.parent.row["run_id"])

    def other_chip(self, name: str) -> Chip:
        """Peaks of a device of another kind.

        Raises:
            WarehouseError: the shipped table has no such kind.
        """
        rows = self.parent.warehouse.query(
            "select distinct kind_name, generation, devices_per_chip, flops_per_s, hbm_bytes_per_s, "
            "ici_bytes_per_s from _chip_peaks_v1 order by all"
        ).dicts()
        wanted = name.lower().replace(" ", "")
        for row in rows:
            if wanted in (row["kind_name"], row["generation"]):
                share = row["devices_per_chip"]
                flops, hbm, ici = (float(row[peak]) for peak in _PEAKS)
                return Chip(flops / share, hbm / share, ici)
        known = ", ".join(sorted({row["generation"] for row in rows}))
        raise WarehouseError(f"no chip {name!r} in the table of peaks; it has {known}")


def peaks_of(warehouse: Warehouse, run_id: str) -> Chip | None:
    """Peaks of a run's devices; None where one is not known."""
    rows = warehouse.query(
        "select max(peak_flops_per_s), max(peak_hbm_bytes_per_s), max(peak_ici_bytes_per_s) "
        "from hardware_peaks_v1 where run_id = $run",
        {"run": run_id},
    ).rows[0]
    return None if None in rows else Chip(*rows)


def costs_of(facts: Facts, change: Change) -> tuple[Costs, pl.DataFrame]:
    """(costs of a replay, rows of transfer_costs without run_id).

    Raises:
        WarehouseError: what the change needs is not known of this run.
    """
    scale = _op_scale(facts, change)
    ici = change.ici
    if ici is None and change.chip is not None:
        ici = Rate(times=_other(facts, change.chip).ici_bytes_per_s / _own(facts).ici_bytes_per_s)
    fits = facts.fits if ici or change.dcn or change.latency else Fits({})
    rates = {"ici": ici, "dcn": change.dcn}
    try:
        savings, rests_on = savings_of(
            facts.transfers, fits, rates, change.latency, change.no_exposed
        )
    except WarehouseError as error:
        raise WarehouseError(f"{facts.parent.row['name']}: {error}") from None
    costs = Costs(
        savings,
        scale,
        host_ratio=change.host,
        skew=not change.no_skew,
        overlap=change.perfect_overlap,
        circuits=None if change.reconfigure is None else circuits_of(facts, change.reconfigure),
    )
    return costs, rests_on


def circuits_of(facts: Facts, given: Reconfigure) -> Circuits:
    """Circuits for the transfers of a run that need them.

    Raises:
        WarehouseError: it has none, or their axes are not known.
    """
    sent = facts.sent.filter(pl.col("over_hosts")) if given.rails else facts.sent
    name = facts.parent.row["name"]
    if sent.is_empty():
        between = "hosts" if given.rails else "devices"
        raise WarehouseError(
            f"{name}: the run has no transfer between {between}, so nothing to switch"
        )
    unknown = sent.filter(
        pl.col("axis").is_null() | pl.col("axis").is_in(["mixed", "unclassified"])
    )
    if unknown.height:
        raise WarehouseError(
            f"{name}: the axes of {unknown.height} of {sent.height} transfers are not known, and circuits "
            "are set up by axis; state the mesh with `xlahouse set mesh`"
        )
    rows = sent.select("instance", "axis", "wire_bytes")
    return Circuits(rows, given.circuits, given.delay_ps, given.policy)


def _own(facts: Facts) -> Chip:
    if facts.chip is None:
        raise WarehouseError(
            f"{facts.parent.row['name']}: the peaks of its devices are not known; set them with "
            "`xlahouse set peaks` or `xlahouse set device-kind`"
        )
    return facts.chip


def _other(facts: Facts, name: str) -> Chip:
    _own(facts)
    return facts.other_chip(name)


def _op_scale(facts: Facts, change: Change) -> NDArray[np.float64] | None:
    """Of each op, its time over the measured one; None where no op changes."""
    whole = facts.parent.whole
    ops = whole.tables["ops"].select("program_id", "op", "category")
    scale = np.ones(ops.height)
    if change.no_masked:
        masked = masked_ops(whole)
        if not masked.any():
            raise WarehouseError(
                f"{facts.parent.row['name']}: no op is known to compute on an empty microbatch"
            )
        scale[masked] = 0.0
    by_op = None
    if change.chip is not None:
        by_op = _on_chip(facts.rooflines, _own(facts), _other(facts, change.chip))
    if change.hbm_at_peak:
        by_op = _at_peak(facts)
    if by_op is not None:
        found = ops.join(by_op, on=["program_id", "op"], how="left", maintain_order="left")["scale"]
        is_compute = (ops["category"] == "compute").to_numpy()
        default = 1.0
        if change.chip is not None:  # what bounds an op without a roofline is not known
            default = _cautious(_own(facts), _other(facts, change.chip))
        scale *= np.where(is_compute, found.fill_null(default).to_numpy(), 1.0)
    return None if (scale == 1).all() else scale


def _cautious(own: Chip, other: Chip) -> float:
    """The scale of an op that either peak may bound: the one that gains less."""
    return max(own.flops_per_s / other.flops_per_s, own.hbm_bytes_per_s / other.hbm_bytes_per_s)


def _on_chip(rooflines: pl.DataFrame, own: Chip, other: Chip) -> pl.DataFrame:
    """program_id, op, scale on another chip: by the peak that bounds an op."""
    bound = pl.col("bound_by")
    scale = (
        pl.when(bound == "math")
        .then(own.flops_per_s / other.flops_per_s)
        .when(bound == "hbm")
        .then(own.hbm_bytes_per_s / other.hbm_bytes_per_s)
        .otherwise(_cautious(own, other))
    )
    return rooflines.select("program_id", "op", scale=scale)


def _at_peak(facts: Facts) -> pl.DataFrame:
    """program_id, op, scale of the ops that HBM bounds, if HBM ran at its peak."""
    bound = facts.rooflines.filter((pl.col("bound_by") == "hbm") & (pl.col("observed_ps") > 0))
    if bound.is_empty():
        raise WarehouseError(
            f"{facts.parent.row['name']}: no op is known to be bound by HBM: the trace does not break "
            "bytes down by memory, or peaks are not known"
        )
    scale = pl.min_horizontal(pl.lit(1.0), pl.col("predicted_ps") / pl.col("observed_ps"))
    return bound.select("program_id", "op", scale=scale)
