"""The transfer inside a wrapper whose computation is unknown, as far as the wrapper's text states it.

An async-start's shape holds operands and results, so sizes are known. The kind is known where the wrapper
is named after it and the shapes fit, or where no other kind has such shapes. Slices and copies are wrapped
too; their results are never larger than their operands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from xlahouse.ingest.hlo import shapes
from xlahouse.ingest.hlo.messages import HloInstruction, Shape
from xlahouse.ingest.hlo.program import Program
from xlahouse.ingest.hlo.transfer import COLLECTIVE_KINDS, split_role

_STEM = re.compile(rf"({'|'.join(COLLECTIVE_KINDS)})(?:-start|-update|-done)?(?:\.|$)")
_SMALLER, _EQUAL, _LARGER = -1, 0, 1  # the result, beside the operand


@dataclass(frozen=True)
class WrapperFacts:
    """The transfer inside a wrapper; None where the text does not state it.

    Bytes are known where each result is its operand but for the size of one dimension.
    """

    dtype: str | None = None
    operand_bytes: int | None = None  # of one device
    result_bytes: int | None = None  # of one device
    kind: str | None = None  # of the transfer, where the wrapper's name and shapes agree on it


def wrapped(program: Program, instruction: HloInstruction) -> WrapperFacts:
    """The transfer inside a fusion, a call or an async pair whose computation is unknown."""
    operands, results, is_async = _sides(program, instruction)
    ways = {_way(operand, result) for operand, result in zip(operands, results, strict=False)}
    if len(operands) != len(results) or len(ways) != 1 or None in ways:
        return WrapperFacts()
    (way,) = ways
    named = _STEM.match(instruction.name.decode("utf-8", "replace"))
    kind = named[1] if named and _expected(named[1]) == way else None
    if kind is None and is_async and way == _LARGER:
        kind = "all-gather"
    return WrapperFacts(shapes.dtype(operands[0]), _bytes(operands), _bytes(results), kind)


def _sides(program: Program, instruction: HloInstruction) -> tuple[list[Shape], list[Shape], bool]:
    """(arrays that go in, arrays that come out, whether by an async pair)."""
    role = split_role(instruction.opcode.decode("utf-8", "replace"))[1]
    operands = program.operands(instruction)
    if role == "sync":
        return _arrays([each.shape for each in operands]), _arrays([instruction.shape]), False
    pair = instruction.shape if role == "start" else operands[0].shape if operands else None
    if pair is None or len(pair.tuple_shapes) < 2:
        return [], [], True
    return _arrays([pair.tuple_shapes[0]]), _arrays([pair.tuple_shapes[1]]), True


def _arrays(sides: list[Shape]) -> list[Shape]:
    """Arrays of some shapes; scalars control a transfer and are not part of its data."""
    leaves = [leaf for side in sides for leaf in shapes.leaves(side)]
    return [leaf for leaf in leaves if leaf.dimensions or not shapes.is_known(leaf)]


def _bytes(arrays: list[Shape]) -> int | None:
    sizes = [size for leaf in arrays if (size := shapes.logical_bytes(leaf)) is not None]
    return sum(sizes) if len(sizes) == len(arrays) else None


def _way(operand: Shape, result: Shape) -> int | None:
    """The result's size relative to the operand's; None where more than one dimension's size differs."""
    if not (shapes.is_known(operand) and shapes.is_known(result)):
        return None
    before, after = list(operand.dimensions), list(result.dimensions)
    if operand.element_type != result.element_type or len(before) != len(after):
        return None
    changed = [(old, new) for old, new in zip(before, after, strict=True) if old != new]
    if not changed:
        return _EQUAL
    ((old, new), *others) = changed
    if others or not min(old, new) or max(old, new) % min(old, new):
        return None
    return _LARGER if new > old else _SMALLER


def _expected(kind: str) -> int:
    return {"all-gather": _LARGER, "reduce-scatter": _SMALLER}.get(kind, _EQUAL)
