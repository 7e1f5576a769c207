"""Writes a run as the Chrome JSON that CCL-Bench's tools read: every event, in whole picoseconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec
import polars as pl

from xlahouse.sql.warehouse import Warehouse

_PS = 1_000_000  # in a microsecond, the unit of the format
_DEVICE_CORES = ("tensorcore", "sparsecore")
_HOST_PIDS = 100_000_000  # devices have the process ids from 1 on
_TEXTS = ("name", "hlo_category", "tf_op", "hlo_op", "hlo_module")
# Arguments as an export of XLA has them, all of them text.
_ARGUMENTS = (
    "program_id",
    "hlo_category",
    "tf_op",
    "flops",
    "model_flops",
    "bytes_accessed",
    "hlo_op",
    "hlo_module",
    "device_ordinal",
)

# The order is that of views/ccl/ccl_legacy_v1.sql: some of CCL-Bench's tools depend on it.
_DEVICE = """
with events as (
    select o.op as name, coalesce(o.line, 'XLA Ops') as line, o.start_ps, o.duration_ps,
        o.hlo_category, cast(round(o.bytes_accessed) as bigint) as bytes_accessed,
        cast(round(o.flops) as bigint) as flops,
        cast(round(o.model_flops) as bigint) as model_flops,
        cast(o.program_id as varchar) as program_id, i.framework_op as tf_op
    from ops as o
    left join (
        select program_id, op, min(framework_op) as framework_op
        from instructions where run_id = $run group by program_id, op
    ) as i on i.program_id = o.program_id and i.op = o.op
    where o.run_id = $run and o.device_id = $device
    union all
    select coalesce(module, '') || coalesce('(' || cast(program_id as varchar) || ')', ''),
        'XLA Modules', start_ps, duration_ps, null, null, null, null,
        cast(program_id as varchar), null
    from launches where run_id = $run and device_id = $device
    union all
    select name, substr(thread, length($plane) + 2), start_ps, duration_ps,
        null, null, null, null, null, null
    from host_events
    where run_id = $run and host is not distinct from $host
        and starts_with(thread, $plane || '/') and $owns_plane
)
select * from events order by start_ps, name desc, line
"""
_HOST = """
with events as (
    select name, coalesce(thread, 'thread') as line, start_ps, duration_ps, args,
        null as hlo_op, null as hlo_module, null as program_id, null as device_ordinal
    from host_events
    where run_id = $run and host is not distinct from $host
        and not list_contains($planes, regexp_extract(
            coalesce(thread, ''), '^(/device:TPU:[0-9]+( SparseCore [0-9]+)?)/', 1))
    union all
    select o.op, coalesce(o.line, 'ops'), o.start_ps, o.duration_ps, null,
        o.op, o.module, cast(o.program_id as varchar), cast(o.device_id as varchar)
    from ops as o
    inner join devices as d on d.run_id = o.run_id and d.device_id = o.device_id
    where o.run_id = $run and d.inferred and d.host is not distinct from $host
)
select * from events order by start_ps, duration_ps desc, line
"""


@dataclass
class _TraceFile:
    """A JSON file under construction."""

    file: IO[bytes]  # open for writing
    shift_ps: int  # added to every time
    lines: dict[tuple[int, str], int] = field(default_factory=dict)  # (pid, line) -> tid
    texts: dict[str, str] = field(default_factory=dict)  # text -> as JSON, with its quotes
    events: int = 0  # written so far

    def write(self, entries: list[str]) -> None:
        """Write entries, after a comma unless they are the first."""
        if entries:
            self.file.write((",\n" if self.file.tell() > len(_OPENING) else "").encode())
            self.file.write(",\n".join(entries).encode())

    def name_process(self, pid: int, name: str) -> None:
        self.write([_named("process_name", pid, 0, name)])

    def as_json(self, texts: pl.Series) -> pl.Series:
        """Texts as JSON, quotes and all; NULL stays NULL."""
        known = self.texts
        new = [text for text in texts.unique() if text is not None and text not in known]
        known |= {text: msgspec.json.encode(text).decode() for text in new}
        return texts.replace_strict(known, default=None, return_dtype=pl.String)

    def tids(self, pid: int, lines: pl.Series) -> pl.Series:
        """Numbers of lines, which are named where they are met first."""
        met = [(pid, str(line)) for line in lines.unique(maintain_order=True)]
        new = [key for key in met if key not in self.lines]
        self.lines |= {key: len(self.lines) + place for place, key in enumerate(new, start=1)}
        self.write([_named("thread_name", pid, self.lines[key], key[1]) for key in new])
        numbers = {line: self.lines[pid, line] for _, line in met}
        return lines.replace_strict(numbers, return_dtype=pl.Int64)


_OPENING = b'{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[\n'


def write_trace(
    warehouse: Warehouse,
    run: str,
    path: Path,
    on_progress: Callable[[str], None] = lambda line: None,
) -> int:
    """Write a run's events as Chrome JSON, in bounded memory; returns how many there are.

    Each device is a process `/device:TPU:<device_id>` with the lines of its plane, each host one with
    its threads; ops of virtual devices are events of their host's threads, as XLA exports them.
    Times are microseconds with all six digits after the point, shifted where one would be negative.
    Counters are left out. A device's own clock is not kept by the warehouse: `device_offset_ps` and
    `device_duration_ps` are the profiler's times.

    Args:
        warehouse: that has the run.
        run: its id, prefix or name.
        path: the file; it is there whole, or not at all.
        on_progress: called with the name of each process when it begins.

    Raises:
        WarehouseError: there is no such run.
    """
    run_id = warehouse.resolve_run(run)
    draft = path.with_name(f".{path.name}.partial")
    try:
        with draft.open("wb") as file:
            file.write(_OPENING)
            out = _TraceFile(file, _shift_ps(warehouse, run_id))
            planes = _write_devices(out, warehouse, run_id, on_progress)
            _write_hosts(out, warehouse, run_id, planes, on_progress)
            file.write(b"\n]}\n")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return out.events


def _shift_ps(warehouse: Warehouse, run_id: str) -> int:
    """A shift that makes no time negative, in whole microseconds."""
    parts = " union all ".join(
        f"select min(start_ps) as start_ps from {table} where run_id = $run"
        for table in ("ops", "launches", "host_events")
    )
    earliest = warehouse.query(f"select min(start_ps) from ({parts})", {"run": run_id}).rows[0][0]
    return max(0, -((earliest or 0) // _PS)) * _PS


def _write_devices(
    out: _TraceFile, warehouse: Warehouse, run_id: str, on_progress: Callable[[str], None]
) -> set[tuple[str | None, str | None]]:
    """Every device of an accelerator; gives the (host, plane) whose events they have."""
    cores = ", ".join(f"'{core}'" for core in _DEVICE_CORES)
    devices = warehouse.query(
        "select device_id, host, plane, core from devices where run_id = $run and traced "
        f"and core in ({cores}) and not coalesce(inferred, false) order by device_id",
        {"run": run_id},
    ).rows
    taken: set[tuple[str | None, str | None]] = set()
    for device, host, plane, core in devices:
        name = f"/device:TPU:{device}"
        on_progress(name)
        out.name_process(device + 1, f"{name} SparseCore" if core == "sparsecore" else name)
        given = {
            "run": run_id,
            "device": device,
            "host": host,
            "plane": plane,
            "owns_plane": plane is not None and (host, plane) not in taken,
        }
        for frame in _frames(warehouse, _DEVICE, given):
            starts = (frame["start_ps"] + out.shift_ps).cast(pl.String)
            clock = (
                pl.lit('"device_offset_ps":"')
                + starts
                + '","device_duration_ps":"'
                + frame["duration_ps"].cast(pl.String)
                + '"'
            )
            _write_events(out, device + 1, frame, clock)
        taken.add((host, plane))
    return taken


def _write_hosts(
    out: _TraceFile,
    warehouse: Warehouse,
    run_id: str,
    planes: set[tuple[str | None, str | None]],
    on_progress: Callable[[str], None],
) -> None:
    hosts = warehouse.query(
        "select host from (select distinct host from host_events where run_id = $run union "
        "select distinct host from devices where run_id = $run and inferred) "
        "order by host nulls last",
        {"run": run_id},
    ).rows
    for number, (host,) in enumerate(hosts):
        on_progress(f"host {host or ''}".strip())
        out.name_process(_HOST_PIDS + number, "/host:CPU")
        own = sorted(plane for at, plane in planes if at == host and plane is not None)
        given = {"run": run_id, "host": host, "planes": own}
        for frame in _frames(warehouse, _HOST, given):
            _write_events(out, _HOST_PIDS + number, frame, None)


def _frames(warehouse: Warehouse, sql: str, given: dict[str, object]) -> Iterator[pl.DataFrame]:
    for batch in warehouse.query(sql, given).batches():
        frame = pl.DataFrame(batch)
        if not frame.is_empty():
            yield frame


def _write_events(out: _TraceFile, pid: int, frame: pl.DataFrame, clock: pl.Expr | None) -> None:
    """Complete events of one process; `clock` is written beside _ARGUMENTS."""
    tids = out.tids(pid, frame["line"])
    texts = {
        name: out.as_json(frame[name].cast(pl.String)) for name in _TEXTS if name in frame.columns
    }
    starts = frame["start_ps"] + out.shift_ps
    pieces = [] if clock is None else [clock]
    for name in _ARGUMENTS:
        if name in texts:
            pieces.append(pl.lit(f'"{name}":') + texts[name])
        elif name in frame.columns:
            pieces.append(pl.lit(f'"{name}":"') + frame[name].cast(pl.String) + '"')
    inside = pl.concat_str(pieces, separator=",", ignore_nulls=True) if pieces else pl.lit("")
    arguments: pl.Expr = pl.when(inside != "").then(pl.lit("{") + inside + "}")
    if "args" in frame.columns:
        arguments = pl.coalesce(frame["args"].cast(pl.String), arguments)
    entry = pl.concat_str(
        pl.lit(f'{{"ph":"X","pid":{pid},"tid":'),
        tids.cast(pl.String),
        pl.lit(',"ts":'),
        _microseconds(starts),
        pl.lit(',"dur":'),
        _microseconds(frame["duration_ps"]),
        pl.lit(',"name":'),
        texts["name"].fill_null('""'),
        (pl.lit(',"args":') + arguments).fill_null(""),
        pl.lit("}"),
    )
    out.write(frame.select(entry=entry)["entry"].to_list())
    out.events += frame.height


def _microseconds(times_ps: pl.Series) -> pl.Series:
    """Whole picoseconds as microseconds in decimal text, exact."""
    whole, rest = times_ps // _PS, times_ps % _PS
    return whole.cast(pl.String) + "." + rest.cast(pl.String).str.zfill(6)


def _named(kind: str, pid: int, tid: int, name: str) -> str:
    entry = {"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": {"name": name}}
    return msgspec.json.encode(entry).decode()
