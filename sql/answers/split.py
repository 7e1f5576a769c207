"""The time of a phase's steps, taken apart into parts that add up: from views alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xlahouse.sql.answers.losses import CIRCUITS, COMPUTE, HOST

IN_WINDOW = ("exposed_copy", "sync_wait", CIRCUITS, "idle")
SPLIT = (*IN_WINDOW, "between_steps", "outside")
NO_PERIODS = (
    "periods are not known: the clocks of hosts and devices cannot be compared, so time between steps is "
    "left out"
)
NOT_DIVIDED = "kernels communicate while they compute, and the trace does not divide their time"
OTHER_AXES = "exposed communication is not divided by axis: some prefills of the run do not count"

TIME_SQL = "from comm_compute_v2 where run_id = $run"
AXES_SQL = """
select axis, sum(exposed_ps) as exposed_ps from exposed_collective_v1
where run_id = $run and phase is not distinct from $phase
group by axis order by exposed_ps desc, axis
"""
# A device's prefill lasts from the marker on the host, by a clock that its own can be compared with, to the
# end of its own last op; requests are those that TTFT is measured over.
PREFILL_SQL = """
with markers as (
    select s.request, s.clock_group, s.marker_start_ps as marker_ps
    from _step_clock_v1 as s
    inner join step_latency_v1 as l
        on l.run_id = s.run_id and l.request = s.request and l.step = s.step
    where s.run_id = $run and s.step = 0 and l.latency_s is not null
)
select
    cast(count(*) as bigint) as device_steps,
    cast(count(distinct t.device_id) as bigint) as devices,
    cast(sum(greatest(t.start_ps - m.marker_ps, 0) + t.window_ps) as bigint) as period_ps,
    cast(sum(greatest(t.start_ps - m.marker_ps, 0)) as bigint) as host_ps,
    cast(case when count(t.compute_ps) = count(*) then sum(t.compute_ps) end as bigint) as compute_ps,
    cast(case when count(t.exposed_ps) = count(*) then sum(t.exposed_ps) end as bigint) as exposed_ps,
    cast(sum(t.exposed_copy_ps) as bigint) as exposed_copy_ps,
    cast(sum(t.sync_wait_ps) as bigint) as sync_wait_ps,
    cast(sum(t.idle_ps) as bigint) as idle_ps
from device_time_v1 as t
left join _apart_clock_v1 as c on c.run_id = t.run_id and c.device_id = t.device_id
inner join markers as m
    on m.request = t.request and m.clock_group = coalesce(c.clock_group, '')
where t.run_id = $run and t.step = 0 and t.core is distinct from 'sparsecore'
    and t.phase in ('prefill', 'mixed')
"""
# Of a run predicted over circuits; a prefill's are those of requests that TTFT is measured over.
_WAITS_SQL = """
select a.axis, cast(sum(w.exposed_ps) as double) as exposed_ps,
    cast(sum(w.sync_wait_ps) as bigint) as sync_wait_ps
from circuit_waits as w
inner join devices as d on d.run_id = w.run_id and d.device_id = w.device_id
left join collective_axis_v1 as a
    on a.run_id = w.run_id and a.world = d.world and a.program_id = w.program_id and a.op = w.op
    and a.group_index is not distinct from w.group_index
where w.run_id = $run and w.phase is not distinct from $phase and {chosen}
group by a.axis
"""
WAITS_SQL = _WAITS_SQL.format(chosen="true")
PREFILL_WAITS_SQL = _WAITS_SQL.format(
    chosen="""w.step = 0 and exists (
        select 1 from step_latency_v1 as l
        where l.run_id = w.run_id and l.request = w.request and l.step = 0 and l.latency_s is not null
    )"""
)


@dataclass(frozen=True)
class Part:
    """A part of the time of a phase's steps, summed over devices and steps."""

    # compute, exposed, exposed_copy, sync_wait, circuits, idle, between_steps, outside, unsplit or host
    name: str
    axis: str | None  # of exposed communication
    time_ps: int  # over all devices and steps
    mean_ps: float  # per step of a device, or per device, as the split counts
    share: float  # of the whole, 0 to 1


@dataclass(frozen=True)
class Split:
    """Where the time of a phase's steps goes; the parts add up to the whole."""

    phase: str | None  # of the steps; None: of all windows, where no phase is known
    whole: str  # period; window: periods are not known; marker: from a marker to the last op
    device_steps: int  # steps, each counted once a device
    devices: int  # number of devices
    programs: (
        int  # of which each step is one execution; 1 where markers name steps, or there are none
    )
    time_ps: int  # of all device steps
    mean_ps: float  # per step of a device, or per device
    parts: tuple[Part, ...]  # exposed communication once an axis, every other part once
    why: str | None  # what the parts cannot say; None where they say all

    @property
    def per(self) -> str:
        """What the means are of: a `step`, or a `device` where no two steps need be alike."""
        return _per(self.phase, self.programs)

    @property
    def count(self) -> int:
        """How many there are of `per`, over which means are taken."""
        return self.devices if self.per == "device" else self.device_steps


