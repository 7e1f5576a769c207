"""Memory that programs hold over their schedules, place by place, and what allocators state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.views.oracle import compiles
from tests.views.oracle.drawn import Drawn, Row
from tests.views.oracle.reading import Run, grouped

KINDS = ("argument", "output", "constant", "temporary", "temporary", "temporary", "thread_local")
MEMORIES = {0: "HBM", 1: "VMEM", 5: "host"}
KEY = ("world", "program_id", "memory_space")


def draw_buffers(run: Drawn, programs: list[Any]) -> None:
    """Some programs with buffers in memories; few places, so that many begin and end at one."""
    for program in programs:
        if run.chance(0.4):
            continue
        end = run.rng.randint(1, 8)
        named = {"world": 0, "program_id": program.program_id}
        for place in range(end):
            if run.chance(0.8):
                run.add("instructions", **named, op=f"at.{place}", schedule_index=place)
        for number in range(run.rng.randint(0, 12)):
            kind = run.rng.choice(KINDS)
            space = run.rng.choice((0, 0, 0, 1, 5, 6))
            first, last = sorted(run.rng.choices(range(end), k=2))
            if kind != "temporary":
                first, last = (None, None) if kind == "thread_local" else (0, end)
            elif run.chance(0.02):
                first = last = None
            size = run.rng.choice((0, 1, 7, 64, 2**33))
            pool = number if kind != "temporary" else 100 + space
            is_output = kind == "output" or (kind == "argument" and run.chance(0.3))
            run.add(
                "buffers",
                **named,
                module=program.module,
                buffer=number,
                allocation=pool,
                kind=kind,
                is_output=is_output,
                memory_space=space,
                bytes=size,
                allocation_bytes=2**40 if kind == "temporary" else size,
                first_use=first,
                last_use=last,
                scope=run.rng.choice((None, "m/a", "m/b")),
            )


def _held(rows: list[Row], place: int) -> list[Row]:
    return [row for row in rows if row["first_use"] <= place <= row["last_use"]]


def _programs(run: Run) -> Iterator[tuple[Row, list[Row], list[int] | None]]:
    """Key, buffers and bytes held at each place (None where they are not known) of a program's memory."""
    counted = [row for row in run.rows("buffers") if row["kind"] != "thread_local"]
    for values, rows in grouped(counted, *KEY).items():
        known = [row for row in rows if row["first_use"] is not None]
        end = max((row["last_use"] for row in known), default=-1)
        held = [sum(row["bytes"] for row in _held(known, at)) for at in range(end + 2)]
        yield dict(zip(KEY, values, strict=True)), rows, held if len(known) == len(rows) else None


def _peak(rows: list[Row], held: list[int]) -> int:
    """The first place at which a buffer begins and most is held."""
    return min(row["first_use"] for row in rows if held[row["first_use"]] == max(held))


def _op(run: Run, key: Row, place: int) -> str | None:
    ops = [
        row["op"]
        for row in run.rows("instructions")
        if row.get("schedule_index") == place
        and (row["world"], row["program_id"]) == (key["world"], key["program_id"])
    ]
    return ops[0] if ops else None


def memory_timeline(run: Run) -> Iterator[Row]:
    """Samples of allocators, and the places of programs at which a buffer begins or has ended."""
    bare = dict.fromkeys(
        ("world", "program_id", "module", "memory_space_id", "schedule_index", "op")
    )
    for row in compiles.memory(run):
        yield {**bare, **row, "source": "allocator"}
    for key, rows, held in _programs(run):
        known = [row for row in rows if row["first_use"] is not None]
        for place in sorted({r["first_use"] for r in known} | {r["last_use"] + 1 for r in known}):
            yield {
                "source": "program",
                **dict.fromkeys(("device_id", "allocator", "start_ps")),
                "world": key["world"],
                "program_id": key["program_id"],
                "module": rows[0]["module"],
                "memory_space_id": key["memory_space"],
                "schedule_index": place,
                "op": _op(run, key, place),
                "in_use_bytes": held[place] if held else None,
                "peak_bytes": max(held[: place + 1]) if held else None,
            }


def _memory(run: Run, space: int) -> str:
    cores = {device["core"] for device in run.devices.values()} - {None}
    return "host" if space == 0 and cores == {"cpu"} else MEMORIES.get(space, "other")


def program_memory(run: Run) -> Iterator[Row]:
    """Sizes by kind, and the first place at which most is held."""
    for key, rows, held in _programs(run):
        once = {row["allocation"]: row for row in rows}.values()

        def total(rows: Any, kind: str = "", output: bool = False) -> int:
            return sum(
                row["allocation_bytes"]
                for row in rows
                if (not kind or row["kind"] == kind) and (not output or row["is_output"])
            )

        place = _peak(rows, held) if held else None
        yield {
            "world": key["world"],
            "program_id": key["program_id"],
            "module": rows[0]["module"],
            "memory_space_id": key["memory_space"],
            "memory": _memory(run, key["memory_space"]),
            "argument_bytes": total(once, "argument"),
            "output_bytes": total(once, output=True),
            "alias_bytes": total(once, "argument", output=True),
            "constant_bytes": total(once, "constant"),
            "temporary_bytes": total(once, "temporary"),
            "total_bytes": total(once),
            "peak_bytes": max(held) if held else None,
            "peak_schedule_index": place,
            "peak_op": None if place is None else _op(run, key, place),
        }


def memory_at_peak(run: Run) -> Iterator[Row]:
    """What is held there, by what made it."""
    for key, rows, held in _programs(run):
        if not held:
            continue
        most = max(held)
        there = _held(rows, _peak(rows, held))
        for (kind, scope), group in grouped(there, "kind", "scope").items():
            size = sum(row["bytes"] for row in group)
            yield {
                "world": key["world"],
                "program_id": key["program_id"],
                "memory_space_id": key["memory_space"],
                "memory": _memory(run, key["memory_space"]),
                "kind": kind,
                "scope": scope,
                "buffer_count": len(group),
                "bytes": size,
                "share_ratio": size / most if most else None,
            }
