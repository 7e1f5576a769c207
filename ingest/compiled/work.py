"""The least that an instruction does: its matrix products, and its bytes to and from HBM."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from xlahouse.ingest.hlo import shapes
from xlahouse.ingest.hlo.messages import HloComputation, HloInstruction, Shape, WindowDimension
from xlahouse.ingest.hlo.program import Program

_HBM = 0  # memory space
_MOST_PLACES = 1 << 20  # of a window along a dimension that are counted
# They name values, or run other instructions, which have work of their own.
_IDLE = (
    *(b"parameter", b"constant", b"tuple", b"get-tuple-element", b"bitcast", b"while"),
    *(b"conditional", b"call", b"after-all", b"partition-id", b"replica-id", b"opt-barrier"),
    *(b"add-dependency", b"domain", b"get-dimension-size"),
)
_MOVES_BETWEEN_DEVICES = (
    *(b"all-reduce", b"all-gather", b"all-to-all", b"reduce-scatter", b"ragged-all-to-all"),
    *(b"collective-permute", b"collective-broadcast", b"send", b"recv", b"infeed", b"outfeed"),
)
_TAKES_PARTS = (b"dynamic-slice", b"slice", b"gather")
_JOINED = b"ConcatBitcast"  # names slices that were fetched into neighbouring places as one value
_KNOWN_CALLS = (
    *(b"X64", b"Sharding", b"AllocateBuffer", b"AssumeGatherIndicesInBound"),
    _JOINED,
)


@dataclass(frozen=True)
class Work:
    """Work of a program's instructions; what is not known is None."""

    program: Program  # whose instructions are asked about
    # By id: what is worked out once. Until it is, damaged HLO that calls itself finds a stand-in.
    _flops: dict[int, int | None] = field(default_factory=dict)
    _reads: dict[int, int | None] = field(default_factory=dict)  # likewise, bytes from HBM
    _writes: dict[int, int | None] = field(default_factory=dict)  # likewise, bytes into HBM

    def flops(self, instruction: HloInstruction) -> int | None:
        """Floating-point operations of its dots and convolutions, and of those in its fusion.

        None of a custom call: a kernel does work that HLO does not state.
        """
        if instruction.opcode == b"custom-call":
            return 0 if instruction.custom_call_target.startswith(_KNOWN_CALLS) else None
        return 0 if instruction.opcode == b"call" else self._products(instruction)

    def _products(self, instruction: HloInstruction) -> int | None:
        """The same of an instruction that may be within a fusion."""
        if instruction.opcode == b"dot":
            return self._of_dot(instruction)
        if instruction.opcode == b"convolution":
            return self._of_convolution(instruction)
        if instruction.opcode not in (b"fusion", b"call"):
            return 0
        if instruction.id not in self._flops:
            self._flops[instruction.id] = 0
            self._flops[instruction.id] = _sum(
                self._products(each)
                for called in self.program.called(instruction)
                for each in called.instructions
            )
        return self._flops[instruction.id]

    def _of_dot(self, instruction: HloInstruction) -> int | None:
        operands = self.program.operands(instruction)
        sizes = shapes.dims(operands[0].shape) if operands else []
        along = list(instruction.dot_dimension_numbers.lhs_contracting_dimensions)
        if any(place >= len(sizes) for place in along):
            return None
        return _product([2, *shapes.dims(instruction.shape), *(sizes[place] for place in along)])

    def _of_convolution(self, instruction: HloInstruction) -> int | None:
        """2 x outputs x input features of a group x places of the window that lie in the input."""
        operands = self.program.operands(instruction)
        numbers = instruction.convolution_dimension_numbers
        if len(operands) != 2:
            return None
        given, kernel = (shapes.dims(each.shape) for each in operands)
        out = shapes.dims(instruction.shape)
        spaces = list(numbers.input_spatial_dimensions)
        spaces_out = list(numbers.output_spatial_dimensions)
        if len(spaces) != len(spaces_out) or len(instruction.window.dimensions) != len(spaces):
            return None
        try:
            pairs = [
                _places(given[one], out[other], window)
                for one, other, window in zip(
                    spaces, spaces_out, instruction.window.dimensions, strict=True
                )
            ]
            features = [
                out[numbers.output_batch_dimension],
                out[numbers.output_feature_dimension],
                kernel[numbers.kernel_input_feature_dimension],
            ]
        except IndexError:
            return None
        return _product([2, *features, *pairs])

    def hbm_bytes(self, instruction: HloInstruction) -> int | None:
        """Bytes that it must read from HBM and write to it: of operands the parts that it takes.

        None of its own where it only names values or runs others; transfers between devices have none here.
        """
        opcode = instruction.opcode
        plain = opcode.removesuffix(b"-start")
        if opcode in _IDLE or opcode.endswith((b"-done", b"-update")):
            return 0
        if plain in _MOVES_BETWEEN_DEVICES or instruction.custom_call_target == _JOINED:
            return 0
        operands = self.program.operands(instruction)
        inner = self.program.called(instruction)
        if opcode in (b"fusion", b"async-start") and inner:
            return self._of_fusion(inner[0], operands)
        if opcode in _TAKES_PARTS:
            taken = (
                shapes.logical_bytes(instruction.shape)
                if operands and _in_hbm(operands[0].shape)
                else 0
            )
            return _sum([taken, _in(instruction.shape)])
        if opcode == b"dynamic-update-slice" and len(operands) > 1:
            written = shapes.logical_bytes(operands[1].shape) if _in_hbm(instruction.shape) else 0
            return _sum([_in(operands[1].shape), written])
        result = instruction.shape
        if opcode == b"copy-start" and len(result.tuple_shapes):
            result = result.tuple_shapes[0]
        return _sum([*(_in(each.shape) for each in operands), _in(result)])

    def _of_fusion(self, inner: HloComputation, operands: list[HloInstruction]) -> int | None:
        read = [self._read(inner, place, each.shape) for place, each in enumerate(operands)]
        root = self.program.by_id.get(inner.root_id)
        return None if root is None else _sum([*read, self._written(root)])

    def _read(self, inner: HloComputation, place: int, given: Shape) -> int | None:
        """Bytes that a fusion reads of an operand in HBM."""
        value = self._parameters.get((inner.id, place))
        return 0 if value is None else self._taken(value, inner, given)

    @cached_property
    def _parameters(self) -> dict[tuple[int, int], HloInstruction]:
        """(computation, number) -> its parameter."""
        return {
            (computation.id, each.parameter_number): each
            for computation, each in self.program.instructions()
            if each.opcode == b"parameter"
        }

    @cached_property
    def _users_of(self) -> dict[int, dict[int, list[tuple[HloInstruction, int]]]]:
        """Of each computation: id of an instruction -> the instructions that take its value, and where."""
        found: dict[int, dict[int, list[tuple[HloInstruction, int]]]] = {}
        for computation in self.program.proto.computations:
            users = found.setdefault(computation.id, {})
            for instruction in computation.instructions:
                for place, number in enumerate(instruction.operand_ids):
                    users.setdefault(number, []).append((instruction, place))
        return found

    def _taken(self, value: HloInstruction, holder: HloComputation, given: Shape) -> int | None:
        """Bytes of a value in HBM that its users read: slices count as what they take."""
        whole = _in(given)
        if not whole:
            return whole
        if value.id not in self._reads:
            self._reads[value.id] = whole
            self._reads[value.id] = self._by_users(value, holder, given, whole)
        return self._reads[value.id]

    def _by_users(
        self, value: HloInstruction, holder: HloComputation, given: Shape, whole: int
    ) -> int | None:
        taken = whole if value.id == holder.root_id else 0  # the result, which users outside read
        for user, place in self._users_of[holder.id].get(value.id, ()):
            part: int | None = whole
            if user.opcode in _TAKES_PARTS and place == 0:
                part = shapes.logical_bytes(user.shape)
            elif user.opcode == b"dynamic-update-slice" and place == 0:
                part = 0
            elif user.opcode == b"bitcast":
                part = self._taken(user, holder, given)
            elif user.opcode == b"get-tuple-element":
                part = self._taken(user, holder, user.shape)
            elif user.opcode == b"fusion" and (called := self.program.called(user)):
                through = self._passes(called[0], place)
                part = (
                    self._taken(user, holder, given)
                    if through
                    else self._read(called[0], place, given)
                )
            if part is None:
                return None
            taken += part
        return min(taken, whole)

    def _passes(self, inner: HloComputation, place: int) -> bool:
        """Whether a fusion's result is its operand at `place`, which is read where the result is."""
        value = self.program.by_id.get(inner.root_id)
        while value is not None and value.opcode == b"bitcast":
            value = next(iter(self.program.operands(value)), None)
        return (
            value is not None and value.opcode == b"parameter" and value.parameter_number == place
        )

    def _written(self, root: HloInstruction) -> int | None:
        """Bytes of a fusion's result that it writes to HBM: of an update in place, the update."""
        if root.id not in self._writes:
            self._writes[root.id] = _in(root.shape)
            self._writes[root.id] = self._by_root(root)
        return self._writes[root.id]

    def _by_root(self, root: HloInstruction) -> int | None:
        operands = self.program.operands(root)
        if root.opcode == b"tuple":
            return _sum([self._written(each) for each in operands])
        if root.opcode == b"bitcast" and operands and _in_hbm(root.shape):
            return self._written(operands[0])
        inner = self.program.called(root) if root.opcode == b"fusion" else []
        if inner and (last := self.program.by_id.get(inner[0].root_id)) is not None:
            return self._written(last)
        if not _in_hbm(root.shape):
            return _in(root.shape)
        if root.opcode == b"dynamic-update-slice" and len(operands) > 1:
            return shapes.logical_bytes(operands[1].shape)
        return _in(root.shape)