def _per(phase: str | None, programs: int) -> str:
    return "device" if phase is None or programs > 1 else "step"


def split_time(row: Mapping[str, Any], axes: Axes, programs: int = 1) -> Split:
    """The parts of a phase's time.

    Args:
        row: of comm_compute.
        axes: (axis, exposed_ps) of the phase, from exposed_collective.
        programs: as in Split.
    """
    whole = "period" if row["period_ps"] is not None else "window"
    known = _known(row, SPLIT if whole == "period" else IN_WINDOW)
    busy, why = _busy(row, axes, row[f"{whole}_ps"] - sum(known.values()))
    if whole == "window":
        why = [NO_PERIODS, *why]
    return _split(row, row["phase"], whole, [*busy, *_named(known)], why, programs)


def split_prefill(row: Mapping[str, Any], axes: Axes) -> Split | None:
    """The parts of a prefill from its marker: the host until the first op, then the device's window.

    Args:
        row: of PREFILL_SQL.
        axes: (axis, exposed_ps) of the phase prefill, from exposed_collective.
    """
    if not row["device_steps"]:
        return None
    known = _known(row, IN_WINDOW)
    rest = row["period_ps"] - row["host_ps"] - sum(known.values())
    total, shared = row["exposed_ps"], sum(amount for _, amount in axes)
    counted, why_axes = axes, []
    if total and abs(shared - total) > 1 + 1e-9 * total:
        counted, why_axes = [(None, total)], [OTHER_AXES]
    busy, why = _busy(row, counted, rest)
    return _split(
        row,
        "prefill",
        "marker",
        [(HOST, None, row["host_ps"]), *busy, *_named(known)],
        why + why_axes,
    )


Axes = Sequence[tuple[str | None, float]]


def without_waits(
    row: Mapping[str, Any], axes: Axes, waits: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, Any], Axes]:
    """A phase's time and axes without its waits for circuits, which become a part of their own.

    Args:
        row: of comm_compute, or of PREFILL_SQL.
        axes: (axis, exposed_ps) of the phase, from exposed_collective.
        waits: rows of WAITS_SQL or PREFILL_WAITS_SQL.
    """
    if not waits or row["compute_ps"] is None:
        return dict(row), axes
    of_axis = {each["axis"]: each["exposed_ps"] for each in waits}
    exposed = round(sum(of_axis.values()))
    barriers = sum(each["sync_wait_ps"] for each in waits)
    apart = {
        "exposed_ps": row["exposed_ps"] - exposed,
        "sync_wait_ps": row["sync_wait_ps"] - barriers,
        "circuits_ps": exposed + barriers,
    }
    return {**row, **apart}, [(axis, amount - of_axis.get(axis, 0)) for axis, amount in axes]


Amount = tuple[str, str | None, int]


def _split(
    row: Mapping[str, Any],
    phase: str | None,
    whole: str,
    amounts: list[Amount],
    why: list[str],
    programs: int = 1,
) -> Split:
    steps, devices = row["device_steps"], row["devices"]
    time_ps = sum(amount for _, _, amount in amounts)
    count = devices if _per(phase, programs) == "device" else steps
    parts = tuple(
        Part(name, axis, amount, amount / count, amount / time_ps if time_ps else 0.0)
        for name, axis, amount in amounts
    )
    said = "; ".join(why) or None
    return Split(phase, whole, steps, devices, programs, time_ps, time_ps / count, parts, said)


def _busy(row: Mapping[str, Any], axes: Axes, rest: int) -> tuple[list[Amount], list[str]]:
    """Compute, and exposed communication by axis; `rest` in one part where the trace does not divide it."""
    if row["compute_ps"] is None:
        return [("unsplit", None, rest)], [NOT_DIVIDED]
    exposed = _whole_numbers(axes, row["exposed_ps"])
    return [
        (COMPUTE, None, row["compute_ps"]),
        *(("exposed", axis, part) for axis, part in exposed),
    ], []


def _known(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, int]:
    return {name: row[f"{name}_ps"] for name in names if row.get(f"{name}_ps") is not None}


def _named(known: Mapping[str, int]) -> list[Amount]:
    return [(name, None, amount) for name, amount in known.items()]


def _whole_numbers(axes: Axes, total: int) -> list[tuple[str | None, int]]:
    """Exposed time by axis in whole ps, which add up; the largest takes what rounding leaves."""
    found = [(axis, round(amount)) for axis, amount in axes]
    left = total - sum(amount for _, amount in found)
    if not found:
        return [(None, total)] if total else []
    (axis, most), *rest = found
    return [(axis, most + left), *rest]
