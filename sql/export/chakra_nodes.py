"""Turns a device's work into the nodes of an execution trace, in order and with their dependencies."""

from __future__ import annotations

import polars as pl

from xlahouse.sql.export.chakra_proto import (
    ATTRIBUTES,
    COLLECTIVE,
    COMM_TYPES,
    COMPUTE,
    RECEIVE,
    SEND,
    attribute,
)
from xlahouse.sql.warehouse import Warehouse

# Work that keeps the device busy by itself. A transfer's own ops are its collective's node.
_OPS = """
select op as name, start_ps, self_ps as duration_ps, cast(round(flops) as bigint) as num_ops,
    cast(round(bytes_accessed) as bigint) as tensor_size
from ops
where run_id = $run and device_id = $device and self_ps > 0
    and category in ('compute', 'copy', 'host_transfer') and not is_async
"""
_COLLECTIVES = """
select op as name, kind, instance, start_ps, duration_ps, is_async, payload_bytes,
    program_id, group_index, group_size
from collectives
where run_id = $run and device_id = $device
"""
_PAIRS = """
select p.program_id, p.op as name, p.source_device_id as source, p.target_device_id as target
from permute_pairs as p
where p.run_id = $run and (p.source_device_id = $device or p.target_device_id = $device)
    and p.source_device_id <> p.target_device_id
"""
EXCHANGES = ("collective-permute", "send-recv")
_WORK = ["name", "start_ps", "duration_ps", "kind", "type", "is_async"]


def device_nodes(
    warehouse: Warehouse, run_id: str, device: int, npu_of: pl.DataFrame, groups: pl.DataFrame
) -> pl.DataFrame:
    """The nodes of a device, by start.

    A synchronous node waits for the synchronous one before it, and for every asynchronous transfer
    that had ended when it started; an asynchronous transfer waits for the synchronous node before it.

    Args:
        warehouse: that has the run.
        run_id: the run.
        device: its device_id.
        npu_of: device_id and npu, the number that the simulator knows the device by.
        groups: program_id, name, group_index and group, the number of the group of devices.

    Returns:
        The fields of chakra_proto's `Node`, durations in whole microseconds whose sum is right.
    """
    given = {"run": run_id, "device": device}
    ops = warehouse.query(_OPS, given).pl().with_columns(type=COMPUTE, is_async=False, kind=None)
    transfers = warehouse.query(_COLLECTIVES, given).pl()
    exchanged = transfers.filter(pl.col("kind").is_in(EXCHANGES))
    pairs = warehouse.query(_PAIRS, given).pl()
    parts = [
        ops,
        _collectives(transfers.filter(pl.col("kind").is_in(list(COMM_TYPES))), groups),
        *_exchanges(exchanged, pairs, npu_of, device),
    ]
    work = pl.concat([_typed(part) for part in parts], how="diagonal")
    # A transfer that starts with an op runs beside it.
    ordered = work.sort("start_ps", ~pl.col("is_async"), "duration_ps", "type", "name")
    ordered = ordered.with_row_index("id")
    return _with_fields(_with_dependencies(ordered))


def _typed(part: pl.DataFrame) -> pl.DataFrame:
    casts = {"start_ps": pl.Int64, "duration_ps": pl.Int64, "type": pl.Int32, "kind": pl.String}
    return part.with_columns(pl.col(name).cast(kind) for name, kind in casts.items())


