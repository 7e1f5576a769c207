"""Which circuits the ports of devices hold from transfer to transfer, and which changes that takes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.replay.graph import FREE

NEVER, EVERY, FITS, PREFETCH = "never", "every", "fits", "prefetch"
POLICIES = (NEVER, EVERY, FITS, PREFETCH)
SET_UP = -1  # in place of a change: circuits that were set up before the run


@dataclass(frozen=True)
class Circuits:
    """Optical circuits in place of the links of some transfers: a port holds those of one axis at a time."""

    transfers: pl.DataFrame  # instance, axis, wire_bytes: what is sent over circuits
    at_once: int  # ports of a device
    delay_ps: int  # that a change takes
    policy: str  # when ports change, by a name of POLICIES


class Traffic(NamedTuple):
    """Meetings that are sent over circuits, each after those that it waits for: columns."""

    meeting: Integers  # number of the meeting
    axis: Integers  # number of the axis, by name
    begin_ps: Integers  # without circuits
    end_ps: Integers  # without circuits
    wire_bytes: NDArray[np.float64]  # NaN where they are not known
    first: Integers  # place in `device` of its first device; one more than there are meetings
    device: Integers  # devices whose ports a meeting takes
    sends: Integers  # of each permute's member that sends to another, its place here,
    takes: Integers  # and that of the member that receives


class CircuitPlan(NamedTuple):
    """Changes, and the traffic around them, by its place in Traffic: columns."""

    device: Integers  # of each change, the device whose port changes
    first_use: Integers  # of each change, the traffic that it is made for
    ended: Integers  # traffic that a change waits for,
    ended_of: Integers  # and the change
    use: Integers  # traffic that waits for a change,
    use_of: Integers  # and the change
    carried: Mask  # of all traffic, whether it is sent over circuits
    ports: int  # most ports that a device uses


@dataclass
class _Span:
    """Traffic of a port from one change to the next, or a burst: consecutive transfers of a device's axis."""

    change: int = SET_UP  # number of the change that the traffic waits for; SET_UP before the first
    traffic: list[int] = field(default_factory=list)  # its meetings, by place in Traffic
    end_ps: int = FREE  # of its last transfer; FREE without one

    def add(self, place: int, end_ps: int) -> None:
        self.traffic.append(place)
        self.end_ps = max(self.end_ps, end_ps)


@dataclass
class _Device:
    """Ports by their axis, the one that was used last at the end, and the device's last two bursts."""

    # axis -> traffic of its port; the one used last stands last
    ports: OrderedDict[int, _Span] = field(default_factory=OrderedDict)
    axis: int = -1  # of the current burst; -1 before the first
    burst: _Span = field(default_factory=_Span)  # the current burst
    burst_before: _Span = field(default_factory=_Span)  # the burst before it

    def pass_traffic(self, place: int, axis: int, end_ps: int) -> None:
        """Note traffic, whether circuits carry it or not."""
        if axis != self.axis:
            self.burst_before, self.burst, self.axis = self.burst, _Span(), axis
        self.burst.add(place, end_ps)


class _Planner:
    """Follows the traffic and makes the changes of a policy."""

    def __init__(self, traffic: Traffic, circuits: Circuits) -> None:
        self.traffic, self.circuits = traffic, circuits
        self.begin, self.end = traffic.begin_ps.tolist(), traffic.end_ps.tolist()
        self.devices = {device: _Device() for device in np.unique(traffic.device).tolist()}
        self.changes: list[tuple[int, int]] = []  # device, first use
        self.ended: list[tuple[int, int]] = []
        self.use: list[tuple[int, int]] = []
        self.carried = np.zeros(len(traffic.meeting), np.bool_)
        self.ports = 0

    def run(self) -> CircuitPlan:
        """The plan."""
        if self.circuits.policy == NEVER:
            self._set_up()
        bounds, device = self.traffic.first.tolist(), self.traffic.device.tolist()
        for place, axis in enumerate(self.traffic.axis.tolist()):
            own = device[bounds[place] : bounds[place + 1]]
            if self._connects(place, axis, own):
                self._carry(place, axis, own)
            for number in own:
                self.devices[number].pass_traffic(place, axis, self.end[place])
        columns = (
            np.array(pairs, np.int64).reshape(-1, 2).T
            for pairs in (self.changes, self.ended, self.use)
        )
        (changed, first), (ended, ended_of), (use, use_of) = columns
        return CircuitPlan(changed, first, ended, ended_of, use, use_of, self.carried, self.ports)

    def _set_up(self) -> None:
        """Give each device's ports to the axes that it sends most bytes over."""
        traffic = self.traffic
        sizes = np.diff(traffic.first)
        sent = pl.DataFrame(
            {
                "device": traffic.device,
                "axis": np.repeat(traffic.axis, sizes),
                "wire_bytes": np.repeat(np.nan_to_num(traffic.wire_bytes), sizes),
            }
        )
        most = sent.group_by("device", "axis").agg(pl.col("wire_bytes").sum())
        for device, axis, _ in most.sort(
            "wire_bytes", "axis", descending=[True, False]
        ).iter_rows():
            ports = self.devices[device].ports
            if len(ports) < self.circuits.at_once:
                ports[axis] = _Span()
                self.ports = max(self.ports, len(ports))

    def _connects(self, place: int, axis: int, own: list[int]) -> bool:
        """Make the changes that some traffic needs; False where the policy makes none."""
        missing = [number for number in own if axis not in self.devices[number].ports]
        if not missing:
            return True
        if self.circuits.policy == NEVER:
            return False
        waits = {number: self._waits(self.devices[number], axis) for number in missing}
        if self.circuits.policy == FITS:
            free = max((span.end_ps for each in waits.values() for span in each), default=FREE)
            if free + self.circuits.delay_ps > self.begin[place]:
                return False
        for number in missing:
            self._change(number, place, axis, waits[number])
        return True

    def _waits(self, device: _Device, axis: int) -> list[_Span]:
        """The traffic whose end a change of a device's port waits for; none while a port is unused."""
        if len(device.ports) < self.circuits.at_once:
            return []
        port = next(iter(device.ports.values()))
        earlier = device.axis == axis or self.circuits.policy == PREFETCH
        return [port, device.burst_before if earlier else device.burst]

    def _change(self, number: int, place: int, axis: int, waits: list[_Span]) -> None:
        """Turn the port that was used least lately; an unused one was set up before the run."""
        device = self.devices[number]
        change = SET_UP
        if waits:
            device.ports.popitem(last=False)
            change = len(self.changes)
            self.changes.append((number, place))
            ended = {other for span in waits for other in span.traffic}
            self.ended += [(other, change) for other in sorted(ended)]
        device.ports[axis] = _Span(change)
        self.ports = max(self.ports, len(device.ports))

    def _carry(self, place: int, axis: int, own: list[int]) -> None:
        self.carried[place] = True
        for number in own:
            ports = self.devices[number].ports
            port = ports[axis]
            ports.move_to_end(axis)
            port.add(place, self.end[place])
            if port.change != SET_UP:
                self.use.append((place, port.change))


def plan_changes(traffic: Traffic, circuits: Circuits) -> CircuitPlan:
    """The changes of a policy.

    A port turns to another axis when its device next sends over that axis: the port that was used least
    lately, once its own traffic and the device's last burst have ended; with prefetch, the burst before
    the last. Traffic that finds no circuits keeps the links that it was measured on.
    """
    return _Planner(traffic, circuits).run()
