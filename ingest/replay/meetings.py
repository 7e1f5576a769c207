"""Where devices wait for each other: a collective's transfer begins when its last member has arrived."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.replay.measured import Measured

WAITED_PS = (
    1_000_000  # METRICS, Bandwidth: a done op that waits less does not show when a transfer ended
)


class Meetings(NamedTuple):
    """Members of meetings, a row each, and who waits for whom: columns."""

    row: Integers  # row of collectives
    line: Integers  # number of the line that it waits on
    arrival_ps: Integers  # start of the collective, or of its start op
    from_ps: Integers  # from here on the line waits: the arrival, or the start of the done op
    end_ps: Integers  # end of the collective
    begin_ps: Integers  # of the transfer: the last arrival
    # from there to the member's end; where it did not wait, to its done op at most
    transfer_ps: Integers
    least_ps: Integers  # time that a done op takes by itself; 0 elsewhere
    meeting: Integers  # number of the meeting that ends for it, from 0
    waits: Integers  # of each wait, the meeting
    waits_for: Integers  # of each wait, the member whose arrival it is

    @property
    def is_async(self) -> Mask:
        """Whether a member's line goes on while the transfer is in flight."""
        apart: Mask = self.from_ps > self.arrival_ps
        return apart


_OWN = ("row", "line", "arrival_ps", "from_ps", "end_ps", "begin_ps", "transfer_ps", "least_ps")


def find_meetings(run: Measured, line: Integers) -> tuple[Meetings, int]:
    """(the meetings of a run, how many transfers are in none and keep their measured time).

    A collective's members all wait for the last one; the members of a permute only for the devices
    that send to them. Transfers that end before a member arrives, or that overlap another on their line,
    contradict this and are in no meeting.

    Args:
        run: the run.
        line: of each transfer.
    """
    members = _members(run, line)
    lasting = members.end_ps > members.arrival_ps
    members = _only(members, lasting)
    while True:
        wrong = _contradicting(members)
        if not wrong.any():
            return members, run.collectives.height - len(members.row)
        bad = np.unique(run.collectives["instance"].to_numpy()[members.row[wrong]])
        instance = run.collectives["instance"].to_numpy()[members.row]
        members = _only(members, ~np.isin(instance, bad))


def _members(run: Measured, line: Integers) -> Meetings:
    rows = run.collectives
    start, duration = (rows[name].to_numpy() for name in ("start_ps", "duration_ps"))
    end, arrival = start + duration, rows["arrival_ps"].to_numpy()
    wait = rows["wait_ps"].fill_null(0).to_numpy()
    is_async = rows["is_async"].fill_null(False).to_numpy()
    done = np.where(is_async, end - wait, arrival)
    waited = ~is_async | (wait > WAITED_PS)
    meeting, waits, waits_for = _who_waits(run)
    begin = np.full(int(meeting.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(begin, waits, arrival.take(waits_for))
    begins = begin.take(meeting)
    return Meetings(
        np.arange(rows.height),
        line,
        arrival,
        np.where(is_async, np.maximum(done, arrival), arrival),
        end,
        begins,
        np.where(waited, end, done) - begins,
        np.where(waited, 0, wait),
        meeting,
        waits,
        waits_for,
    )


def _who_waits(run: Measured) -> tuple[Integers, Integers, Integers]:
    """(meeting of each transfer, meeting of each wait, transfer whose arrival it waits for)."""
    rows = run.collectives.select("program_id", "op", "device_id", "instance").with_row_index("row")
    pairs = run.permute_pairs.select("program_id", "op", "source_device_id", "target_device_id")
    permutes = rows.join(pairs.select("program_id", "op").unique(), on=["program_id", "op"])
    is_permute = np.zeros(rows.height, np.bool_)
    is_permute[permutes["row"].to_numpy()] = True
    instance = rows["instance"].to_numpy()
    place = np.arange(rows.height)
    # A permute's member has a meeting of its own; one instance of another kind is one meeting.
    _, shared = np.unique(instance, return_inverse=True)
    meeting = np.where(is_permute, place, rows.height + shared)
    _, meeting = np.unique(meeting, return_inverse=True)
    sends = permutes.join(
        pairs,
        left_on=["program_id", "op", "device_id"],
        right_on=["program_id", "op", "target_device_id"],
    ).select("row", "instance", device_id="source_device_id")
    arrivals = sends.join(
        permutes.select("instance", "device_id", sender="row"), on=["instance", "device_id"]
    )
    waiting = np.concatenate((place, arrivals["row"].to_numpy().astype(np.int64)))
    waited = np.concatenate((place, arrivals["sender"].to_numpy().astype(np.int64)))
    return meeting.astype(np.int64), meeting.take(waiting).astype(np.int64), waited


def _only(members: Meetings, chosen: Mask) -> Meetings:
    """Some members, with the waits among them; meetings are numbered again."""
    rows = np.flatnonzero(chosen)
    numbers, meeting = np.unique(members.meeting.take(rows), return_inverse=True)
    place = np.full(len(members.row), -1)
    place[rows] = np.arange(len(rows))
    kept = chosen.take(members.waits_for) & np.isin(members.waits, numbers)
    columns = {
        name: column.take(rows) for name, column in members._asdict().items() if name in _OWN
    }
    return Meetings(
        **columns,
        meeting=meeting.astype(np.int64),
        waits=np.searchsorted(numbers, members.waits[kept]),
        waits_for=place.take(members.waits_for[kept]),
    )


def _contradicting(members: Meetings) -> Mask:
    """Members whose times contradict that they waited, or that lie across another on their line."""
    wrong: Mask = members.transfer_ps < 0
    order = np.lexsort((members.from_ps, members.line))
    line, start, end = (
        each.take(order) for each in (members.line, members.from_ps, members.end_ps)
    )
    same = line[1:] == line[:-1]
    crosses = np.concatenate(([False], same & (start[1:] < end[:-1])))[: len(order)]
    wrong[order[crosses]] = True
    # An arrival within another's wait would be no point of its line.
    for number in np.unique(line):
        mine = np.flatnonzero(line == number)
        starts, ends = start.take(mine), end.take(mine)
        own = np.flatnonzero(members.line == number)
        arrivals = members.arrival_ps.take(own)
        before = np.searchsorted(starts, arrivals, side="left") - 1
        inside = (before >= 0) & (ends.take(np.maximum(before, 0)) > arrivals)
        wrong[own[inside]] = True
    return wrong
