"""A graph with changes of circuits: transfers wait for them, and they for the traffic on their ports."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.replay.circuits import CircuitPlan, Circuits, Traffic, plan_changes
from xlahouse.ingest.replay.graph import FREE, Graph, Replay
from xlahouse.ingest.replay.measured import Measured
from xlahouse.ingest.replay.meetings import Meetings


class Network(NamedTuple):
    """What changes of circuits are added to: a run's graph, and the replay of it without circuits."""

    run: Measured  # its tables
    meetings: Meetings  # who waits for whom in transfers
    graph: Graph  # without circuits
    replay: Replay  # of the graph, prepared
    first_meeting: int  # place of the first meeting among the graph's points
    reached: Integers  # times of the points without circuits
    transfer_ps: Integers  # of each member of a meeting


class Switched(NamedTuple):
    """A replay with circuits."""

    reached: Integers  # of each point of the graph
    # A row a change: device_id, request and step of the transfer that it is made for, hidden_ps (while that
    # transfer's devices compute or wait anyway), exposed_ps (the rest), shares (whether traffic that was
    # on the port lasts beyond that transfer's begin; the two then share the port as measured).
    changes: pl.DataFrame
    # request, step, wire_bytes, carried: a row a transfer, or a permute's member
    traffic: pl.DataFrame
    ports: int  # most ports that a device uses
    devices: int  # that have ports


def switch(network: Network, circuits: Circuits, lag_ps: Integers, edge_ps: Integers) -> Switched:
    """Replay a run whose transfers need circuits.

    Args:
        network: the run.
        circuits: ports, delay and policy.
        lag_ps: of each point of the graph.
        edge_ps: of each edge of the graph.
    """
    traffic = find_traffic(network, circuits)
    plan = plan_changes(traffic, circuits)
    graph, waits = _with_changes(network, traffic, plan, circuits.delay_ps)
    count = len(plan.device)
    reached = Replay.of(graph).times(
        graph.head,
        np.concatenate((lag_ps, np.full(count, FREE))),
        np.concatenate((edge_ps, waits)),
    )
    return Switched(
        reached[: len(lag_ps)],
        _changes(network, traffic, plan, circuits.delay_ps, reached),
        _of_steps(network, traffic).with_columns(
            wire_bytes=pl.Series(traffic.wire_bytes).fill_nan(None),
            carried=pl.Series(plan.carried),
        ),
        plan.ports,
        len(np.unique(traffic.device)),
    )


def find_traffic(network: Network, circuits: Circuits) -> Traffic:
    """The meetings that need circuits, each after those that it waits for, and their devices."""
    met, replay = network.meetings, network.replay
    rows = network.run.collectives
    count = int(met.meeting.max(initial=-1)) + 1
    row = np.zeros(count, np.int64)
    row[met.meeting] = met.row
    lasts = np.zeros(count, np.int64)
    np.maximum.at(lasts, met.meeting, network.transfer_ps)
    wanted = pl.DataFrame({"instance": rows["instance"].gather(row)}).join(
        circuits.transfers.with_columns(code=pl.col("axis").rank("dense").cast(pl.Int64)),
        on="instance",
        how="left",
        maintain_order="left",
    )
    wanted = wanted.with_columns(
        wire_bytes=pl.col("wire_bytes").cast(pl.Float64) / pl.len().over("instance")
    )
    chosen = np.flatnonzero(wanted["code"].is_not_null().to_numpy())
    points = network.first_meeting + np.arange(count)
    turn = replay.visit.take(replay.behind.take(points))
    order = chosen[np.argsort(turn.take(chosen), kind="stable")]
    place = np.full(count, -1)
    place[order] = np.arange(len(order))
    own = np.flatnonzero(place.take(met.meeting) >= 0)
    device = rows["device_id"].to_numpy().take(met.row.take(own))
    pairs = np.stack((place.take(met.meeting.take(own)), device), axis=1)
    pairs = np.unique(pairs, axis=0).reshape(-1, 2)
    # A member of a permute waits for others that end with meetings of their own: its senders.
    sends = place.take(met.meeting.take(met.waits_for))
    takes = place.take(met.waits)
    feeds = np.flatnonzero((sends >= 0) & (takes >= 0) & (sends != takes))
    begin = network.reached.take(points.take(order))
    return Traffic(
        order,
        wanted["code"].gather(order).to_numpy().astype(np.int64),
        begin,
        begin + lasts.take(order),
        wanted["wire_bytes"].gather(order).fill_null(np.nan).to_numpy(),
        np.searchsorted(pairs[:, 0], np.arange(len(order) + 1)).astype(np.int64),
        pairs[:, 1].astype(np.int64),
        sends.take(feeds),
        takes.take(feeds),
    )


