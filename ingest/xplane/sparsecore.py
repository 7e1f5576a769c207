"""Reads a `/device:TPU:N SparseCore M` plane: ops that a TensorCore has offloaded, counted apart."""

from __future__ import annotations

import re

import numpy as np
import polars as pl

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.codes_of_devices import DEVICE_NUMBER_ASSUMED, SPARSECORE_OPS
from xlahouse.ingest.events.frames import DEVICE_NUMBER, Device, PlaneEvents
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.events.op_events import OpEvents
from xlahouse.ingest.xplane.chosen_events import ChosenEvents
from xlahouse.ingest.xplane.event_chunks import chunks
from xlahouse.ingest.xplane.host_pieces import HostPieces
from xlahouse.ingest.xplane.line_counts import LineCounts
from xlahouse.ingest.xplane.xspace import Plane

SPARSECORE_PLANE = re.compile(rf"^(/device:TPU:{DEVICE_NUMBER}) SparseCore {DEVICE_NUMBER}$")
_OP_LINES = ("Sparse Core Ops", "XLA Ops")
# Replica groups name no SparseCore; its number is beyond all other devices' numbers.
FIRST_NUMBER = 1 << 20
_CORES_OF_A_DEVICE = 16


def read_sparsecore_plane(
    plane: Plane,
    source: str,
    host: str | None,
    owners: dict[str, Device],
) -> PlaneEvents:
    """Ops of a SparseCore; its modules and steps go to host_events.

    A transfer that is offloaded is also a start and a done on the TensorCore, which are the collective;
    the SparseCore's op is kept as an asynchronous op (`is_async`), not as another collective.

    Args:
        plane: the plane.
        source: its file.
        host: its host.
        owners: the TensorCores read before, by plane.
    """
    device, issues = _device(plane, source, host, owners)
    counts, chosen = LineCounts.of(plane), ChosenEvents(plane, {})
    has_ops = plane.lines["name"].is_in(_OP_LINES).to_numpy()
    for chunk in chunks(plane):
        counts.add(chunk)
        chunk.check_stats()
        chosen.add(chunk, has_ops[chunk.core.line] & chunk.in_time, {})
    in_ops = np.where(has_ops, counts.kept, 0)
    number = pl.lit(device.device_id, pl.Int64)
    detail = f"{plane.name}: {SPARSECORE_OPS.meaning}"
    issues += issues_found(source, (SPARSECORE_OPS, int(in_ops.sum()), detail))
    return PlaneEvents(
        devices=[device],
        op_events=OpEvents.of_rows(_ops(plane, chosen.frame()).with_columns(device_id=number)),
        host_pieces=HostPieces(plane.only(_OP_LINES, invert=True), host, f"{plane.name}/"),
        coverage=counts.coverage(source, {"ops": in_ops, "host_events": counts.kept - in_ops}),
        issues=issues + counts.issues(source),
    )


def _device(
    plane: Plane, source: str, host: str | None, owners: dict[str, Device]
) -> tuple[Device, list[Issue]]:
    match = SPARSECORE_PLANE.match(plane.name)
    if match is None:
        raise ValueError(f"{plane.name} is not a SparseCore plane")
    owner = owners.get(match[1])
    issues = []
    if owner is None:
        detail = f"{plane.name}: its TensorCore, which would state its number, has no events"
        issues.append(DEVICE_NUMBER_ASSUMED.found(source, detail=detail))
    number = int(match[2]) if owner is None else owner.device_id
    return Device(
        device_id=FIRST_NUMBER + number * _CORES_OF_A_DEVICE + int(match[3]),
        plane=plane.name,
        kind="SparseCore" if owner is None else f"{owner.kind} SparseCore",
        core="sparsecore",
        local_ordinal=int(match[2]),
        chip_id=None if owner is None else owner.chip_id,
        host=host,
    ), issues


def _ops(plane: Plane, events: pl.DataFrame) -> pl.DataFrame:
    facts = plane.metadata.select("metadata_id")
    for stat in (
        plane.metadata_stats.numbers("program_id", pl.UInt64),
        plane.metadata_stats.texts("hlo_category"),
        plane.metadata_stats.numbers("flops", pl.Float64),
        plane.metadata_stats.numbers("bytes_accessed", pl.Float64),
        plane.metadata_stats.texts("tf_op").rename({"tf_op": "scope"}),
    ):
        facts = facts.join(stat, left_on="metadata_id", right_on="owner", how="left")
    stem = pl.col("name").str.extract(r"^%?([^\s=]+)")
    shown = pl.when(pl.col("display_name").str.len_bytes() > 0).then("display_name")
    return (
        events.join(facts, on="metadata_id", how="left", maintain_order="left")
        .with_columns(
            op=pl.coalesce(shown, stem),
            opcode_text=pl.col("name").str.extract(r"=\s.*?\s?([a-z][a-z0-9-]*)\("),
            line="thread",
            on_async_line=True,
        )
        .pipe(frames.conform, frames.OPS)
    )
