"""Source lines of instructions in newer HLO, which keeps them once, in tables of stack frames."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_QUOTED = re.compile(r'\d+ "(.*)"$')
_NUMBER = re.compile(r"(\w+)=(\d+)")


def source_of(module: Any, metadata: Any) -> tuple[str | None, int | None]:
    """(file, line) of an instruction's metadata: its own, else its stack frame's; NULL where unknown.

    Args:
        module: HloModule message, which holds the tables; their entries are counted from 1.
        metadata: OpMetadata message.
    """
    if metadata.source_file or not metadata.stack_frame_id:
        file, line = metadata.source_file, metadata.source_line
    else:
        index = module.stack_frame_index
        frame = _entry(index.stack_frames, metadata.stack_frame_id)
        place = _entry(index.file_locations, frame.file_location_id) if frame else None
        file = (_entry(index.file_names, place.file_name_id) or b"") if place else b""
        line = place.line if place else 0
    return file.decode("utf-8", "replace") or None, line or None


def _entry(table: Any, number: int) -> Any:
    return table[number - 1] if 0 < number <= len(table) else None


def read_table_line(table: str, index: Any, line: str) -> bool:
    """Read a line of one of TABLES in a module's text; whether it was one.

    Args:
        table: the heading above the line.
        index: StackFrameIndex message to add to.
        line: the line, stripped.
    """
    return TABLES[table](index, line)


def _names(field: str) -> Callable[[Any, str], bool]:
    def read(index: Any, line: str) -> bool:
        found = _QUOTED.match(line)
        if found:
            getattr(index, field).append(found[1].encode())
        return bool(found)

    return read


def _records(field: str, *columns: str) -> Callable[[Any, str], bool]:
    def read(index: Any, line: str) -> bool:
        found = {key: min(int(value), 2**31 - 1) for key, value in _NUMBER.findall(line)}
        if found:
            getattr(index, field).add(**{name: found.get(name, 0) for name in columns})
        return bool(found)

    return read


TABLES = {
    "FileNames": _names("file_names"),
    "FunctionNames": _names("function_names"),
    "FileLocations": _records("file_locations", "file_name_id", "line"),
    "StackFrames": _records("stack_frames", "file_location_id"),
}
