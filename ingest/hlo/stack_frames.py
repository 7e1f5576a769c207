"""Source lines of instructions in newer HLO, which keeps them once, in tables of stack frames."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from xlahouse.ingest.events.protobuf import Item, MessageList, Repeated, ScalarList
from xlahouse.ingest.hlo.messages import (
    FileLocation,
    HloModule,
    OpMetadata,
    StackFrame,
    StackFrameIndex,
)

_QUOTED = re.compile(r'\d+ "(.*)"$')
_NUMBER_FIELD = re.compile(r"(\w+)=(\d{1,9})\b")  # of 32 bits
_ENTRY_PLACE = re.compile(r"(\d{1,9})\b")
_MOST_MISSING = 10_000


def source_of(module: HloModule, metadata: OpMetadata) -> tuple[str | None, int | None]:
    """(file, line) of an instruction's metadata: its own, else its stack frame's; NULL where unknown.

    Args:
        module: holds the tables; their entries are counted from 1.
        metadata: of the instruction.
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


def _entry(table: Repeated[Item], number: int) -> Item | None:
    return table[number - 1] if 0 < number <= len(table) else None


@dataclass(frozen=True)
class _Names:
    """A table of names: lines such as `1 "model.py"`."""

    entries: ScalarList[bytes]  # name of each number, from 1

    def skip(self) -> None:
        """Add an entry without a name."""
        self.entries.append(b"")

    def read(self, line: str) -> bool:
        """Add the entry that a line states; whether it states one."""
        found = _QUOTED.match(line)
        if found:
            self.entries.append(found[1].encode())
        return bool(found)


@dataclass(frozen=True)
class _Records:
    """A table of records: lines such as `1 {file_name_id=1 function_name_id=1 line=7}`."""

    entries: MessageList[FileLocation] | MessageList[StackFrame]  # record of each number, from 1
    columns: tuple[str, ...]  # fields that we read

    def skip(self) -> None:
        """Add an entry of zeros."""
        self.entries.add()

    def read(self, line: str) -> bool:
        """Add the entry that a line states; whether it states one."""
        found = {key: int(value) for key, value in _NUMBER_FIELD.findall(line)}
        if found:
            self.entries.add(**{name: found.get(name, 0) for name in self.columns})
        return bool(found)


# Of each table in a module's text, by its heading, its place in the message.
FRAME_TABLES: dict[str, Callable[[StackFrameIndex], _Names | _Records]] = {
    "FileNames": lambda index: _Names(index.file_names),
    "FunctionNames": lambda index: _Names(index.function_names),
    "FileLocations": lambda index: _Records(index.file_locations, ("file_name_id", "line")),
    "StackFrames": lambda index: _Records(index.stack_frames, ("file_location_id",)),
}


def read_table_line(heading: str, index: StackFrameIndex, line: str) -> bool:
    """Read a line of one of FRAME_TABLES in a module's text; whether it was one.

    Each line begins with the place of its entry; missing entries are left empty.

    Args:
        heading: of the table.
        index: to add to.
        line: the line, stripped.
    """
    table, place = FRAME_TABLES[heading](index), _ENTRY_PLACE.match(line)
    missing = int(place[1]) - 1 - len(table.entries) if place else -1
    if not 0 <= missing <= _MOST_MISSING:
        return False
    for _ in range(missing):
        table.skip()
    if table.read(line):
        return True
    table.skip()
    return False
