"""Source lines of instructions in newer HLO, which keeps them once, in tables of stack frames."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_QUOTED = re.compile(r'\d+ "(.*)"$')
_NUMBER = re.compile(r"(\w+)=(\d{1,9})\b")  # of 32 bits
_PLACE = re.compile(r"(\d{1,9})\b")
_MOST_MISSING = 10_000


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

    Entries are known by their place, which each line begins with: those that are missing are left empty.

    Args:
        table: the heading above the line.
        index: StackFrameIndex message to add to.
        line: the line, stripped.
    """
    field, read = TABLES[table]
    entries, place = getattr(index, field), _PLACE.match(line)
    missing = int(place[1]) - 1 - len(entries) if place else -1
    if not 0 <= missing <= _MOST_MISSING:
        return False
    for _ in range(missing):
        _add_empty(entries)
    if read(entries, line):
        return True
    _add_empty(entries)
    return False


def _add_empty(entries: Any) -> None:
    if hasattr(entries, "add"):
        entries.add()
    else:
        entries.append(b"")


def _read_name(entries: Any, line: str) -> bool:
    found = _QUOTED.match(line)
    if found:
        entries.append(found[1].encode())
    return bool(found)


def _record(*columns: str) -> Callable[[Any, str], bool]:
    def read(entries: Any, line: str) -> bool:
        found = {key: int(value) for key, value in _NUMBER.findall(line)}
        if found:
            entries.add(**{name: found.get(name, 0) for name in columns})
        return bool(found)

    return read


# Of each table: its field in StackFrameIndex, and what reads a line.
TABLES: dict[str, tuple[str, Callable[[Any, str], bool]]] = {
    "FileNames": ("file_names", _read_name),
    "FunctionNames": ("function_names", _read_name),
    "FileLocations": ("file_locations", _record("file_name_id", "line")),
    "StackFrames": ("stack_frames", _record("file_location_id")),
}
