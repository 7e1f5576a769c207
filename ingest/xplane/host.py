"""Reads planes without device ops: host threads with their markers, and unknown planes."""

from __future__ import annotations

import numpy as np
import polars as pl

from xlahouse.capture.manifest import MARKER_PREFIX, WARMUP
from xlahouse.ingest.events import frames
from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.codes_of_devices import MARKER_INCOMPLETE
from xlahouse.ingest.events.codes_of_files import UNKNOWN_PLANE
from xlahouse.ingest.events.frames import PlaneEvents
from xlahouse.ingest.events.issues import issues_found
from xlahouse.ingest.events.tpu_lines import MEGASCALE_PLANE
from xlahouse.ingest.serving import names
from xlahouse.ingest.xplane.allocators import (
    ALLOCATION,
    allocations,
    allocator_issues,
    counters_of,
)
from xlahouse.ingest.xplane.event_chunks import EventChunk, Mask, chunks, kinds_where
from xlahouse.ingest.xplane.host_pieces import HostPieces
from xlahouse.ingest.xplane.line_counts import LineCounts
from xlahouse.ingest.xplane.xspace import Plane

HOST_PLANE = "/host:CPU"
UNNUMBERED = "roots of a trace (_r) that state no step_num"
MARKER = pl.col("name").str.starts_with(MARKER_PREFIX) | names.IS_STEP
_TRANSFER_STATS = ("request_id", "uuid", "bytes", "dimensions", "source")


def read_host_plane(plane: Plane, source: str, host: str | None) -> PlaneEvents:
    """Threads of a host: markers and enqueues, and how to read every event to host_events."""
    counts, is_marker = LineCounts.of(plane), kinds_where(plane, MARKER)
    is_allocation = kinds_where(plane, ALLOCATION)
    is_transfer = kinds_where(plane, names.IS_TRANSFER)
    markers, producers, samples, transfers, unnumbered = [], [], [], [], 0
    for chunk in chunks(plane):
        counts.add(chunk)
        markers.append(marker_rows(chunk, is_marker, host))
        producers.append(_producers(chunk))
        samples.append(allocations(chunk, is_allocation))
        transfers.append(_kv_transfers(chunk, is_transfer, host))
        unnumbered += unnumbered_steps(chunk, is_marker)
    return PlaneEvents(
        markers=frames.stack(markers, frames.MARKERS),
        kv_transfers=frames.stack(transfers, frames.KV_TRANSFERS),
        producers=frames.stack(producers, frames.PRODUCERS),
        counters=counters_of(samples),
        host_pieces=HostPieces(plane, host),
        coverage=counts.coverage(source, {"host_events": counts.kept}),
        issues=[
            *counts.issues(source),
            *allocator_issues(samples, source),
            *issues_found(source, (MARKER_INCOMPLETE, unnumbered, UNNUMBERED)),
        ],
    )


def read_unknown_plane(plane: Plane, source: str, host: str | None) -> PlaneEvents:
    """A plane that has no reader: its events are kept in host_events, with a finding if it is unknown."""
    counts = LineCounts.of(plane)
    for chunk in chunks(plane):
        chunk.check_stats()
        counts.add(chunk)
    kept, issues = int(counts.kept.sum()), counts.issues(source)
    if kept and plane.name != MEGASCALE_PLANE:
        detail = f"plane {plane.name} has no reader of its own"
        issues = [*issues, UNKNOWN_PLANE.found(source, kept, detail)]
    return PlaneEvents(
        host_pieces=HostPieces(plane, host, f"{plane.name}/"),
        coverage=counts.coverage(source, {"host_events": counts.kept}),
        issues=issues,
    )


def marker_rows(chunk: EventChunk, is_marker: Mask, host: str | None) -> pl.DataFrame:
    """Step traces with their request and step: those named by the marker grammar by their phase, a server's
    with its requests, and other ones (StepTraceAnnotation of JAX, TensorFlow or torch_xla) as `step`.

    Args:
        chunk: events.
        is_marker: kinds of events that are markers.
        host: their host.
    """
    marker = chunk.of_kinds(is_marker)
    rows = np.flatnonzero(marker | _is_annotated_step(chunk))
    if not len(rows):
        return frames.empty(frames.MARKERS)
    marks = chunk.frame(rows)
    for stat, column in (("request", "request"), ("step_num", "step")):
        owners, values = chunk.integers(stat)
        numbers = pl.DataFrame({"owner": owners, column: values})
        marks = marks.join(numbers, on="owner", how="left", maintain_order="left")
    by_name = pl.col("name").str.strip_prefix(MARKER_PREFIX)
    marked = marks.with_columns(
        host=pl.lit(host, pl.String),
        phase=pl.when(pl.Series(marker[rows])).then(by_name).otherwise(pl.lit("step")),
    ).pipe(names.with_stated)
    if marked["requests"].is_not_null().any():
        marked = marked.join(_stated(chunk, rows), on="owner", how="left", maintain_order="left")
    marked = frames.conform(marked, frames.MARKERS)
    # Captures number warm-ups from 0 too; their steps must not have the keys of measured requests.
    warmup = MARKER_PREFIX + pl.col("phase") == WARMUP
    return marked.with_columns(
        request=pl.when(warmup).then(-1 - pl.col("request")).otherwise("request")
    )


