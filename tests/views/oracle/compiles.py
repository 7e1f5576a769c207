"""METRICS, Scheduling: compiles and the steps that waited for them; what allocators state."""

from __future__ import annotations

from collections.abc import Iterator

from tests.views.oracle.drawn import Row
from tests.views.oracle.reading import MARKED, Run
from tests.views.oracle.requests import compiling, late_compiles


def waited_for(run: Run) -> Iterator[Row]:
    """Each compile with the first launch that its host hands over at its end or later."""
    steps = [row for row in run.rows("phases") if row["source"] == "marker"]
    measured = any(row["phase"] in MARKED for row in steps)
    first = min(
        (s["start_ps"] + s["duration_ps"] for s in steps if s["phase"] == "step"), default=None
    )
    late = late_compiles(run, steps)
    for host, pieces in compiling(run).items():
        for start, end in pieces:
            after = []
            for row in run.rows("launches"):
                if run.devices[row["device_id"]]["host"] == host:
                    handed = row["start_ps"] if row["enqueue_ps"] is None else row["enqueue_ps"]
                    after.append((handed, row["launch_instance"], row))
            first_of: dict[int, tuple[int, Row]] = {}
            for handed, instance, row in sorted(after, key=lambda each: each[:2]):
                first_of.setdefault(instance, (handed, row))
            waiting = [
                (handed, instance) for instance, (handed, _) in first_of.items() if handed >= end
            ]
            row = first_of[min(waiting)[1]][1] if waiting else {}
            known = start >= first if first is not None else None
            yield {
                "host": host,
                "start_ps": start,
                "compile_ps": end - start,
                **{name: row.get(name) for name in ("phase", "request", "step", "launch_instance")},
                "is_recompile": late[host, start] if measured else known,
            }


def memory(run: Run) -> Iterator[Row]:
    """Samples of allocators, by time."""
    found: dict[tuple[object, ...], Row] = {}
    for row in run.rows("counters"):
        for suffix, column in (
            (" peak_bytes_in_use", "peak_bytes"),
            (" bytes_in_use", "in_use_bytes"),
        ):
            if row["name"].endswith(suffix):
                allocator = row["name"].removesuffix(suffix)
                key = (row["device_id"], allocator, row["start_ps"])
                told = found.setdefault(
                    key, {"in_use_bytes": None, "peak_bytes": None, "device_id": key[0]}
                )
                told |= {"allocator": allocator, "start_ps": row["start_ps"]}
                told[column] = max(int(row["value"]), told[column] or 0)
                break
    yield from found.values()
