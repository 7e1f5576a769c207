"""The queries whose rows become the slices of a run's Perfetto trace."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xlahouse.sql.types import Row, Value
from xlahouse.sql.warehouse import Warehouse

# Columns that a slice shows as numbers, where a source has them.
NUMBERS = ("payload_bytes", "wire_bytes", "group_size", "launch")
_HOST_PIDS = 1_000_000  # devices have the process ids from 1 on

# `decode request 0 step 3`, as far as it is known.
_STEP = """
concat_ws(
    ' ', phase, 'request ' || cast(request as varchar), 'step ' || cast(step as varchar)
)
"""

_LAUNCHES = f"""
select 'launches' as track, module as name, phase as category, {_STEP} as detail,
    launch, start_ps, duration_ps, cast(null as bigint) as flow
from launches where run_id = $run and device_id = $device
"""
_OPS = f"""
select coalesce(cast($line as varchar), 'ops') as track, op as name, category,
    concat_ws(' ', {_STEP}, 'layer ' || cast(layer as varchar), component) as detail,
    start_ps, duration_ps, cast(null as bigint) as flow
from ops where run_id = $run and device_id = $device and (line = $line or $line is null)
"""
_COLLECTIVES = f"""
select 'collectives over ' || axis as track, op as name, kind as category, {_STEP} as detail,
    payload_bytes, wire_bytes, group_size, start_ps, duration_ps,
    case when group_size > 1 then instance + 1 end as flow
from _collective_wire_v1 where run_id = $run and device_id = $device
order by track
"""
_PHASES = f"""
select 'phases' as track, phase as name, source as category, {_STEP} as detail,
    start_ps, duration_ps, cast(null as bigint) as flow
from phases where run_id = $run and host is not distinct from $host
"""
_THREADS = """
select thread as track, name, cast(null as varchar) as category, cast(null as varchar) as detail,
    start_ps, duration_ps, cast(null as bigint) as flow
from host_events where run_id = $run and host is not distinct from $host
order by thread
"""


@dataclass(frozen=True)
class SliceSource:
    """A query whose rows are slices of one process."""

    title: str  # for progress lines
    process: tuple[str, Value]  # its key: device and device_id, or host and its name
    pid: int  # number of the process
    process_name: str  # as ui.perfetto.dev shows it
    # Gives track, name, category, detail, start_ps, duration_ps, flow and some of NUMBERS.
    sql: str
    parameters: dict[str, Value] = field(default_factory=dict)  # beside $run
    nested: bool = True  # whether slices of a track may contain each other


def sources(warehouse: Warehouse, run_id: str) -> Iterator[SliceSource]:
    """Everything that a run's trace shows, device by device and then host by host."""
    given = {"run": run_id}
    devices = warehouse.query(
        "select device_id, inferred, kind, plane, host from devices where run_id = $run and traced "
        "order by device_id",
        given,
    ).rows
    for device, inferred, *parts in devices:
        kind, plane, host = parts
        name = " ".join(str(part) for part in (kind, device, plane, host) if part is not None)
        # Ops of a virtual device hop between the host's threads: they are one track.
        lines = [(None, False)] if inferred else _lines(warehouse, run_id, device)
        yield from _of_device(device, name, lines)
    hosts = warehouse.query(
        "select distinct host from (select host from phases where run_id = $run union all "
        "select host from host_events where run_id = $run) order by host nulls last",
        given,
    ).rows
    for number, (host,) in enumerate(hosts):
        for title, sql in (("phases", _PHASES), ("host threads", _THREADS)):
            yield SliceSource(
                f"{title} of {host or 'the host'}",
                ("host", host),
                _HOST_PIDS + number,
                f"host {host or ''}".strip(),
                sql,
                {"host": host},
            )


def _lines(warehouse: Warehouse, run_id: str, device: int) -> list[Row]:
    """(line, whether all its ops are asynchronous) of a device's plane."""
    return warehouse.query(
        "select line, bool_and(is_async) from ops where run_id = $run and device_id = $device "
        "group by line order by line",
        {"run": run_id, "device": device},
    ).rows


def _of_device(device: int, name: str, lines: list[Row]) -> Iterator[SliceSource]:
    on_device = {"device": device}
    key, pid = ("device", device), device + 1
    yield SliceSource(f"launches of {name}", key, pid, name, _LAUNCHES, on_device)
    for line, is_async in lines:
        chosen = on_device | {"line": line}
        yield SliceSource(
            f"{line or 'ops'} of {name}", key, pid, name, _OPS, chosen, nested=not is_async
        )
    yield SliceSource(
        f"collectives of {name}", key, pid, name, _COLLECTIVES, on_device, nested=False
    )