def _stated(chunk: EventChunk, rows: Integers) -> pl.DataFrame:
    """owner, ids, id_tokens, id_prompt_tokens of chosen events that state requests by place."""
    found = []
    for column, members in names.places(chunk.plane.stat_names["name"]).items():
        for place, stat in members:
            for owners, values in (chunk.texts(stat), chunk.integers(stat)):
                value = pl.Series("value", values).cast(pl.String)
                told = pl.DataFrame({"owner": pl.Series(owners, dtype=pl.Int64), "value": value})
                found.append(told.with_columns(place=pl.lit(place), column=pl.lit(column)))
    schema = {"owner": pl.Int64, "value": pl.String, "place": pl.Int32, "column": pl.String}
    told = pl.concat(found) if found else pl.DataFrame(schema=schema)
    lists = [
        pl.col("value").filter(pl.col("column") == column).first().alias(column)
        for column in names.LISTS.values()
    ]
    return (
        told.filter(pl.col("owner").is_in(pl.Series(rows).implode()))
        .group_by("owner", "place")
        .agg(lists)
        .drop_nulls("ids")
        .sort("owner", "place")
        .with_columns(pl.col("id_tokens", "id_prompt_tokens").cast(pl.Int64, strict=False))
        .group_by("owner", maintain_order=True)
        .agg(names.LISTS.values())
    )


def _kv_transfers(chunk: EventChunk, is_transfer: Mask, host: str | None) -> pl.DataFrame:
    """Transfers of keys and values between servers: frames.KV_TRANSFERS."""
    rows = np.flatnonzero(chunk.of_kinds(is_transfer))
    if not len(rows):
        return frames.empty(frames.KV_TRANSFERS)
    found = chunk.frame(rows).with_columns(host=pl.lit(host, pl.String))
    for stat in _TRANSFER_STATS:
        for owners, values in (chunk.texts(stat), chunk.integers(stat)):
            told = pl.DataFrame({"owner": owners, "told": pl.Series(values).cast(pl.String)})
            joined = found.join(told, on="owner", how="left", maintain_order="left")
            own = pl.col(stat) if stat in found.columns else pl.lit(None, pl.String)
            found = joined.with_columns(pl.coalesce(own, "told").alias(stat)).drop("told")
    bytes_ = pl.col("bytes").cast(pl.Int64, strict=False)
    return frames.conform(found.with_columns(bytes_), frames.KV_TRANSFERS)


def _is_annotated_step(chunk: EventChunk) -> Mask:
    """Events that a profiler's user marked as steps: they have a number, and are roots (`_r`) in a plane
    that marks roots."""
    of_step, _ = chunk.integers("step_num")
    is_step = np.zeros(len(chunk.core.start_ps), bool)
    is_step[np.intersect1d(_roots(chunk), of_step) if _marks_roots(chunk) else of_step] = True
    return is_step & chunk.in_time


def unnumbered_steps(chunk: EventChunk, is_marker: Mask) -> int:
    """How many roots state no number, markers aside. is_marker: kinds of events that are markers."""
    unnumbered = np.setdiff1d(_roots(chunk), chunk.integers("step_num")[0])
    return int((~chunk.of_kinds(is_marker)[unnumbered]).sum())


def _marks_roots(chunk: EventChunk) -> bool:
    return "_r" in chunk.plane.stat_names["name"]


def _roots(chunk: EventChunk) -> Integers:
    of_root, roots = chunk.integers("_r")
    found: Integers = of_root[roots == 1]
    return found


def _producers(chunk: EventChunk) -> pl.DataFrame:
    """Host events that enqueue something: producer id, start and thread."""
    (of_id, ids), (of_type, types) = chunk.links("_p"), chunk.integers("_pt")
    rows, place, place_of_type = np.intersect1d(
        of_id, of_type, assume_unique=True, return_indices=True
    )
    good = chunk.in_time[rows]
    lines = chunk.plane.lines
    line = np.searchsorted(lines["line"].to_numpy(), chunk.core.line[rows])
    found = {
        "link": ids[place],
        "link_type": types[place_of_type],
        "enqueue_ps": chunk.core.start_ps[rows],
    }
    threads = lines["name"].gather(line)
    return pl.DataFrame(found).with_columns(enqueue_thread=threads).filter(good)