def _collectives(transfers: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    placed = transfers.join(groups, on=["program_id", "name", "group_index"], how="left")
    return placed.select(
        *(name for name in _WORK if name != "type"), "group", "payload_bytes"
    ).with_columns(type=COLLECTIVE)


def _exchanges(
    transfers: pl.DataFrame, pairs: pl.DataFrame, npu_of: pl.DataFrame, device: int
) -> list[pl.DataFrame]:
    """A send node for each pair in which the device is the source, a receive where it is the target."""
    joined = transfers.join(pairs, on=["program_id", "name"])
    parts = []
    for kind, own, other in ((SEND, "source", "target"), (RECEIVE, "target", "source")):
        mine = joined.filter(pl.col(own) == device)
        peers = npu_of.rename({"device_id": other, "npu": "peer"})
        named = mine.join(peers, on=other, how="left", maintain_order="left")
        parts.append(
            named.select(
                *(name for name in _WORK if name != "type"), "peer", "payload_bytes", tag="instance"
            ).with_columns(type=kind)
        )
    return parts


def _with_dependencies(nodes: pl.DataFrame) -> pl.DataFrame:
    """ctrl_deps: the synchronous node before; data_deps: transfers that had to end before."""
    synchronous = ~pl.col("is_async")
    before = pl.when(synchronous).then("id").forward_fill().shift(1)
    chained = nodes.with_columns(before=before, end_ps=pl.col("start_ps") + pl.col("duration_ps"))
    waits = chained.filter(synchronous).select("start_ps", waiting="id").sort("start_ps")
    flights = chained.filter(~synchronous).sort("end_ps")
    met = flights.join_asof(
        waits, left_on="end_ps", right_on="start_ps", strategy="forward", check_sortedness=False
    )
    flown = met.drop_nulls("waiting").group_by("waiting").agg(pl.col("id").sort().alias("flown"))
    return chained.join(flown, left_on="id", right_on="waiting", how="left", maintain_order="left")


def _with_fields(nodes: pl.DataFrame) -> pl.DataFrame:
    """The fields of `Node`."""
    missing = {"group": pl.Int64, "peer": pl.Int64, "tag": pl.Int64, "payload_bytes": pl.Int64}
    missing |= {"num_ops": pl.Int64, "tensor_size": pl.Int64}
    given = nodes.with_columns(
        pl.lit(None, kind).alias(name)
        for name, kind in missing.items()
        if name not in nodes.columns
    )
    kind, own = pl.col("type"), pl.col
    sends, receives = kind == SEND, kind == RECEIVE
    is_compute = kind == COMPUTE
    # Both ends are rounded, so that durations of consecutive nodes add up.
    start = (own("start_ps") - own("start_ps").min()).cast(pl.Float64) / 1e6
    end = start + own("duration_ps").cast(pl.Float64) / 1e6
    beside = [
        attribute("is_cpu_op", "bool_val", pl.lit(False)),
        attribute("num_ops", "int64_val", pl.when(is_compute).then(own("num_ops"))),
        attribute("tensor_size", "uint64_val", pl.when(is_compute).then(own("tensor_size"))),
        attribute("comm_type", "int64_val", own("kind").replace_strict(COMM_TYPES, default=None)),
        attribute("comm_size", "int64_val", own("payload_bytes")),
        attribute("pg_name", "string_val", own("group").cast(pl.String)),
        attribute("comm_dst", "int32_val", pl.when(sends).then(own("peer"))),
        attribute("comm_src", "int32_val", pl.when(receives).then(own("peer"))),
        attribute("comm_tag", "int32_val", own("tag")),
        attribute("duration_ps", "int64_val", own("duration_ps")),
    ]
    no_ids = pl.lit([], pl.List(pl.UInt64))
    return given.select(
        pl.col("id").cast(pl.UInt64),
        pl.col("name").cast(pl.Binary),
        pl.col("type"),
        pl.concat_list(pl.col("before").cast(pl.UInt64)).list.drop_nulls().alias("ctrl_deps"),
        pl.col("flown").cast(pl.List(pl.UInt64)).fill_null(no_ids).alias("data_deps"),
        start.round().cast(pl.UInt64).alias("start_time_micros"),
        (end.round() - start.round()).cast(pl.UInt64).alias("duration_micros"),
        pl.concat_list(beside).list.drop_nulls().cast(ATTRIBUTES).alias("attr"),
    )
