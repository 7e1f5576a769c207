"""Reads HLO text: a module's dump, or the loose instructions that a trace names its ops by."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from xlahouse.ingest.events.codes_of_programs import DAMAGED_HLO
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.hlo.group_notations import MOST_DEVICES
from xlahouse.ingest.hlo.instruction_text import InstructionLine, read_instruction
from xlahouse.ingest.hlo.messages import (
    HloComputation,
    HloInstruction,
    HloModule,
    new_instruction,
    new_module,
    new_shape,
)
from xlahouse.ingest.hlo.program import Program
from xlahouse.ingest.hlo.scan import HloTextError, shown, split_commas
from xlahouse.ingest.hlo.shape_text import read_shape
from xlahouse.ingest.hlo.stack_frames import FRAME_TABLES, read_table_line
from xlahouse.ingest.hlo.transfer import COLLECTIVE_KINDS, WRAPPERS, split_role

_COMPUTATION = re.compile(r"(ENTRY\s+)?%?([^\s({]+)\s*(?:\(.*)?\{$")
_BEGINS = re.compile(r"\s*(?:ROOT\s+)?%?[^\s=\"{}]+ = ")
# An instruction of several lines ends at the next instruction or at the computation's end.
_BEGINS_OR_ENDS = re.compile(rf"{_BEGINS.pattern}|\}}(?:$|, execution_thread=)")
_MOST_LINES = 10_000  # of one instruction
_COUNT = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True)
class ReadProgram:
    """A program that was read from text."""

    program: Program  # all that could be read
    problems: list[str]  # a line for each piece of the text that could not be read

    def issues(self, source: str) -> list[Issue]:
        """One finding for all problems: an unknown notation mostly occurs many times."""
        if not self.problems:
            return []
        more = f" (and {count - 1} more)" if (count := len(self.problems)) > 1 else ""
        return [DAMAGED_HLO.found(source, count, f"{self.problems[0]}{more}")]


@dataclass
class _Module:
    """A module under construction."""

    proto: HloModule = field(default_factory=new_module)  # the module as a message
    # of each instruction the computation that holds it, its message, and the names in its text
    lines: list[tuple[HloComputation, HloInstruction, InstructionLine]] = field(
        default_factory=list
    )
    unseen: list[HloInstruction] = field(default_factory=list)  # as in Program
    # a line for each piece of the text that could not be read
    problems: list[str] = field(default_factory=list)
    next_id: int = 1  # of the next instruction or computation

    def computation(self, name: str) -> HloComputation:
        self.next_id += 1
        return self.proto.computations.add(name=name.encode(), id=self.next_id)

    def instruction(self, holder: HloComputation, text: str, where: str) -> None:
        """Add one; parts that cannot be read are reported as problems."""
        message = holder.instructions.add()
        try:
            line = read_instruction(text, message)
        except HloTextError as error:
            del holder.instructions[-1]
            self.problems.append(f"{where}: {error}")
            return
        self.problems += [f"{where}: {problem}" for problem in line.problems]
        self.next_id += 1
        message.id = self.next_id
        if line.is_root:
            holder.root_id = message.id
        self.lines.append((holder, message, line))

    def break_off(self, where: str) -> None:
        """Note that the text ends within a computation: its last instruction may be cut off."""
        self.problems.append(f"{where}: the text ends within a computation")
        if self.lines:
            holder, message, line = self.lines[-1]
            self.lines[-1] = holder, message, replace(line, knows_groups=False, ends=False)

    def name_operands(self) -> None:
        """Resolve names of operands to ids.

        An operand without text of its own becomes an instruction with a name and a shape at most: left out,
        it would be missing in the sizes of the instructions that take it.
        """
        ids: dict[tuple[int, str], int] = {}
        for holder, message, line in self.lines:
            ids[holder.id, line.name] = message.id
        for holder, message, line in self.lines:
            for name, shape in line.operands:
                number = ids.get((holder.id, name))
                if number is None:
                    number = self._placeholder(name, shape)
                    if name and shape:
                        ids[holder.id, name] = number
                message.operand_ids.append(number)

    def _placeholder(self, name: str, shape: str) -> int:
        """An instruction of which at most the name and the shape are known."""
        self.next_id += 1
        message = new_instruction(name=name.encode(), id=self.next_id)
        message.shape.CopyFrom(read_shape(shape).proto if shape else new_shape())
        self.unseen.append(message)
        return self.next_id

    def program(
        self,
        program_id: int,
        name: str,
        opaque: set[int],
        *,
        assignment_assumed: bool = False,
        loose: bool = False,
    ) -> Program:
        """The finished program. opaque, assignment_assumed, loose: see Program."""
        unread = (
            message.id
            for _, message, line in self.lines
            if not line.knows_groups or (not loose and _lacks_participants(message, line))
        )
        return Program(
            program_id,
            name,
            self.proto,
            unseen=tuple(self.unseen),
            opaque=frozenset(opaque),
            unread=frozenset(unread),
            assignment_assumed=assignment_assumed,
            loose=loose,
        )


def _lacks_participants(message: HloInstruction, line: InstructionLine) -> bool:
    """Whether a collective states neither groups nor pairs. XLA writes `{}` for all devices."""
    base, role = split_role(message.opcode.decode("utf-8", "replace"))
    begins = base in COLLECTIVE_KINDS and role in ("sync", "start")
    return begins and not line.keys & {"replica_groups", "source_target_pairs"}


def is_module_text(raw: bytes) -> bool:
    """Whether a file is the text of an HLO module."""
    return raw[:4096].lstrip().startswith(b"HloModule ")


def read_module_text(text: str, program_id: int | None, source: str) -> ReadProgram:
    """Read a module's dump.

    The text does not say which device runs which partition: the assignment is taken to be JAX's (partition p
    of replica r on device r x partitions + p), and the program says so. XLA's own ComputationPlacer has
    p x replicas + r instead, which is another one only where there are several of both.

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
    module.name_operands()
    opaque = _call(module)
    if "is_scheduled=true" in header:
        _schedule(module.proto)
    assumed = _assign_devices(module, header, f"{source}, line {start + 1}")
    program = module.program(program_id or 0, name, opaque, assignment_assumed=assumed)
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
        elif bare in FRAME_TABLES:
            table = bare
        elif not (table and read_table_line(table, module.proto.stack_frame_index, bare)):
            module.problems.append(f"{source}, line {number + 1}: not understood: {shown(bare)}")
    if holder is not None:
        module.break_off(f"{source}, line {len(lines)}")


