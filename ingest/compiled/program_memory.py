"""What a program takes of a device's HBM, from its buffers: its row of `programs`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlahouse.ingest.hlo.program import Program

HBM = 0


def program_row(program: Program, buffers: Sequence[dict[str, Any]]) -> dict[str, object]:
    """A row of the `programs` table without run_id, world and what only the compiler itself says.

    buffers: rows of the program's buffers; without any, bytes are NULL.
    """
    row: dict[str, object] = {
        "program_id": program.program_id,
        "module": program.module,
        "source": "trace",
    }
    if not buffers:
        return row
    whole = {each["allocation"]: each for each in buffers if each["memory_space"] == HBM}

    def total(chosen: Callable[[dict[str, Any]], bool]) -> int:
        held = (each for each in whole.values() if each["kind"] != "thread_local")
        return sum(each["allocation_bytes"] for each in held if chosen(each))

    return row | {
        "argument_bytes": total(lambda each: each["kind"] == "argument"),
        "output_bytes": total(lambda each: each["is_output"]),
        "alias_bytes": total(lambda each: each["kind"] == "argument" and each["is_output"]),
    }
