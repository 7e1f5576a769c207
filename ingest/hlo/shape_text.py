"""Reads shapes in HLO text: `bf16[8,128]{1,0:T(8,128)(2,1)S(1)}`, tuples in parentheses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from xlahouse.ingest.hlo import shapes
from xlahouse.ingest.hlo.messages import ArrayLayout, Shape, new_shape
from xlahouse.ingest.hlo.scan import HloTextError, closing, shown, split_commas

_TYPE_NUMBERS = {name: number for number, (name, _) in shapes.ELEMENT_TYPES.items()} | {
    name: number for number, name in shapes.DATALESS.items()
}
_ARRAY_SHAPE = re.compile(r"([a-z]\w*)\[([^\]]*)\]")
_LAYOUT_MARK = re.compile(r"([A-Z#*]+)(\([^)]*\))((?:\([^)]*\))*)")
_DEEPEST_TUPLE = 32  # protobuf itself ends at 100
_LARGEST_SIZE = (1 << 63) - 1  # protos hold sizes in 64 bits


@dataclass(frozen=True)
class ReadShape:
    """A shape that was read from text.

    A part that could not be read stays unknown: an element type 0, a dimension shapes.UNBOUNDED, a
    memory space shapes.UNKNOWN_SPACE.
    """

    proto: Shape  # shared: do not change it
    problems: tuple[str, ...] = ()  # a line for each part that could not be read


def end_of_shape(text: str, start: int = 0) -> int:
    """Where the shape that begins at `start` ends.

    Raises:
        HloTextError: no shape begins there.
    """
    if text.startswith("(", start):
        return closing(text, start) + 1
    found = _ARRAY_SHAPE.match(text, start)
    if found is None:
        if text.startswith("b(", start):  # a buffer: the shape within it
            return closing(text, start + 1) + 1
        raise HloTextError(f"not a shape: {shown(text[start:])}")
    end = found.end()
    return closing(text, end) + 1 if text.startswith("{", end) else end


@lru_cache(maxsize=65536)
def read_shape(text: str) -> ReadShape:
    """Read a shape's text; a part that cannot be read stays unknown, and the rest is read."""
    shape = new_shape()
    problems: list[str] = []
    _read(text, shape, problems)
    return ReadShape(shape, tuple(problems))


def _read(text: str, shape: Shape, problems: list[str], depth: int = 0) -> None:
    if depth > _DEEPEST_TUPLE:
        problems.append(f"tuples nested too deep: {shown(text)}")
        return
    if text.startswith("("):
        shape.element_type = shapes.TUPLE
        for part in split_commas(text[1:-1]):
            _read(part, shape.tuple_shapes.add(), problems, depth + 1)
        return
    if text.startswith("b("):
        _read(text[2:-1], shape, problems, depth + 1)
        return
    found = _ARRAY_SHAPE.match(text)
    if found is None:
        problems.append(f"not a shape: {shown(text)}")
        return
    name, dims = found.groups()
    number = _TYPE_NUMBERS.get(name)
    if number is None:
        problems.append(f"unknown element type {name} in {shown(text)}")
    shape.element_type = number or 0
    for dim in split_commas(dims):
        bound = dim.removeprefix("?").removeprefix("<=")  # `<=8`: dynamic, at most 8; `?`: no bound
        size = _size(bound) if bound else shapes.UNBOUNDED
        if size is None:
            problems.append(f"a dimension without a size in {shown(text)}")
        shape.dimensions.append(shapes.UNBOUNDED if size is None else size)
        shape.is_dynamic_dimension.append(bound != dim)
    if found.end() < len(text):
        try:
            _read_layout(shape.layout, text[found.end() + 1 : -1])
        except ValueError:  # no number, or one beyond its field
            shape.layout.Clear()
            shape.layout.memory_space = shapes.UNKNOWN_SPACE
            problems.append(f"a layout that cannot be read in {shown(text)}")


def _size(text: str) -> int | None:
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        return None
    return size if (size := int(text)) <= _LARGEST_SIZE else None


def _read_layout(layout: ArrayLayout, text: str) -> None:
    """`1,0:T(8,128)(2,1)E(4)S(1)`; marks that affect neither size nor memory space are skipped."""
    order, _, marks = text.partition(":")
    layout.minor_to_major.extend(int(index) for index in order.split(",") if index.strip())
    for found in _LAYOUT_MARK.finditer(marks):
        mark, first, more = found.groups()
        if mark == "T":
            for tile in re.findall(r"\(([^)]*)\)", first + more):
                dims = [
                    shapes.COMBINED if dim == "*" else int(dim) for dim in tile.split(",") if dim
                ]
                layout.tiles.add(dimensions=dims)
        elif mark == "E":
            layout.element_size_in_bits = int(first[1:-1])
        elif mark == "S":
            layout.memory_space = int(first[1:-1])
