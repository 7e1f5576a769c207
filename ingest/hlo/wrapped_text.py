"""The transfer inside a wrapper whose computation is unknown, as far as the wrapper's text states it.

An async-start's shape holds operands and results, so sizes are known. The kind is known where the wrapper,
or the computation that it calls, is named after it and the shapes fit, or where no other kind has such
shapes. Slices and copies are wrapped too; their results are never larger than their operands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from xlahouse.ingest.hlo import shapes
from xlahouse.ingest.hlo.messages import HloInstruction, Shape
from xlahouse.ingest.hlo.program import Program
from xlahouse.ingest.hlo.transfer import COLLECTIVE_KINDS, split_role, start_of

_KIND = "|".join(sorted(COLLECTIVE_KINDS, key=len, reverse=True))
_STEM = re.compile(rf"({_KIND})(?:-start|-update|-done)?(?:\.|$)")
# `%wrapped_all-reduce.3`, `%async_slice`
_CALLED = re.compile(
    rf"(?:^|[._])(?:({_KIND})|(copy|slice|dynamic-slice|dynamic-update-slice))(?=[._]|$)"
)
_SMALLER, _EQUAL, _LARGER = -1, 0, 1  # the result, beside the operand


@dataclass(frozen=True)
class WrapperFacts:
    """The transfer inside a wrapper; None where the text does not state it.

    Bytes are known where each result is its operand but for the size of one dimension.
    """

    dtype: str | None = None  # element type
    operand_bytes: int | None = None  # of one device
    result_bytes: int | None = None  # of one device
    kind: str | None = None  # of the transfer, where names and shapes agree on it
    category: str | None = None  # copy, where the computation that an async pair calls is named so
    role: str | None = None  # of an async pair, where the category or the name states it
    start_op: str | None = None  # of a done, where its name states it


def wrapped(program: Program, instruction: HloInstruction) -> WrapperFacts:
    """The transfer inside a fusion, a call or an async pair whose computation is unknown."""
    facts = _named(program, instruction)
    operands, results, is_async = _sides(program, instruction)
    ways = {_way(operand, result) for operand, result in zip(operands, results, strict=False)}
    if facts.category or len(operands) != len(results) or len(ways) != 1 or None in ways:
        return facts
    (way,) = ways
    told = (
        _STEM.match(_text(instruction.name)),
        _called(program, instruction) if is_async else None,
    )
    kinds = (found[1] for found in told if found and found[1] and _expected(found[1]) == way)
    kind = next(kinds, None)
    if kind is None and is_async and way == _LARGER:
        kind = "all-gather"
    return replace(
        facts,
        dtype=shapes.dtype(operands[0]),
        operand_bytes=_bytes(operands),
        result_bytes=_bytes(results),
        kind=kind,
    )


def _named(program: Program, instruction: HloInstruction) -> WrapperFacts:
    """What names alone state."""
    part = program.async_parts.get(instruction.id)
    if part is not None and part.role != "through":
        start = _text(part.start.name) if part.start is not None and part.role == "done" else None
        return WrapperFacts(role=part.role, start_op=start)
    base, role = split_role(_text(instruction.opcode))
    called = _called(program, instruction)
    if base != "async" or called is None or called[2] is None:
        return WrapperFacts()
    before = start_of(program, instruction) if role != "start" else None
    start = None if before is None else _text(before.name)
    return WrapperFacts(category="copy", role=role, start_op=start)


def _called(program: Program, instruction: HloInstruction) -> re.Match[str] | None:
    """(kind or None, copy or None) in the name of the computation that it, or its start, calls."""
    called = program.called(instruction)
    if not called and split_role(_text(instruction.opcode))[1] != "start":
        start = start_of(program, instruction)
        called = [] if start is None else program.called(start)
    found = (_CALLED.search(_text(computation.name)) for computation in called)
    return next((each for each in found if each), None)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _sides(program: Program, instruction: HloInstruction) -> tuple[list[Shape], list[Shape], bool]:
    """(arrays that go in, arrays that come out, whether by an async pair)."""
    role = split_role(_text(instruction.opcode))[1]
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
