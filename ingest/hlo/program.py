"""Reads HLO protos: an indexed module, and the rows of the `instructions` table."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from google.protobuf.message import DecodeError

from xlahouse.ingest.hlo import shapes
from xlahouse.ingest.hlo.fused_async import AsyncPart, async_parts
from xlahouse.ingest.hlo.groups import Assignment
from xlahouse.ingest.hlo.megascale import DcnPart, dcn_parts
from xlahouse.ingest.hlo.messages import HloComputation, HloInstruction, HloModule, Shape, module_of
from xlahouse.ingest.hlo.scopes import component_of, component_of_kernel, layer_of, tick_of
from xlahouse.ingest.hlo.stack_frames import source_of

FINGERPRINT = re.compile(r"\((\d+)\)$")  # `jit_f(12190760917235803885)`
_UINT64 = 2**64


@dataclass(frozen=True)
class Program:
    """A compiled program: an HloModule with its instructions by id."""

    program_id: int  # as in the table ops
    module: str  # name of the HLO module
    proto: HloModule  # the module as a message
    assignment_assumed: bool = False  # no device assignment is stated, so it has the usual one
    unseen: tuple[HloInstruction, ...] = ()  # operands of which only name and shape are known
    opaque: frozenset[int] = frozenset()  # ids of instructions that call unknown computations
    unread: frozenset[int] = frozenset()  # ids of instructions whose groups or pairs cannot be read
    loose: bool = False  # only the texts by which a trace names its ops are known
    names_ranks: bool = False  # its groups name devices, not partitions or replicas
    digest: bytes = b""  # of its bytes: equal ones need not be compared; empty where unknown
    # device assignments of other processes that run the same program on devices of their own
    elsewhere: tuple[Assignment, ...] = ()
    buffers: bytes = b""  # its BufferAssignmentProto; empty where the trace has none

    @cached_property
    def assignment(self) -> Assignment | None:
        """Which device runs which replica and partition."""
        return Assignment.of(self.proto)

    @property
    def assignments(self) -> list[Assignment | None]:
        """Its own assignment, which may be unknown, and the assignments of other processes."""
        return [self.assignment, *self.elsewhere]

    @cached_property
    def computations(self) -> dict[int, HloComputation]:
        """Computations by id."""
        return {computation.id: computation for computation in self.proto.computations}

    @cached_property
    def by_id(self) -> dict[int, HloInstruction]:
        """Instructions by id, over all computations."""
        seen = {instruction.id: instruction for _, instruction in self.instructions()}
        return seen | {instruction.id: instruction for instruction in self.unseen}

    @cached_property
    def _holders(self) -> dict[int, HloComputation]:
        return {instruction.id: computation for computation, instruction in self.instructions()}

    @cached_property
    def async_parts(self) -> dict[int, AsyncPart]:
        """By the id of a fusion, its part in a transfer that is spread over several fusions."""
        return async_parts(self.proto.computations)

    @cached_property
    def dcn_parts(self) -> dict[int, DcnPart]:
        """By the id of a send, a recv or a done, its part in a transfer between slices."""
        return dcn_parts(self.proto.computations)

    @cached_property
    def passing(self) -> frozenset[int]:
        """Ids of collectives in fusions that compute while the transfer, started before, is in flight."""
        through = (part for part in self.async_parts.values() if part.role == "through")
        return frozenset(number for part in through for number in part.goes_on)

    @cached_property
    def begun_elsewhere(self) -> dict[int, HloInstruction]:
        """By the id of a collective in a fusion, the fusion that has started its transfer."""
        return {
            number: part.start
            for part in self.async_parts.values()
            if part.start is not None
            for number in part.goes_on
        }

    @cached_property
    def loops(self) -> list[HloInstruction]:
        """Its while instructions."""
        return [each for _, each in self.instructions() if each.opcode == b"while"]

    @cached_property
    def loop_bodies(self) -> dict[int, HloInstruction]:
        """By the id of a loop's body, the tuple at its root, which the loop carries from round to round.

        The root of a condition is not a tuple.
        """
        called = [computation for loop in self.loops for computation in self.called(loop)]
        roots = {computation.id: self.by_id.get(computation.root_id) for computation in called}
        return {number: root for number, root in roots.items() if root and root.opcode == b"tuple"}

    def computation_of(self, instruction: HloInstruction) -> HloComputation:
        """The computation that holds an instruction."""
        return self._holders[instruction.id]

    def instructions(self) -> Iterator[tuple[HloComputation, HloInstruction]]:
        """(computation, instruction) of every instruction."""
        for computation in self.proto.computations:
            for instruction in computation.instructions:
                yield computation, instruction

    def operands(self, instruction: HloInstruction) -> list[HloInstruction]:
        """The instructions whose values it takes; unknown ids are left out."""
        found = (self.by_id.get(number) for number in instruction.operand_ids)
        return [operand for operand in found if operand is not None]

    def called(self, instruction: HloInstruction) -> list[HloComputation]:
        """The computations that it calls."""
        found = (self.computations.get(number) for number in instruction.called_computation_ids)
        return [computation for computation in found if computation is not None]

    def framework_op(self, instruction: HloInstruction) -> str:
        """Its op_name, else the op_name of the root of a computation that it calls."""
        if instruction.metadata.op_name:
            return _text(instruction.metadata.op_name)
        for computation in self.called(instruction):
            root = self.by_id.get(computation.root_id)
            if root is not None and root.metadata.op_name:
                return _text(root.metadata.op_name)
        return ""


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def parse_program(raw: bytes, program_id: int | None, name: str) -> Program:
    """Parse a serialized HloProto.

    Args:
        raw: the bytes.
        program_id: the id by which events name the program; None: the module's own.
        name: what the trace calls it.

    Raises:
        ValueError: the bytes are not an HloProto.
    """
    try:
        module, buffers = module_of(raw)
    except DecodeError as error:
        raise ValueError(f"the HLO of {name} is damaged: {error}") from error
    own = module.id if program_id is None else program_id
    digest = hashlib.sha256(raw).digest()
    called = _text(module.name) or name
    return Program(own % _UINT64, called, module, digest=digest, buffers=buffers)


def instruction_rows(program: Program) -> list[dict[str, object]]:
    """Rows of the `instructions` table, without run_id."""
    names = {number: _text(other.name) for number, other in program.by_id.items()}
    shown: dict[tuple[str, int], dict[str, object]] = {}
    rows = []
    for computation, instruction in program.instructions():
        framework_op, op = program.framework_op(instruction), _text(instruction.name)
        source_file, source_line = source_of(program.proto, instruction.metadata)
        rows.append(
            {
                "program_id": program.program_id,
                "module": program.module,
                "computation": _text(computation.name),
                "op": op,
                "opcode": _text(instruction.opcode),
                "called": _joined(_text(c.name) for c in program.called(instruction)),
                "operands": _joined(names.get(n, f"#{n}") for n in instruction.operand_ids),
                "framework_op": _text(instruction.metadata.op_name) or None,
                "source_file": source_file,
                "source_line": source_line,
                "layer": layer_of(framework_op),
                "component": component_of(framework_op) or component_of_kernel(op),
                "tick": tick_of(framework_op),
                **_shape_columns(instruction.shape, shown),
            }
        )
    return rows


def _joined(names: Iterator[str]) -> str | None:
    return ",".join(names) or None


def _shape_columns(
    shape: Shape, shown: dict[tuple[str, int], dict[str, object]]
) -> dict[str, object]:
    """Columns of a shape.

    Args:
        shape: of an instruction.
        shown: those of arrays, by their text and memory space, as found so far: programs have few shapes.
    """
    text = shapes.shape_text(shape)
    if shape.element_type == shapes.TUPLE:
        return _columns_of(shape, text)
    key = (text, shape.layout.memory_space)  # the text is the same for space 0 and an unknown one
    found = shown.get(key)
    if found is None:
        found = shown[key] = _columns_of(shape, text)
    return found


def _columns_of(shape: Shape, text: str) -> dict[str, object]:
    is_array = bool(shapes.leaves(shape)) and shape.element_type != shapes.TUPLE
    space = shape.layout.memory_space
    return {
        "shape": text,
        "dtype": shapes.dtype(shape),
        "dims": shapes.dims(shape) if is_array else None,
        "layout": list(shape.layout.minor_to_major) if is_array else None,
        "tiling": shapes.tiling(shape),
        "memory_space": space if is_array and space != shapes.UNKNOWN_SPACE else None,
        "logical_bytes": shapes.logical_bytes(shape),
        "padded_bytes": shapes.padded_bytes(shape),
    }