def _schedule(module: HloModule) -> None:
    """A scheduled module's text has the instructions in the order in which they run."""
    for computation in module.computations:
        numbers = [each.id for each in computation.instructions]
        module.schedule.sequences.add(key=computation.id, value={"instruction_ids": numbers})


def _joined(lines: list[str], start: int) -> Iterator[tuple[int, str]]:
    """(number, line); attributes and constants that span lines are joined."""
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


def _call(module: _Module) -> set[int]:
    """Resolve names of called computations to ids.

    Returns:
        ids of the wrappers that call a missing computation, and of the dones of these.
    """
    computations = {computation.name: computation.id for computation in module.proto.computations}
    opaque: set[int] = set()
    for _, message, line in module.lines:
        called = [computations.get(name.encode()) for name in line.called]
        message.called_computation_ids.extend(number for number in called if number is not None)
        ends_one = not opaque.isdisjoint(message.operand_ids[:1])
        if (None in called or not line.ends or ends_one) and _is_wrapper(message, line):
            opaque.add(message.id)
    return opaque


def _name_computations(module: _Module) -> None:
    """Stand-ins for the computations that loose instructions call: of these only the names are known."""
    names = dict.fromkeys(name for _, _, line in module.lines for name in line.called)
    numbers = {name: module.computation(name).id for name in names}
    for _, message, line in module.lines:
        message.called_computation_ids.extend(numbers[name] for name in line.called)


def _is_wrapper(message: HloInstruction, line: InstructionLine) -> bool:
    """Whether a computation defines what it does; a done has the computation of its start."""
    base, role = split_role(message.opcode.decode("utf-8", "replace"))
    return base in WRAPPERS and bool(line.called or not line.ends or role != "sync")


def _assign_devices(module: _Module, header: list[str], where: str) -> bool:
    """Add the default assignment if the header states the number of devices; return whether it does."""
    facts = dict(piece.partition("=")[::2] for piece in header[1:])
    stated = {key: facts[key] for key in ("replica_count", "num_partitions") if key in facts}
    if not stated:
        return False
    if not all(_COUNT.fullmatch(count) for count in stated.values()):
        module.problems.append(f"{where}: not a number of devices: {shown(str(stated))}")
        return False
    replicas, partitions = (int(stated.get(key, 1)) for key in ("replica_count", "num_partitions"))
    if not 0 < replicas * partitions <= MOST_DEVICES:
        module.problems.append(f"{where}: {replicas} replicas x {partitions} partitions")
        return False
    for partition in range(partitions):
        row = [replica * partitions + partition for replica in range(replicas)]
        module.proto.device_assignment.computation_devices.add(replica_device_ids=row)
    return True


def program_of_instructions(
    texts: Iterable[str], program_id: int, module: str, source: str
) -> ReadProgram:
    """A program from loose instructions, as a trace without HLO names its ops.

    Operands without text of their own have the shape that their user's text states
    (`Program.unseen`); called computations and the device assignment are unknown.
    """
    built = _Module()
    built.proto.name = module.encode()
    holder = built.computation("")
    for text in dict.fromkeys(texts):
        built.instruction(holder, text, source)
    built.name_operands()
    _name_computations(built)
    opaque = {message.id for _, message, line in built.lines if _is_wrapper(message, line)}
    program = built.program(program_id, module, opaque, loose=True)
    return ReadProgram(program, built.problems)
