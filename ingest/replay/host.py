"""What devices wait for on the host: a launch for its enqueue, and an enqueue for the step before."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.replay.lines import NOWHERE, Lines
from xlahouse.ingest.replay.measured import Measured
from xlahouse.ingest.replay.points import Points


class HostPart(NamedTuple):
    """The host's part of a graph: lines of enqueues, and edges. Enqueues are numbered from 0."""

    at_ps: Integers  # of each enqueue, by driver and time
    head: Mask  # whether a driver begins with it
    lag_ps: Integers  # least time after the enqueue before it; of a head, its time
    of_launch: Integers  # enqueue of each launch; NOWHERE where it is not known
    waiting: Integers  # enqueues that wait for an earlier launch's end,
    ended: Integers  # the point where that launch ends,
    waiting_ps: Integers  # and the host's time from there on
    enqueue: Integers  # of each launch with a known enqueue, the enqueue,
    started: Integers  # the point where the launch starts,
    dispatch_ps: Integers  # the least time from one to the other,
    starved: Mask  # and whether the device had nothing else to do when it was enqueued
    # of each point of the devices' lines: idle time before it, until a launch of unknown enqueue
    unlinked: Mask


def find_host(run: Measured, lines: Lines, points: Points) -> HostPart:
    """The enqueues of a run and what waits for them.

    A driver is a thread that enqueues, or several that enqueue for one device: workers of a pool, which
    take turns for the one thread that runs the model.

    Between steps the host waits for the step before wherever that had ended: it reads the token.
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
    thread = launches.join(hosts, on="device_id", how="left", maintain_order="left").select(
        pl.struct("host", "enqueue_thread").rank("dense").cast(pl.Int64)
    )
    rows = np.flatnonzero(known)
    devices = launches["device_id"].to_numpy().take(rows)
    driver = _drivers(devices, thread.to_series().to_numpy().take(rows))
    key = np.stack((driver, queued.take(rows)), axis=1)
    distinct, which = np.unique(key, axis=0, return_inverse=True)
    of_launch = np.full(launches.height, NOWHERE)
    of_launch[rows] = which.ravel()
    head = np.ones(len(distinct), np.bool_)
    head[1:] = np.diff(distinct[:, 0]) != 0
    at_ps = distinct[:, 1]
    lag = np.where(head, at_ps, np.diff(at_ps, prepend=0))
    waits = _waits(launches, of_launch, rows, head, at_ps, start + duration)
    waits = waits[ends.take(waits[:, 1]) != NOWHERE]
    waiting, launch = waits[:, 0], waits[:, 1]
    lag[waiting] = 0
    started = begins.take(rows)
    all_at = points.at_ps
    previous = np.where(points.head.take(started), np.iinfo(np.int64).min, all_at.take(started - 1))
    starved = queued.take(rows) >= previous
    return HostPart(
        at_ps,
        head,
        lag,
        of_launch,
        waiting,
        ends.take(launch),
        at_ps.take(waiting) - (start + duration).take(launch),
        of_launch.take(rows),
        started,
        np.where(starved, start.take(rows) - queued.take(rows), 0),
        starved,
        _unlinked(run, lines, points, begins[~known]),
    )


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
    head: Mask,
    at_ps: Integers,
    end_ps: Integers,
) -> Integers:
    """(enqueue, launch) of every enqueue that begins a step after its driver's launches have ended."""
    if not len(rows):
        return np.zeros((0, 2), np.int64)
    steps = launches.select(pl.struct("request", "step").rank("dense")).to_series()
    step = steps.to_numpy().astype(np.int64)
    by_turn = rows[np.argsort(of_launch.take(rows), kind="stable")]
    turn = of_launch.take(by_turn)
    first = np.flatnonzero(np.diff(turn, prepend=-1))
    found = []
    latest = NOWHERE
    bounds = [*first.tolist(), len(by_turn)]
    before = NOWHERE
    for lower, upper in pairwise(bounds):
        mine = by_turn[lower:upper]
        enqueue = int(turn[lower])
        if head[enqueue]:
            latest = before = NOWHERE
        new = before != NOWHERE and int(step[mine[0]]) != before
        if new and latest != NOWHERE and end_ps[latest] <= at_ps[enqueue]:
            found.append((enqueue, latest))
        own = int(mine[np.argmax(end_ps.take(mine))])
        latest = own if latest == NOWHERE or end_ps[own] > end_ps[latest] else latest
        before = int(step[mine[0]])
    return np.array(found, np.int64).reshape(-1, 2)


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
