"""The same run as the profiler's Chrome JSON: what its exporter keeps of an XSpace, and how it prints it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from tests.synth.protos import XSpace

HOST_PID, FIRST_DEVICE_PID = 701, 3
MOST_EVENTS = 1_000_000  # the exporter keeps the earliest
# Stats that the exporter leaves out, beside all that start with an underscore.
INTERNAL = {"program_id", "symbol_id", "flops"}


def _microseconds(ps: int) -> str:
    """As the exporter prints it: a double with 17 digits, so 4.367122 becomes 4.3671220000000002."""
    return format(ps / 1e6, ".17g")


def _arguments(stats, names: dict[int, str]) -> dict[str, str]:
    """Stats as strings, bytes as a remark."""
    found = {}
    for stat in stats:
        name, kind = names[stat.metadata_id], stat.WhichOneof("value")
        value = getattr(stat, kind)
        if name.startswith("_") or name in INTERNAL:
            continue
        if kind == "ref_value":
            value = names[value]
        found[name] = "<opaque bytes>" if kind == "bytes_value" else str(value)
    return found


def _named(pid: int, tid: int | None, name: str, order: int) -> Iterator[str]:
    what = "process" if tid is None else "thread"
    at = {"ph": "M", "pid": pid} | ({} if tid is None else {"tid": tid})
    yield json.dumps(at | {"name": f"{what}_name", "args": {"name": name}})
    yield json.dumps(at | {"name": f"{what}_sort_index", "args": {"sort_index": order}})


def _events(plane, pid: int) -> Iterator[tuple[int, str]]:
    """(start, event as JSON text) of a plane."""
    names = {entry.key: entry.value.name for entry in plane.stat_metadata}
    kinds = {entry.key: entry.value for entry in plane.event_metadata}
    for line in plane.lines:
        for event in line.events:
            kind = kinds[event.metadata_id]
            args = _arguments(kind.stats, names) | _arguments(event.stats, names)
            if kind.display_name:
                args["long_name"] = kind.name
            start = line.timestamp_ns * 1000 + event.offset_ps
            fields = {"ph": "X", "pid": pid, "tid": line.id}
            # json would print the times with the fewest digits that will do.
            head = json.dumps(fields)[:-1].replace(" ", "")
            times = f'"ts":{_microseconds(start)},"dur":{_microseconds(event.duration_ps or 1)}'
            tail = json.dumps(
                {"name": kind.display_name or kind.name} | ({"args": args} if args else {})
            )
            yield start, f"{head},{times},{tail[1:]}"


def chrome_text(space: XSpace, most: int = MOST_EVENTS) -> str:
    """The export of a space, of its earliest `most` events."""
    metadata: list[str] = []
    events: list[tuple[int, str]] = []
    device_pid = FIRST_DEVICE_PID
    for plane in space.planes:
        if not plane.lines:
            continue
        device = plane.name.startswith("/device")
        pid = device_pid if device else HOST_PID
        device_pid += device
        metadata += _named(pid, None, plane.name, pid)
        for line in plane.lines:
            metadata += _named(pid, line.id, line.name, line.id)
        events += _events(plane, pid)
    kept = sorted(events, key=lambda event: event[0])[:most]
    body = ",".join([*metadata, *(text for _, text in kept), "{}"])
    head = '{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":['
    return f"{head}{body}]}}"


def write_chrome(xplanes: list[Path], most: int = MOST_EVENTS) -> list[Path]:
    """Write `<host>.trace.json.gz` beside each XSpace file."""
    paths = []
    for xplane in xplanes:
        text = chrome_text(XSpace.FromString(xplane.read_bytes()), most)
        path = xplane.with_name(xplane.name.replace(".xplane.pb", ".trace.json.gz"))
        path.write_bytes(gzip.compress(text.encode(), mtime=0))
        paths.append(path)
    return paths
