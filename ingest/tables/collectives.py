"""Collectives: transfers placed in their groups, and gathered into instances over all devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.events.codes_of_files import BAD_NUMBER
from xlahouse.ingest.events.codes_of_programs import (
    ASYNC_KIND_UNKNOWN,
    ASYNC_UNPAIRED,
    COLLECTIVE_WITHOUT_GROUP,
    COLLECTIVE_WITHOUT_PAYLOAD,
    SIZE_BOUND,
)
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.events.packing import Packing
from xlahouse.ingest.events.spans import filled
from xlahouse.ingest.tables.instances import number_transfers
from xlahouse.ingest.tables.payloads import summable
from xlahouse.ingest.tables.transfers import (
    TRANSFER_EVENTS,
    TRANSFER_KINDS,
    TRANSFER_STEPS,
    Transfers,
    whole_rows,
)

SAME_END_PS = 1_000_000  # METRICS, Terms: ends of an instance further apart cannot be compared
_PROGRAM_OP = ["program_id", "op"]
_NO_EVENTS: frames.ColumnTypes = {
    **TRANSFER_EVENTS,
    "group_index": pl.Int64,
    "group_size": pl.Int64,
    "silent": pl.Boolean,
    "instance": pl.Int64,
}


class _At(NamedTuple):
    """Where each event is: columns of one length."""

    op: Integers  # number of its op, from 0
    device_id: Integers  # number of its device


@dataclass(frozen=True)
class Collectives:
    """Collectives of all devices of a world."""

    # TRANSFER_EVENTS by device and start, with group_index, group_size, instance, and silent: nothing is sent
    events: pl.DataFrame
    kinds: pl.DataFrame  # TRANSFER_KINDS, a row for all events that share it
    steps: pl.DataFrame  # TRANSFER_STEPS, likewise
    issues: list[Issue]  # findings about them

    @property
    def instances(self) -> int:
        """How many instances there are; they are numbered from 0."""
        last = self.events["instance"].max()
        return last + 1 if isinstance(last, int) else 0

    @property
    def rows(self) -> pl.DataFrame:
        """The collectives table without run_id."""
        found = list(self.pieces(max(self.events.height, 1)))
        empty = frames.empty({**dict(self.events.schema), **TRANSFER_KINDS, **TRANSFER_STEPS}).drop(
            "silent"
        )
        return found[0] if found else empty

    def pieces(self, most: int) -> Iterator[pl.DataFrame]:
        """The same, at most so many rows at a time."""
        payload = pl.when("silent").then(pl.lit(0, pl.Int64)).otherwise("payload_bytes")
        for piece in whole_rows(self.events, self.kinds, self.steps, most):
            yield piece.with_columns(payload_bytes=payload).drop("silent")


def find_collectives(
    transfers: Transfers,
    groups: pl.DataFrame,
    pairs: pl.DataFrame,
    launches: pl.DataFrame,
    source: str,
) -> Collectives:
    """Collectives of all devices of a world.

    Args:
        transfers: of all its devices.
        groups: replica_groups rows, with device_id.
        pairs: permute_pairs rows.
        launches: of all devices, with launch_instance.
        source: the run, for issues.
    """
    kinds, events = transfers.kinds, transfers.events
    if events.is_empty():
        unpaired = issues_found(source, (ASYNC_UNPAIRED, transfers.unpaired))
        return Collectives(frames.empty(_NO_EVENTS), kinds, transfers.steps, unpaired)
    ops = kinds.select(_PROGRAM_OP).unique().sort(_PROGRAM_OP).with_row_index("number")
    numbers = kinds.join(ops, on=_PROGRAM_OP, how="left", nulls_equal=True, maintain_order="left")[
        "number"
    ]
    of_event = numbers.to_numpy().astype(np.int64)[_array(events, "of_kind")]
    at = _At(of_event, _array(events, "device_id"))
    paired, sends = _in_pairs(at, ops, pairs)
    events = events.hstack(_groups_of(at, ops, groups))
    silent = pl.Series("silent", paired & ~sends)
    events = events.hstack([silent, _instances(at, events, kinds, launches)])
    issues = _issues(events, kinds, paired, transfers.unpaired, source)
    kinds, odd = _summable(events, kinds)
    issues += issues_found(source, (BAD_NUMBER, odd))
    return Collectives(events, kinds, transfers.steps, issues)


def _summable(events: pl.DataFrame, kinds: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """(kinds whose payloads can be summed, how many collectives lost their payload by it)."""
    counts = np.bincount(_array(events, "of_kind"), minlength=kinds.height)
    payload = summable(kinds["payload_bytes"], pl.Series(counts))
    if payload.null_count() == kinds["payload_bytes"].null_count():
        return kinds, 0
    lost = payload.is_null() & kinds["payload_bytes"].is_not_null()
    return kinds.with_columns(payload), int(counts[lost.to_numpy()].sum())


def _groups_of(at: _At, ops: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    """group_index and group_size of each event; NULL where no group is known."""
    size = pl.len().over("program_id", "op", "group_index").cast(pl.Int64)
    member = groups.with_columns(group_size=size).unique([*_PROGRAM_OP, "device_id"], keep="first")
    member = member.join(ops, on=_PROGRAM_OP).drop_nulls("device_id")
    places = _places_in(member, at)
    return pl.DataFrame(
        {
            name: pl.Series(member[name].to_numpy()[places] if len(member) else places)
            for name in ("group_index", "group_size")
        }
    ).select(pl.when(pl.Series(places >= 0)).then(pl.all()))


def _in_pairs(at: _At, ops: pl.DataFrame, pairs: pl.DataFrame) -> tuple[Mask, Mask]:
    """(whether each event is a permute or send; whether its device sends to another in it: else its payload,
    the operand, is 0)."""
    if pairs.is_empty():
        nowhere = np.zeros(len(at.op), np.bool_)
        return nowhere, nowhere
    known = pairs.select(_PROGRAM_OP).unique().join(ops, on=_PROGRAM_OP)["number"].to_numpy()
    senders = (
        pairs.filter(pl.col("source_device_id") != pl.col("target_device_id"))
        .join(ops, on=_PROGRAM_OP)
        .select("number", device_id="source_device_id")
        .unique()
    )
    return np.isin(at.op, known), _places_in(senders, at) >= 0


def _places_in(rows: pl.DataFrame, at: _At) -> Integers:
    """Row with the op's number and the device of each event; -1 without such a row.

    Args:
        rows: number and device_id, no two alike.
        at: the events.
    """
    if rows.is_empty():
        return np.full(len(at.op), -1)
    own, of_device = _array(rows, "number"), _array(rows, "device_id")
    devices = np.unique(of_device)
    packing = Packing((int(max(own.max(), at.op.max(initial=0))) + 1, len(devices)))
    known = packing.pack(own, np.searchsorted(devices, of_device))
    device = np.minimum(np.searchsorted(devices, at.device_id), len(devices) - 1)
    wanted = packing.pack(at.op, device)
    order = np.argsort(known)
    found = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
    hit = (known[found] == wanted) & (devices[device] == at.device_id)
    return np.where(hit, found, -1)


def _instances(
    at: _At, events: pl.DataFrame, kinds: pl.DataFrame, launches: pl.DataFrame
) -> pl.Series:
    """Number of each event's instance; NULL where its group is not known (METRICS, Instances).

    By the number that the trace gives it, else within one launch instance: the k-th execution on each
    device where all have as many, else by time; by time alone outside launches.
    """
    inside = events["group_index"].is_not_null().to_numpy()
    of_launch = events.select("device_id", "launch").join(
        launches.select("device_id", "launch", "launch_instance"),
        on=["device_id", "launch"],
        how="left",
        maintain_order="left",
    )
    rows = pl.DataFrame(
        {
            "op": at.op,
            "group": events["group_index"].fill_null(-1),
            "sequence": kinds["sequence"].gather(events["of_kind"]),
            "within": of_launch["launch_instance"],
            "device": at.device_id,
            "start": events["start_ps"],
            "end": events["start_ps"] + events["duration_ps"],
        }
    ).filter(pl.Series(inside))
    numbers = np.zeros(events.height, np.int64)
    numbers[inside] = number_transfers(rows)
    unknown = frames.same("", None, pl.Int64, events.height)
    return pl.Series("instance", numbers).zip_with(pl.Series(inside), unknown)


def _array(rows: pl.DataFrame, name: str) -> Integers:
    return rows[name].to_numpy().astype(np.int64, copy=False)


def _issues(
    events: pl.DataFrame, kinds: pl.DataFrame, paired: Mask, unpaired: int, source: str
) -> list[Issue]:
    of_kind, silent = _array(events, "of_kind"), events["silent"].to_numpy()
    masks = kinds.select(
        pl.col("payload_bytes").is_null(),
        (pl.col("kind").is_null() & pl.col("is_async")).fill_null(False),
        pl.col("payload_is_bound").fill_null(False),
    )
    unsized, nameless, bound = (mask.to_numpy()[of_kind] for mask in masks)
    unsized &= ~silent
    outside = events["group_index"].is_null().to_numpy() & ~paired
    return issues_found(
        source,
        (SIZE_BOUND, int(bound.sum())),
        (ASYNC_KIND_UNKNOWN, int(nameless.sum())),
        (ASYNC_UNPAIRED, unpaired),
        (COLLECTIVE_WITHOUT_GROUP, int(outside.sum())),
        (COLLECTIVE_WITHOUT_PAYLOAD, int(unsized.sum())),
    )


def uneven_ends(found: Collectives) -> int:
    """Synchronous instances whose ends lie more than SAME_END_PS apart: their clocks disagree."""
    events, kinds = found.events, found.kinds
    instance = filled(events["instance"], -1)
    chosen = instance >= 0
    chosen &= ~filled(kinds["is_async"], True)[_array(events, "of_kind")]
    instance = instance[chosen]
    end = (_array(events, "start_ps") + _array(events, "duration_ps"))[chosen]
    first, last = np.full(found.instances, np.iinfo(np.int64).max), np.zeros(found.instances, int)
    np.minimum.at(first, instance, end)
    np.maximum.at(last, instance, end)
    return int((last - first > SAME_END_PS).sum())