def _with_changes(
    network: Network, traffic: Traffic, plan: CircuitPlan, delay_ps: int
) -> tuple[Graph, Integers]:
    """(the graph with a point for each change, the least times of the edges that are added).

    Where traffic of two axes shares a port without circuits, a change counts from the begin of the later.
    """
    graph, replay = network.graph, network.replay
    changed = len(graph.head) + np.arange(len(plan.device))
    # Points in the order in which the run's own graph visits them, a change just before its first use.
    meeting = network.first_meeting + traffic.meeting
    order = np.zeros(len(graph.head), np.int64)
    order[replay.joint] = 2 * replay.visit
    turn = order.take(meeting)
    before = turn.take(plan.first_use) - 1
    use, use_of = _with_receivers(traffic, plan, turn, before)
    used = np.full(len(plan.device), np.iinfo(np.int64).max)
    np.minimum.at(used, use_of, traffic.begin_ps.take(use))
    ended, ended_of = plan.ended, plan.ended_of
    until = np.minimum(traffic.end_ps.take(ended), used.take(ended_of))
    waits = np.concatenate((until - traffic.begin_ps.take(ended), np.full(len(use), delay_ps)))
    return Graph(
        np.concatenate((graph.head, np.ones(len(changed), np.bool_))),
        np.concatenate((order, before)),
        np.concatenate((graph.lag_ps, np.full(len(changed), FREE))),
        np.concatenate((graph.source, meeting.take(ended), changed.take(use_of))),
        np.concatenate((graph.target, changed.take(ended_of), meeting.take(use))),
        np.concatenate((graph.edge_ps, waits)),
    ), waits


def _with_receivers(
    traffic: Traffic, plan: CircuitPlan, turn: Integers, before: Integers
) -> tuple[Integers, Integers]:
    """(traffic that waits for a change, the change): receivers of a permute wait for their sender's too.

    Unless they have it already before the sender's port is free: then traffic shares the port.

    Args:
        traffic: what is sent.
        plan: the changes.
        turn: of all traffic, its place in the order of visits.
        before: of each change, the same.
    """
    own = pl.DataFrame({"use": plan.use, "change": plan.use_of})
    feeds = pl.DataFrame({"use": traffic.sends, "takes": traffic.takes})
    more = own.join(feeds, on="use").select("takes", "change").unique(maintain_order=True)
    takes, change = (more[name].to_numpy().astype(np.int64) for name in ("takes", "change"))
    later = turn.take(takes) > before.take(change)
    return (
        np.concatenate((plan.use, takes[later])),
        np.concatenate((plan.use_of, change[later])),
    )


def _changes(
    network: Network, traffic: Traffic, plan: CircuitPlan, delay_ps: int, reached: Integers
) -> pl.DataFrame:
    """What of each change is hidden: those for one transfer begin together, when all their ports are free."""
    met = network.meetings
    arrivals = network.graph.source[: len(met.waits)]
    arrived = np.full(int(met.meeting.max(initial=-1)) + 1, FREE)
    np.maximum.at(arrived, met.waits, reached.take(arrivals))
    begin = np.full(len(traffic.meeting), FREE)
    np.maximum.at(begin, plan.first_use, reached[len(network.graph.head) :])
    begin = begin.take(plan.first_use)
    late = begin + delay_ps - arrived.take(traffic.meeting.take(plan.first_use))
    exposed = np.clip(late, 0, delay_ps)
    shares = np.zeros(len(plan.device), np.bool_)
    first_use = plan.first_use.take(plan.ended_of)
    beyond = traffic.end_ps.take(plan.ended) > traffic.begin_ps.take(first_use)
    shares[plan.ended_of[beyond]] = True
    return _of_steps(network, traffic)[plan.first_use].with_columns(
        device_id=pl.Series(plan.device),
        hidden_ps=pl.Series(delay_ps - exposed),
        exposed_ps=pl.Series(exposed),
        shares=pl.Series(shares),
    )


def _of_steps(network: Network, traffic: Traffic) -> pl.DataFrame:
    """request and step of each meeting of the traffic."""
    met = network.meetings
    row = np.zeros(int(met.meeting.max(initial=-1)) + 1, np.int64)
    row[met.meeting] = met.row
    return network.run.collectives.select("request", "step")[row.take(traffic.meeting)]
