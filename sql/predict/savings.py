"""What each transfer of a replay saves: by fitted latency and bandwidth, else by the links' peaks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.replay.schedule import Costs
from xlahouse.ingest.schema import BY_NAME
from xlahouse.sql.predict.changes import EVERY_AXIS, LinkLatency, Rate
from xlahouse.sql.predict.fits import KEY, PS, Fits, Key, Line, ring_steps

ALL_OF_IT = 1 << 60  # ps: more than any transfer takes


class _Group(NamedTuple):
    """Transfers of one fabric, axis, kind, strategy and group size."""

    fabric: str  # ici or dcn
    key: Key  # axis, kind, strategy and group size
    rows: pl.DataFrame  # its transfers, as fits.TRANSFERS has them
    fitted: str  # what the line is fitted to
    line: Line | None  # None: the saved time rests on no fitted line
    saved: NDArray[np.float64]  # ps; NaN where it is not known

    @property
    def source(self) -> str:
        """What the saved times rest on."""
        if np.isnan(self.saved).all():
            return "unknown"
        return self.fitted if self.line is not None else "peaks"


def savings_of(
    transfers: pl.DataFrame,
    fits: Fits,
    rates: Mapping[str, Rate | None],
    latency: LinkLatency | None,
    no_exposed: str | None = None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(instance and saved_ps of the transfers that change, rows of transfer_costs without run_id).

    Args:
        transfers: of the run, as fits.TRANSFERS has them.
        fits: lines of the warehouse's transfers.
        rates: by fabric, ici and dcn, another bandwidth.
        latency: another latency of a ring's step.
        no_exposed: an axis whose transfers take no time at all, or EVERY_AXIS.

    Raises:
        WarehouseError: the run has no transfer that the change is about, or none whose time is known.
    """
    columns = [name for name in BY_NAME["transfer_costs"].schema.names if name != "run_id"]
    groups = []
    for key, rows in transfers.group_by("is_dcn", *KEY, maintain_order=True):
        fabric = "dcn" if key[0] else "ici"
        axis, kind, strategy, size = key[1:]
        own: Key = (axis, kind, strategy, size)
        if no_exposed is not None:
            if no_exposed in (axis, EVERY_AXIS):
                saved = np.full(rows.height, float(ALL_OF_IT))
                groups.append(_Group(fabric, own, rows, "", None, saved))
        elif rates.get(fabric) is not None or latency is not None:
            fitted, line = fits.of(own)
            saved = _saved(rows, line, kind, rates.get(fabric), latency)
            groups.append(_Group(fabric, own, rows, fitted, line, saved))
    if no_exposed is not None:
        _check_any(groups, f"of axis {no_exposed}")
        empty = pl.DataFrame(schema=dict.fromkeys(columns, pl.Null))
        return _savings(groups), empty
    wanted = [fabric for fabric, rate in rates.items() if rate is not None]
    for fabric in wanted:
        _check_any([each for each in groups if each.fabric == fabric], f"over {fabric.upper()}")
    if latency is not None:
        _check_any(groups, "between devices")
    if groups and all(each.source == "unknown" for each in groups):
        raise WarehouseError(
            "no transfer of the run has a known latency and bandwidth: fewer than three sizes are "
            "measured of each kind, and the peaks of its links are not known"
        )
    return _savings(groups), pl.DataFrame([_costs_row(each) for each in groups], schema=columns)


def _check_any(groups: list[_Group], which: str) -> None:
    if not groups:
        raise WarehouseError(f"the run has no transfer {which}, so nothing would change")


def _saved(
    rows: pl.DataFrame,
    line: Line | None,
    kind: str | None,
    rate: Rate | None,
    latency: LinkLatency | None,
) -> NDArray[np.float64]:
    """What each transfer saves, ps; negative where it gets slower, NaN where it is not known."""
    wire = rows["wire_bytes"].cast(pl.Float64).fill_null(np.nan).to_numpy()
    steps = np.array([ring_steps(kind, n) for n in rows["group_size"].to_list()], np.float64)
    saved = np.zeros(rows.height)
    if rate is not None:
        whole = rows["transfer_ps"].cast(pl.Float64).fill_null(np.nan).to_numpy()
        least = rows["ici_ps"].cast(pl.Float64).fill_null(np.nan).to_numpy()
        moving = np.minimum(least if line is None else wire * line.ps_per_byte, whole)
        if rate.times is not None:
            saved += moving - moving / rate.times
        else:
            assert rate.bytes_per_s is not None
            saved += moving - wire * (PS / rate.bytes_per_s)
    if latency is not None and latency.is_added:
        saved -= latency.ps * steps
    elif latency is not None:
        saved += (np.nan if line is None else line.latency_ps - latency.ps) * steps
    return saved


def _savings(groups: list[_Group]) -> pl.DataFrame:
    parts = [Costs().savings]
    for group in groups:
        known = ~np.isnan(group.saved)
        saved = np.rint(np.clip(group.saved[known], -ALL_OF_IT, ALL_OF_IT)).astype(np.int64)
        instance = group.rows["instance"].cast(pl.Int64).filter(pl.Series(known))
        parts.append(pl.DataFrame({"instance": instance, "saved_ps": saved}))
    return pl.concat(parts)


def _costs_row(group: _Group) -> dict[str, object]:
    line = group.line
    axis, kind, strategy, size = group.key
    return {
        "fabric": group.fabric,
        "axis": axis,
        "kind": kind,
        "strategy": strategy,
        "group_size": size,
        "source": group.source,
        "latency_ps": line.latency_ps if line else None,
        "bytes_per_s": PS / line.ps_per_byte if line else None,
        "sizes": line.sizes if line else None,
        "samples": line.samples if line else None,
        "error_ratio": line.error_ratio if line else None,
        "transfers": group.rows.height,
    }