def _places(given: int | None, out: int | None, window: WindowDimension) -> int | None:
    """(places of an output, place in the window) that meet an element of the input, along a dimension."""
    if given is None or out is None or min(window.size, window.stride) < 1:
        return None
    base, dilation = max(window.base_dilation, 1), max(window.window_dilation, 1)
    if out * window.size > _MOST_PLACES:
        return None
    return _met(given, out, window.size, window.stride, window.padding_low, dilation, base)


@lru_cache(maxsize=4096)
def _met(
    given: int, out: int, size: int, stride: int, padding: int, dilation: int, base: int
) -> int:
    last = (given - 1) * base
    places = (
        place * stride - padding + step * dilation for place in range(out) for step in range(size)
    )
    return sum(0 <= at <= last and at % base == 0 for at in places)


def _product(sizes: Iterable[int | None]) -> int | None:
    known = list(sizes)
    total = math.prod(each for each in known if each is not None)
    return None if None in known or total >= 1 << 62 else total


def _sum(parts: Iterable[int | None]) -> int | None:
    known = list(parts)
    return None if None in known else sum(each or 0 for each in known)


def _in_hbm(shape: Shape) -> bool:
    return any(leaf.layout.memory_space == _HBM for leaf in shapes.leaves(shape))


def _in(shape: Shape) -> int | None:
    """Bytes of a value's parts that lie in HBM."""
    parts = [leaf for leaf in shapes.leaves(shape) if leaf.layout.memory_space == _HBM]
    return _sum(map(shapes.logical_bytes, parts))
