"""What devices wait for on the host: a launch for its enqueue, and the host for the previous step."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.replay.dependencies import Dependencies
from xlahouse.ingest.replay.lines import NOWHERE, Lines
from xlahouse.ingest.replay.measured import Measured
from xlahouse.ingest.replay.points import Points


class HostPart(NamedTuple):
    """The host's part of a graph: lines of events, and edges. Events are numbered from 0.

    An event is an enqueue, or where a marker begins or ends.
    """

    at_ps: Integers  # of each event, by driver and time
    head: Mask  # whether a driver begins with it
    lag_ps: Integers  # least time after the event before it; of a head, its time
    of_launch: Integers  # event of each launch; NOWHERE where its enqueue is not known
    begun: Integers  # event of each row of phases where it begins; NOWHERE without a driver
    over: Integers  # and where it ends
    waiting: Integers  # events that wait for an earlier launch's end,
    ended: Integers  # the point where that launch ends,
    waiting_ps: Integers  # and the host's time from the last of these ends on
    enqueue: Integers  # of each launch with a known enqueue, the event,
    started: Integers  # the point where the launch starts,
    dispatch_ps: Integers  # the least time from one to the other,
    starved: Mask  # and whether the device had nothing else to do when it was enqueued
    # of each point of the devices' lines: idle time before it, until a launch of unknown enqueue
    unlinked: Mask


def find_host(run: Measured, lines: Lines, points: Points, across: Dependencies) -> HostPart:
    """The events of a run's hosts and what waits for them.

    A driver is a thread that enqueues, or several that enqueue for one device: workers of a pool, which
    take turns for the one thread that runs the model. A marker is of the driver that enqueues next on its
    host.

    Between steps the host waits for all launches before, wherever these had ended: it reads the token.
    Within a step it enqueues one launch after the other.
    """
    launches = run.launches
    start, duration = (launches[name].to_numpy() for name in ("start_ps", "duration_ps"))
    begins, ends = (
        points.place(lines.of_launch, start),
        points.place(lines.of_launch, start + duration),
    )
    known = launches["enqueue_ps"].is_not_null().to_numpy()
    queued = launches["enqueue_ps"].fill_null(0).to_numpy()
    known &= (queued <= start) & (begins != NOWHERE)
    hosts = run.devices.select("device_id", "host")
    placed = launches.join(hosts, on="device_id", how="left", maintain_order="left")
    thread = placed.select(pl.struct("host", "enqueue_thread").rank("dense").cast(pl.Int64))
    rows = np.flatnonzero(known)
    devices = launches["device_id"].to_numpy().take(rows)
    driver = _drivers(devices, thread.to_series().to_numpy().take(rows))
    marked, of_marker = _markers(run.phases, placed["host"][rows], queued.take(rows), driver)
    opened, lasted = (
        run.phases[name].to_numpy().take(marked) for name in ("start_ps", "duration_ps")
    )
    key = np.stack(
        (
            np.concatenate((driver, of_marker, of_marker)),
            np.concatenate((queued.take(rows), opened, opened + lasted)),
        ),
        axis=1,
    )
    distinct, which = np.unique(key, axis=0, return_inverse=True)
    of_launch, begun, over = (
        np.full(height, NOWHERE)
        for height in (launches.height, run.phases.height, run.phases.height)
    )
    parts = np.split(which.ravel(), np.cumsum([len(rows), len(marked)]))
    of_launch[rows], begun[marked], over[marked] = parts
    head = np.ones(len(distinct), np.bool_)
    head[1:] = np.diff(distinct[:, 0]) != 0
    at_ps = distinct[:, 1]
    lag = np.where(head, at_ps, np.diff(at_ps, prepend=0))
    reads = np.zeros(len(distinct), np.bool_)
    reads[np.concatenate(parts[1:])] = True
    last = np.where(ends == NOWHERE, NOWHERE, start + duration)
    waiting, launch, waiting_ps = _waits(launches, of_launch, rows, reads, head, at_ps, last)
    lag[waiting] = 0
    started = begins.take(rows)
    all_at = points.at_ps
    previous = np.where(points.head.take(started), np.iinfo(np.int64).min, all_at.take(started - 1))
    if len(across.source):
        latest = np.full(points.count, np.iinfo(np.int64).min)
        np.maximum.at(latest, across.target, all_at.take(across.source))
        previous = np.maximum(previous, latest.take(started))
    starved = queued.take(rows) >= previous
    return HostPart(
        at_ps,
        head,
        lag,
        of_launch,
        begun,
        over,
        waiting,
        ends.take(launch),
        waiting_ps,
        of_launch.take(rows),
        started,
        np.where(starved, start.take(rows) - queued.take(rows), 0),
        starved,
        _unlinked(run, lines, points, begins[~known]),
    )


def _markers(
    phases: pl.DataFrame, host: pl.Series, queued: Integers, driver: Integers
) -> tuple[Integers, Integers]:
    """(rows of phases that are markers on a host that enqueues, the driver of each).

    Args:
        phases: of the run.
        host: of each known enqueue.
        queued: its time.
        driver: its driver.
    """
    marked, found = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    told = (phases["source"] != "module").fill_null(False).to_numpy()
    start = phases["start_ps"].to_numpy()
    for name in phases["host"].drop_nulls().unique().sort():
        mine = np.flatnonzero((phases["host"] == name).fill_null(False).to_numpy() & told)
        own = np.flatnonzero((host == name).fill_null(False).to_numpy())
        if not len(own):
            continue
        own = own[np.argsort(queued.take(own), kind="stable")]
        turn = np.searchsorted(queued.take(own), start.take(mine))
        marked.append(mine)
        found.append(driver.take(own.take(np.minimum(turn, len(own) - 1))))
    return np.concatenate(marked), np.concatenate(found)


def _drivers(device: Integers, thread: Integers) -> Integers:
    """The driver of each launch: threads that share a device are one, by the least of their numbers."""
    keys = [np.unique(key, return_inverse=True)[1] for key in (device, thread)]
    driver, before = thread, np.zeros(0, np.int64)
    while not np.array_equal(driver, before):
        before = driver
        for which in keys:
            least = np.full(which.max(initial=-1) + 1, np.iinfo(np.int64).max)
            np.minimum.at(least, which, driver)
            driver = least.take(which)
    return driver


def _waits(
    launches: pl.DataFrame,
    of_launch: Integers,
    rows: Integers,
    reads: Mask,
    head: Mask,
    at_ps: Integers,
    end_ps: Integers,
) -> tuple[Integers, Integers, Integers]:
    """(event, launch that it waits for, host's time from the last end of these to the event).

    An event waits that a marker bounds, or that begins a step, once all launches before it on its driver have
    ended; those that an earlier event waited for are left out.

    Args:
        launches: of the run.
        of_launch: event of each.
        rows: launches with an event.
        reads: of each event, whether a marker begins or ends there.
        head: of each event, whether a driver begins with it.
        at_ps: of each event.
        end_ps: of each launch; NOWHERE without a point.
    """
    steps = launches.select(pl.struct("request", "step").rank("dense")).to_series()
    step = steps.to_numpy().astype(np.int64)
    by_turn = rows[np.argsort(of_launch.take(rows), kind="stable")]
    bounds = np.searchsorted(of_launch.take(by_turn), np.arange(len(at_ps) + 1)).tolist()
    found: list[tuple[int, int, int]] = []
    running: list[int] = []
    latest = before = NOWHERE
    for event, (lower, upper) in enumerate(pairwise(bounds)):
        mine = by_turn[lower:upper]
        if head[event]:
            running, latest, before = [], NOWHERE, NOWHERE
        new = bool(reads[event]) or int(step[mine[0]]) != before
        if running and new and latest <= at_ps[event]:
            found += [(event, launch, int(at_ps[event]) - latest) for launch in running]
            running, latest = [], NOWHERE
        ends = end_ps.take(mine)
        running += mine[ends != NOWHERE].tolist()
        latest = max(latest, int(ends.max(initial=NOWHERE)))
        before = int(step[mine[0]]) if len(mine) else before
    columns = np.array(found, np.int64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]


def _unlinked(run: Measured, lines: Lines, points: Points, starts: Integers) -> Mask:
    """Points that idle time outside all launches comes before, up to launches that begin at `starts`."""
    mask = np.zeros(points.count, np.bool_)
    candidates = np.unique(starts[starts != NOWHERE])
    candidates = candidates[~points.head.take(candidates)]
    if not len(candidates):
        return mask
    ends = points.at_ps.take(candidates - 1)
    line = np.searchsorted(points.first, candidates, side="right") - 1
    start, duration = (run.launches[name].to_numpy() for name in ("start_ps", "duration_ps"))
    op_start, op_duration = (run.ops[name].to_numpy() for name in ("start_ps", "duration_ps"))
    works = (run.ops["category"] != "control").to_numpy()
    for number in np.unique(line):
        own = np.flatnonzero(line == number)
        of_line = np.flatnonzero((lines.of_op == number) & works)
        launched = np.flatnonzero(lines.of_launch == number)
        opened = np.concatenate((start.take(launched), op_start.take(of_line)))
        closed = np.concatenate(
            ((start + duration).take(launched), (op_start + op_duration).take(of_line))
        )
        at = ends.take(own)
        running = np.searchsorted(np.sort(opened), at, side="right") - np.searchsorted(
            np.sort(closed), at, side="right"
        )
        mask[candidates[own[running == 0]]] = True
    return mask
