"""A run as a graph of points that wait for each other, and its costs as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.spans import merge_spans
from xlahouse.ingest.replay.circuits import Circuits
from xlahouse.ingest.replay.dependencies import Dependencies, find_dependencies
from xlahouse.ingest.replay.graph import FREE, Graph, Replay
from xlahouse.ingest.replay.host import HostPart, find_host
from xlahouse.ingest.replay.launched import Launched, find_launched
from xlahouse.ingest.replay.lines import NOWHERE, Lines, find_lines
from xlahouse.ingest.replay.measured import Measured
from xlahouse.ingest.replay.meetings import Meetings, find_meetings
from xlahouse.ingest.replay.owners import owners_of
from xlahouse.ingest.replay.points import Points, find_points
from xlahouse.ingest.replay.switched import Network, Switched, switch
from xlahouse.ingest.replay.waits import Waits
from xlahouse.ingest.replay.warp import Warp

_NO_SAVINGS = pl.DataFrame(schema={"instance": pl.Int64, "saved_ps": pl.Int64})


@dataclass(frozen=True)
class Costs:
    """What is changed in a replay; as built, nothing is."""

    # Of transfers, the time that is subtracted (a negative one is added); others are as measured.
    savings: pl.DataFrame = field(default_factory=_NO_SAVINGS.clone)
    op_scale: NDArray[np.float64] | None = None  # of each op, its time over the measured one
    host_ratio: float = 1.0  # time of the host over the measured one
    skew: bool = True  # whether a transfer waits for its last member
    overlap: bool = False  # whether transfers run beside all compute of their step
    circuits: Circuits | None = None  # that transfers need, and that must be set up for them


@dataclass(frozen=True)
class Times:
    """A replayed run: its lines, and its enqueues."""

    warps: list[Warp]  # by line
    enqueue_ps: Integers  # of each launch; NOWHERE where it is not known
    # of each row of phases, where it begins and ends; NOWHERE where no driver is known
    marker_ps: tuple[Integers, Integers]
    waits: Waits  # of transfers for circuits


@dataclass(frozen=True)
class Schedule:
    """A measured run, prepared to be replayed."""

    run: Measured  # its tables
    lines: Lines  # that order its events
    meetings: Meetings  # who waits for whom in transfers
    unmet: int  # transfers in no meeting: they keep their measured time
    points: Points  # the points in time that costs move
    host: HostPart  # waits between launches and the host
    across: Dependencies  # waits between the lines of a device
    launched: Launched  # waits between launches and their ops

    @classmethod
    def of(cls, run: Measured) -> Schedule:
        """Prepare a run.

        Raises:
            WarehouseError: it does not say who waited for whom, or does not replay as it was measured.
        """
        run.check()
        lines = find_lines(run)
        meetings, unmet = find_meetings(run, lines.of_collective)
        points = find_points(lines, meetings)
        across = find_dependencies(run, lines, points)
        host = find_host(run, lines, points, across)
        launched = find_launched(run, lines, points, across.target)
        schedule = cls(run, lines, meetings, unmet, points, host, across, launched)
        if not schedule._is_as_measured():
            raise WarehouseError(
                f"{run.name}: a replay without a change differs from it; please report this"
            )
        return schedule

    def _is_as_measured(self) -> bool:
        """Whether a replay without a change is the run."""
        assert self._replay
        transfer = self.transfers(Costs())
        return self._replay.keeps(self._lags(Costs(), transfer), self._edges(Costs(), transfer))

    @cached_property
    def _ends(self) -> Integers:
        """The point where each member's wait ends."""
        return self.points.place(self.meetings.line, self.meetings.end_ps)

    @cached_property
    def _last_of_step(self) -> tuple[Integers, Integers, Integers]:
        """(step of each member, numbered from 0; of each step, its first meeting and its last point)."""
        steps = self.run.device_steps.with_row_index("number").with_columns(
            end_ps=pl.col("start_ps") + pl.col("duration_ps")
        )
        key = ["device_id", "request", "step"]
        rows = self.run.collectives.select(key)[self.meetings.row]
        of_step = rows.join(
            steps.select(*key, "number"),
            on=key,
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )["number"]
        number = of_step.fill_null(steps.height).to_numpy().astype(np.int64)
        first = np.full(steps.height + 1, np.iinfo(np.int64).max)
        np.minimum.at(first, number, self.meetings.begin_ps)
        opens = np.full(steps.height + 1, NOWHERE)
        is_first = self.meetings.begin_ps == first.take(number)
        opens[number[is_first]] = self.meetings.meeting[is_first]
        main = steps["device_id"].replace_strict(
            self.lines.main, default=NOWHERE, return_dtype=pl.Int64
        )
        line = main.to_numpy().astype(np.int64)
        last = self.points.before(line, steps["end_ps"].to_numpy())
        last = np.append(last, NOWHERE)
        late = np.where(last != NOWHERE, self.points.at_ps.take(np.maximum(last, 0)), 0) < first
        opens[late] = NOWHERE
        return number, opens, last

    @cached_property
    def _in_flight(self) -> NDArray[np.float64]:
        """Of each step, how long any transfer is in flight until its last point, over the sum of all."""
        number, opens, last = self._last_of_step
        met = self.meetings
        until = np.where(last == NOWHERE, met.begin_ps.min(initial=0), self.points.at_ps.take(last))
        span = np.minimum(met.transfer_ps, until.take(number) - met.begin_ps)
        merged = merge_spans(number, met.begin_ps, np.maximum(span, 0))
        union, total = (
            np.bincount(key, weights=weight, minlength=len(opens))
            for key, weight in ((merged.key, merged.duration_ps), (number, met.transfer_ps))
        )
        return np.where(union < total, union / np.maximum(total, 1), 1.0)

    @cached_property
    def _graph(self) -> Graph:
        """Points of lines, then the host's events, then meetings."""
        points, host, met = self.points, self.host, self.meetings
        events = points.count
        meetings = events + len(host.at_ps)
        count = int(met.meeting.max(initial=-1)) + 1
        begin = np.zeros(count, np.int64)
        begin[met.meeting] = met.begin_ps
        arrivals = points.place(met.line, met.arrival_ps)
        _, opens, last = self._last_of_step
        bound = np.flatnonzero((opens != NOWHERE) & (last != NOWHERE))
        lines = points.at_ps
        between = np.where(points.head, lines, np.diff(lines, prepend=0))
        parts = (
            (arrivals.take(met.waits_for), meetings + met.waits),
            (meetings + met.meeting, self._ends),
            (arrivals, self._ends),
            (self.across.source, self.across.target),
            (self.launched.source, self.launched.target),
            (host.ended, events + host.waiting),
            (events + host.enqueue, host.started),
            (meetings + opens[bound], last[bound]),
        )
        source, target = (np.concatenate(column) for column in zip(*parts, strict=True))
        return Graph(
            np.concatenate((points.head, host.head, np.ones(count, np.bool_))),
            np.concatenate((lines, host.at_ps, begin)),
            np.concatenate((between, host.lag_ps, np.full(count, FREE))),
            source,
            target,
            np.zeros(len(source), np.int64),
        )

    @cached_property
    def _replay(self) -> Replay:
        return Replay.of(self._graph)

    def transfers(self, costs: Costs) -> Integers:
        """The transfer time of each member of a meeting."""
        instance = self.run.collectives.select("instance")[self.meetings.row]
        saved = instance.join(costs.savings, on="instance", how="left", maintain_order="left")
        less = saved["saved_ps"].fill_null(0).to_numpy()
        left: Integers = np.maximum(self.meetings.transfer_ps - less, 0)
        return left

    def _lags(self, costs: Costs, transfer: Integers) -> Integers:
        """The least time of each point after the one before it on its line."""
        lag = self._graph.lag_ps.copy()
        inner = slice(0, self.points.count)
        scale = costs.op_scale
        if scale is not None:
            owner = owners_of(self.run, self.lines, self.points)
            owned = np.flatnonzero(owner != NOWHERE)
            scaled = lag[owned] * scale.take(owner.take(owned))
            lag[owned] = np.rint(scaled).astype(np.int64)
        lag[self._ends] = self.meetings.least_ps
        host, ratio = self.host, costs.host_ratio
        lag[host.started[host.starved]] = 0
        lag[self.across.target] = 0
        lag[self.launched.target[self.launched.alone]] = 0
        if ratio != 1:
            idle = np.flatnonzero(host.unlinked)
            lag[idle] = np.rint(lag[idle] * ratio).astype(np.int64)
            events = np.arange(len(host.at_ps))[~host.head] + self.points.count
            lag[events] = np.rint(lag[events] * ratio).astype(np.int64)
        if not costs.skew:
            alone = ~self.meetings.is_async
            lag[self._ends[alone]] = transfer[alone]
        assert (lag[inner] >= 0).all()
        return lag

    def _edges(self, costs: Costs, transfer: Integers) -> Integers:
        """The least time of each edge, in the order of the graph."""
        met, host = self.meetings, self.host
        number, opens, last = self._last_of_step
        bound = np.flatnonzero((opens != NOWHERE) & (last != NOWHERE))
        free = np.full(len(met.row), FREE)
        waited = np.zeros(len(met.row), np.int64) if costs.overlap else transfer
        total = np.zeros(len(opens), np.int64)
        if costs.overlap:
            np.add.at(total, number, transfer)
            total = np.rint(total * self._in_flight).astype(np.int64)
        waiting, dispatch = host.waiting_ps, host.dispatch_ps
        if costs.host_ratio != 1:
            waiting, dispatch = (
                np.rint(each * costs.host_ratio).astype(np.int64) for each in (waiting, dispatch)
            )
        return np.concatenate(
            (
                np.zeros(len(met.waits), np.int64),
                waited if costs.skew else free,
                free if costs.skew else np.where(met.is_async, waited, free),
                self.across.wait_ps,
                self.launched.wait_ps,
                waiting,
                dispatch,
                total[bound] if costs.overlap else np.full(len(bound), FREE),
            )
        )

    def _reached(self, costs: Costs) -> Integers:
        if costs.circuits is not None:
            return self.switch(costs, costs.circuits).reached
        transfer = self.transfers(costs)
        lag, edge = self._lags(costs, transfer), self._edges(costs, transfer)
        return self._replay.times(self._graph.head, lag, edge)

    def switch(self, costs: Costs, circuits: Circuits) -> Switched:
        """The run with other costs, its transfers over circuits.

        Raises:
            WarehouseError: the costs let transfers end whenever they begin.
        """
        if costs.overlap or not costs.skew:
            raise WarehouseError(
                f"{self.run.name}: circuits delay the begin of transfers, which decides nothing without "
                "skew and with perfect overlap; predict one change at a time"
            )
        graph, transfer = self._graph, self.transfers(costs)
        lag, edge = self._lags(costs, transfer), self._edges(costs, transfer)
        reached = self._replay.times(graph.head, lag, edge)
        first_meeting = self.points.count + len(self.host.at_ps)
        network = Network(
            self.run, self.meetings, graph, self._replay, first_meeting, reached, transfer
        )
        return switch(network, circuits, lag, edge)

    def replay(self, costs: Costs, reached: Integers | None = None) -> Times:
        """The run as it would have been with other costs.

        Args:
            costs: what is changed.
            reached: the points' times, where `switch` has them already.
        """
        if reached is None:
            reached = self._reached(costs)
        transfer = self.transfers(costs)
        if costs.overlap:  # a transfer begins with its last arrival, however long the step lasts
            places = self.points.count + len(self.host.at_ps) + self.meetings.meeting
            transfer = np.maximum(reached[self._ends] - reached.take(places), 0)
        warps = []
        for number, times in enumerate(self.points.lines):
            first = int(self.points.first[number])
            replayed = reached[first : first + len(times)]
            warps.append(self._with_begins(number, times, replayed, transfer))
        host = self.host
        events = reached[self.points.count : self.points.count + len(host.at_ps)]
        queue, begun, over = (
            _of_events(events, e) for e in (host.of_launch, host.begun, host.over)
        )
        return Times(warps, queue, (begun, over), self._waits(reached))

    def _waits(self, reached: Integers) -> Waits:
        """The members of transfers that begin after their last arrival: these wait for circuits."""
        met = self.meetings
        first = self.points.count + len(self.host.at_ps)
        begin = reached[first : first + int(met.meeting.max(initial=-1)) + 1]
        arrived = np.full(len(begin), FREE)
        arrivals = self._graph.source[: len(met.waits)]
        np.maximum.at(arrived, met.waits, reached.take(arrivals))
        late = np.flatnonzero((begin > arrived).take(met.meeting))
        meeting = met.meeting.take(late)
        return Waits(met.row.take(late), arrived.take(meeting), begin.take(meeting))

    def _with_begins(
        self, line: int, times: Integers, replayed: Integers, transfer: Integers
    ) -> Warp:
        """The warp of a line; within a wait, a barrier ends as long after the last arrival as measured.

        So a transfer's saving is subtracted from the transfer, and the wait before the last arrival stays.
        """
        met = self.meetings
        mine = np.flatnonzero((met.line == line) & ~met.is_async)
        if not len(mine):
            return Warp(times, replayed)
        starts = self.run.collectives["start_ps"].to_numpy().take(met.row.take(mine))
        arrival, begin, end = (
            each.take(mine) for each in (met.arrival_ps, met.begin_ps, met.end_ps)
        )
        ends = self._ends.take(mine) - int(self.points.first[line])
        until = replayed.take(ends)
        begins = np.maximum(until - transfer.take(mine), replayed.take(ends - 1))
        started = np.minimum(begins + (starts - begin), until)
        # The last member's wait begins and ends at one measured time: it ends just after.
        just = (begin == arrival).astype(np.int64)
        inner = ((begin > arrival) | (starts > begin)) & (begin + just < end)
        after = (starts > begin) & (starts < end)
        at = np.concatenate((times, (begin + just)[inner], starts[after]))
        to = np.concatenate((replayed, (begins + just)[inner], started[after]))
        order = np.argsort(at, kind="stable")
        return Warp(at.take(order), to.take(order))


def _of_events(at_ps: Integers, event: Integers) -> Integers:
    """The times of some of the host's events; NOWHERE without one."""
    known = event != NOWHERE
    found = np.full(len(event), NOWHERE)
    found[known] = at_ps.take(event[known])
    return found
