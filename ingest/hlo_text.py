"""Reads HLO text: a module's dump, or the loose instructions that a trace names its ops by."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from xlahouse.ingest.hlo import Program
from xlahouse.ingest.hlo_scan import HloTextError, shown, split_commas
from xlahouse.ingest.hlo_transfer import WRAPPERS, split_role
from xlahouse.ingest.instruction_text import Line, read_instruction
from xlahouse.ingest.proto import message_class
from xlahouse.ingest.shape_text import read_shape
from xlahouse.ingest.stack_frames import TABLES, read_table_line

_COMPUTATION = re.compile(r"(ENTRY\s+)?%?([^\s({]+)\s*(?:\(.*)?\{$")
_BEGINS = re.compile(r"\s*(?:ROOT\s+)?%?[^\s=\"{}]+ = ")
# What ends an instruction that goes on over lines: the next one, or the computation's own end.
_BEGINS_OR_ENDS = re.compile(rf"{_BEGINS.pattern}|\}}(?:$|, execution_thread=)")
_MOST_LINES = 10_000  # of one instruction
_MOST_DEVICES = 1 << 20


@dataclass(frozen=True)
class ReadProgram:
    """A program, and a line for each piece of its text that could not be read."""

    program: Program
    problems: list[str]


@dataclass
class _Module:
    """A module under construction. lines: per instruction its message and the names in its text."""

    proto: Any = field(default_factory=message_class("HloModule"))
    lines: list[tuple[Any, Any, Line]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    next_id: int = 1

    def computation(self, name: str) -> Any:
        self.next_id += 1
        return self.proto.computations.add(name=name.encode(), id=self.next_id)

    def instruction(self, holder: Any, text: str, where: str) -> None:
        """Add one; a text that cannot be read is a problem, and nothing else."""
        message = holder.instructions.add()
        try:
            line = read_instruction(text, message)
        except (
            ValueError
        ) as error:  # ours, or protobuf's where a number has more bits than its field
            del holder.instructions[-1]
            self.problems.append(f"{where}: {error}")
            return
        self.next_id += 1
        message.id = self.next_id
        if line.is_root:
            holder.root_id = message.id
        self.lines.append((holder, message, line))


def is_module_text(raw: bytes) -> bool:
    """Whether a file is the text of an HLO module."""
    return raw[:4096].lstrip().startswith(b"HloModule ")


def read_module_text(text: str, program_id: int | None, source: str) -> ReadProgram:
    """Read a module's dump.

    The text does not say which device runs which partition: the assignment is taken to be XLA's default
    (partition p of replica r on device r x partitions + p), and the program says so.

    Args:
        text: the dump, from its line `HloModule` on.
        program_id: the id by which events name the program; None: unknown, 0.
        source: the file, for messages.

    Raises:
        HloTextError: the text is no HLO module.
    """
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith("HloModule ")), None)
    if start is None:
        raise HloTextError(f"{source}: no line begins with HloModule")
    module = _Module()
    header = split_commas(lines[start].removeprefix("HloModule "))
    name = header[0] if header else ""
    module.proto.name = name.encode()
    _read_body(module, lines, start + 1, source)
    _resolve(module)
    assumed = _assign_devices(module.proto, header)
    program = Program(program_id or 0, name, module.proto, assignment_assumed=assumed)
    return ReadProgram(program, module.problems)


def _read_body(module: _Module, lines: list[str], start: int, source: str) -> None:
    """Read the computations, and the tables of stack frames before them."""
    holder, table = None, ""
    for number, line in _joined(lines, start):
        bare = line.strip()
        if not bare:
            continue
        if holder is not None:
            if bare.startswith("}"):
                holder = None
            else:
                module.instruction(holder, line, f"{source}, line {number + 1}")
        elif found := _COMPUTATION.match(bare):
            holder = module.computation(found[2])
            if found[1]:
                module.proto.entry_computation_id = holder.id
        elif bare in TABLES:
            table = bare
        elif not (table and read_table_line(table, module.proto.stack_frame_index, bare)):
            module.problems.append(f"{source}, line {number + 1}: not understood: {shown(bare)}")


def _joined(lines: list[str], start: int) -> Iterator[tuple[int, str]]:
    """(number, line); attributes and constants that are written over several lines are one."""
    number = start
    while number < len(lines):
        first, line = number, lines[number]
        if not _is_balanced(line) and _BEGINS.match(line):
            parts = [line]
            while number + 1 < len(lines) and number - first < _MOST_LINES:
                if not lines[number + 1].strip() or _BEGINS_OR_ENDS.match(lines[number + 1]):
                    break
                number += 1
                parts.append(lines[number])
            line = " ".join(parts)
        yield first, line
        number += 1


def _is_balanced(line: str) -> bool:
    return line.count("{") == line.count("}") and line.count("(") == line.count(")")


def _resolve(module: _Module) -> None:
    """Names of operands and called computations become ids; a name that nothing bears is left out."""
    computations = {computation.name: computation.id for computation in module.proto.computations}
    ids: dict[int, dict[str, int]] = {}
    for holder, message, line in module.lines:
        ids.setdefault(holder.id, {})[line.name] = message.id
    for holder, message, line in module.lines:
        known = ids[holder.id]
        message.operand_ids.extend(known[name] for name, _ in line.operands if name in known)
        called = (computations.get(name.encode()) for name in line.called)
        message.called_computation_ids.extend(number for number in called if number is not None)


def _assign_devices(proto: Any, header: list[str]) -> bool:
    """Write the default assignment where the header tells how many take part; whether it does."""
    facts = dict(piece.partition("=")[::2] for piece in header[1:])
    counts = [facts.get(key, "") for key in ("replica_count", "num_partitions")]
    replicas, partitions = (int(count) if count.isdigit() else 1 for count in counts)
    if not any(counts) or not 0 < replicas * partitions <= _MOST_DEVICES:
        return False
    for partition in range(partitions):
        row = [replica * partitions + partition for replica in range(replicas)]
        proto.device_assignment.computation_devices.add(replica_device_ids=row)
    return True


def program_of_instructions(
    texts: Iterable[str], program_id: int, module: str, source: str
) -> ReadProgram:
    """A program from loose instructions, as a trace without HLO names its ops.

    Operands that have no text of their own are known by the shape that their user's text states
    (`Program.unseen`); computations that are called are not known, nor is the device assignment.
    """
    built = _Module()
    built.proto.name = module.encode()
    holder = built.computation("")
    for text in dict.fromkeys(texts):
        built.instruction(holder, text, source)
    ids = {line.name: message.id for _, message, line in built.lines}
    unseen, opaque = [], set()
    for _, message, line in built.lines:
        for name, shape in line.operands:
            if name not in ids and shape:
                unseen.append(_placeholder(name, shape, built))
                ids[name] = unseen[-1].id
        message.operand_ids.extend(ids[name] for name, _ in line.operands if name in ids)
        base, role = split_role(message.opcode.decode())
        if base in WRAPPERS and (line.called or role != "sync"):  # a done does what its start does
            opaque.add(message.id)
    program = Program(
        program_id,
        module,
        built.proto,
        unseen=tuple(unseen),
        opaque=frozenset(opaque),
        loose=True,
    )
    return ReadProgram(program, built.problems)


def _placeholder(name: str, shape: str, module: _Module) -> Any:
    """An instruction of which no more than its name and shape is known."""
    module.next_id += 1
    message = message_class("HloInstruction")(name=name.encode(), id=module.next_id)
    with suppress(HloTextError):
        message.shape.CopyFrom(read_shape(shape))
    return message
