"""Reads virtual CPU devices from a `/host:CPU` plane of a file without device planes.

Ops state their execution and device since JAX 0.9. Elsewhere the device is deduced (chain.py,
devices.py) and checked against the rendezvous of the collectives, and is marked `inferred`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.codes_of_devices import (
    DEVICE_AMBIGUOUS,
    DEVICE_CONFLICT,
    DEVICE_INFERRED,
    DEVICE_NUMBER_ASSUMED,
    DEVICE_UNKNOWN,
    DEVICE_VIRTUAL,
    LAUNCH_UNKNOWN,
    MARKER_INCOMPLETE,
)
from xlahouse.ingest.events.codes_of_names import OP_END_UNKNOWN
from xlahouse.ingest.events.frames import Device, PlaneEvents
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.hlo.program import Program
from xlahouse.ingest.xplane.cpu.chain import place_acts
from xlahouse.ingest.xplane.cpu.devices import (
    Numbered,
    are_places,
    assignments,
    number_devices,
    stated_runs,
)
from xlahouse.ingest.xplane.cpu.events import (
    END_PREFIX,
    RENDEZVOUS,
    CpuEvents,
    read_cpu_events,
    rendezvous_members,
)
from xlahouse.ingest.xplane.decoded_lines import DecodedLines
from xlahouse.ingest.xplane.host import UNNUMBERED
from xlahouse.ingest.xplane.host_pieces import HostPieces
from xlahouse.ingest.xplane.xspace import Plane

# Decoded lines of planes up to this size in the file are kept for host_events: two to three times as much.
KEPT_BYTES = 256 << 20


def read_cpu_plane(
    plane: Plane,
    source: str,
    host: str | None,
    programs: Mapping[int, Program],
) -> PlaneEvents | None:
    """A host plane whose threads ran virtual devices: ops and launches, and how to read other events.

    None where they ran none.

    Args:
        plane: the plane.
        source: its file.
        host: its host.
        programs: the file's programs, which state on which devices they run.
    """
    decoded: DecodedLines = {}
    small = sum(map(len, plane.payloads)) <= KEPT_BYTES
    events = read_cpu_events(plane, host, decoded if small else None)
    if events is None:
        return None
    numbered, ambiguous = _numbered(events, programs)
    acts = numbered.acts
    traced = _traced_ops(acts)
    ops = _with_end(traced.drop_nulls("device_id"), acts)
    # An op's end belongs to its row, so both events count as written there.
    folded = acts.join(ops.select(_c="_p"), on="_c", how="semi").filter(
        pl.col("name").str.starts_with(END_PREFIX)
    )
    in_ops = acts.filter(
        pl.col("event").is_in(pl.concat([ops["event"], folded["event"]]).implode())
    )
    return PlaneEvents(
        devices=_devices(ops, plane, host, inferred=not numbered.stated),
        ops=ops.pipe(frames.conform, frames.OPS),
        launches=_launches(ops),
        host_pieces=HostPieces(plane, host, elsewhere=_by_line(events, in_ops), decoded=decoded),
        markers=events.markers,
        coverage=_coverage(events, in_ops["line"].to_numpy(), source),
        issues=[
            *events.counts.issues(source),
            *_findings(source, traced.height - ops.height, ambiguous, numbered, ops),
            *issues_found(source, (MARKER_INCOMPLETE, events.unnumbered, UNNUMBERED)),
        ],
    )


def _numbered(events: CpuEvents, programs: Mapping[int, Program]) -> tuple[Numbered, int]:
    """The acts with their devices, and how many late starts were ambiguous."""
    stated = stated_runs(events.acts)
    if stated is not None:
        return Numbered(stated, stated=True), 0
    assigned = assignments(programs)
    placement = place_acts(events, are_places(assigned))
    return number_devices(placement.acts, assigned), placement.ambiguous


def _devices(ops: pl.DataFrame, plane: Plane, host: str | None, inferred: bool) -> list[Device]:
    """The devices that ops ran on."""
    local = "device_id" if inferred else "device_ordinal"
    numbers = ops.group_by("device_id").agg(pl.col(local).min().alias("local")).sort("device_id")
    return [
        Device(number, plane.name, "cpu", "cpu", local_ordinal=own, host=host, inferred=inferred)
        for number, own in numbers.rows()
    ]


def _by_line(events: CpuEvents, chosen: pl.DataFrame) -> dict[int, NDArray[np.int64]]:
    """Line -> places on it of chosen events."""
    firsts = events.counts.firsts
    return {
        int(number): rows["event"].to_numpy() - firsts[number]
        for (number,), rows in chosen.group_by("line")
    }


def _coverage(events: CpuEvents, lines: NDArray[np.int64], source: str) -> pl.DataFrame:
    """Coverage of the plane. lines: of each event that became an op or the end of one."""
    counts = events.counts
    in_ops = np.bincount(lines, minlength=len(counts.kept))
    return counts.coverage(source, {"ops": in_ops, "host_events": counts.kept - in_ops})


def _traced_ops(acts: pl.DataFrame) -> pl.DataFrame:
    """Events that name an HLO op."""
    return acts.drop_nulls("op").with_columns(
        launch_key=pl.col("execution"),
        line="thread",
        on_async_line=pl.lit(False),
    )


def _with_end(ops: pl.DataFrame, acts: pl.DataFrame) -> pl.DataFrame:
    """An op that completes on another thread ends at its `end:` event, not where it returned."""
    named = acts.filter(pl.col("name").str.starts_with(END_PREFIX)).drop_nulls("_c")
    ends = named.select("_c", end_ps="start_ps")
    if ends["_c"].n_unique() == ends.height:
        joined = ops.join(ends, left_on="_p", right_on="_c", how="left", maintain_order="left")
    else:  # ids are used again: of several ends, take the next one
        joined = (
            ops.with_row_index("row")
            .sort("start_ps")
            .join_asof(
                ends.sort("end_ps"),
                left_on="start_ps",
                right_on="end_ps",
                by_left="_p",
                by_right="_c",
                strategy="forward",
                check_sortedness=False,
            )
            .sort("row")
            .drop("row")
        )
    own_end = pl.col("start_ps") + pl.col("duration_ps")
    end = pl.max_horizontal(own_end, "end_ps")
    return joined.with_columns(duration_ps=end - pl.col("start_ps"))


def _launches(ops: pl.DataFrame) -> pl.DataFrame:
    """One launch a device of an execution, from its first op's start to its last op's end."""
    end = (pl.col("start_ps") + pl.col("duration_ps")).max()
    return (
        ops.drop_nulls("execution")
        .group_by("execution", "device_id", "program_id")
        .agg(
            pl.col("module").first(),
            pl.col("enqueue_ps").first(),
            start_ps=pl.col("start_ps").min(),
            duration_ps=end - pl.col("start_ps").min(),
        )
        .with_columns(launch_key="execution", instance_key="execution")
        .pipe(frames.conform, frames.LAUNCHES)
    )


def _findings(
    source: str,
    lost: int,
    ambiguous: int,
    numbered: Numbered,
    ops: pl.DataFrame,
) -> list[Issue]:
    devices = ops["device_id"].n_unique()
    outside = ops["execution"].null_count()
    renamed = (
        "ops of virtual CPU devices lie in no execution: they state no run_id, and no event has the name of "
        "an execution that is known here, so that the runtime may have renamed it"
    )
    conflicts = _rendezvous_conflicts(numbered.acts)
    several = "executions whose ops name several devices, though they seem to be of one"
    assumed = (
        "virtual devices whose program runs on more devices than this process has: no record states which of "
        "them are its own"
    )
    return issues_found(
        source,
        (DEVICE_UNKNOWN, lost),
        (DEVICE_VIRTUAL if numbered.stated else DEVICE_INFERRED, devices),
        (LAUNCH_UNKNOWN, outside if outside == ops.height else 0, renamed),
        (DEVICE_AMBIGUOUS, ambiguous),
        (DEVICE_CONFLICT, conflicts),
        (DEVICE_CONFLICT, numbered.split, several),
        (DEVICE_NUMBER_ASSUMED, numbered.assumed, assumed),
        (OP_END_UNKNOWN, _endless(ops)),
    )


def _endless(ops: pl.DataFrame) -> int:
    """Ops that announce their end, of names of which none has one; a profile that ends cuts off a few."""
    announced = ops.drop_nulls("_p")
    lacks = announced.group_by("op").agg(pl.len(), pl.col("end_ps").is_null().all().alias("all"))
    return int(lacks.filter("all")["len"].sum())


def _rendezvous_conflicts(acts: pl.DataFrame) -> int:
    """Rendezvous events on a device that their own list of devices lacks."""
    meetings = acts.filter(pl.col("name") == RENDEZVOUS).drop_nulls(["device_id", "meeting"])
    checked = meetings.with_columns(members=rendezvous_members("meeting"))
    absent = ~pl.col("members").list.contains(pl.col("device_id"))
    return checked.drop_nulls("members").filter(absent).height
