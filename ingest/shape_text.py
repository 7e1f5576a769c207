"""Reads shapes as HLO text writes them: `bf16[8,128]{1,0:T(8,128)(2,1)S(1)}`, tuples in parentheses."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from xlahouse.ingest import shapes
from xlahouse.ingest.hlo_scan import HloTextError, closing, shown, split_commas
from xlahouse.ingest.proto import message_class

_NUMBERS = {name: number for number, (name, _) in shapes.ELEMENT_TYPES.items()}
_NO_DATA = {"token": shapes.TOKEN, "opaque": shapes.OPAQUE}
_ARRAY = re.compile(r"([a-z]\w*)\[([^\]]*)\]")
_MARK = re.compile(r"([A-Z#*]+)(\([^)]*\))((?:\([^)]*\))*)")


def end_of_shape(text: str, start: int = 0) -> int:
    """Where the shape that begins at `start` ends.

    Raises:
        HloTextError: no shape begins there.
    """
    if text.startswith("(", start):
        return closing(text, start) + 1
    found = _ARRAY.match(text, start)
    if found is None:
        if text.startswith("b(", start):  # a buffer: the shape within it
            return closing(text, start + 1) + 1
        raise HloTextError(f"no shape: {shown(text[start:])}")
    end = found.end()
    return closing(text, end) + 1 if text.startswith("{", end) else end


@lru_cache(maxsize=65536)
def read_shape(text: str) -> Any:
    """A ShapeProto of a shape's text. It is shared: do not change it.

    Raises:
        HloTextError: it is no shape.
    """
    shape = message_class("ShapeProto")()
    if text.startswith("("):
        shape.element_type = shapes.TUPLE
        shape.tuple_shapes.extend(read_shape(part) for part in split_commas(text[1:-1]))
        return shape
    if text.startswith("b("):
        return read_shape(text[2:-1])
    found = _ARRAY.match(text)
    if found is None:
        raise HloTextError(f"no shape: {shown(text)}")
    name, dims = found.groups()
    number = _NO_DATA.get(name) or _NUMBERS.get(name)
    if number is None:
        raise HloTextError(f"unknown element type {name} in {shown(text)}")
    shape.element_type = number
    for dim in split_commas(dims):
        bound = dim.removeprefix("?").removeprefix("<=")  # `<=8`: dynamic, at most 8
        if not bound.isdigit():
            raise HloTextError(f"a dimension without a size in {shown(text)}")
        shape.dimensions.append(int(bound))
        shape.is_dynamic_dimension.append(bound != dim)
    if found.end() < len(text):
        _read_layout(shape.layout, text[found.end() + 1 : -1])
    return shape


def _read_layout(layout: Any, text: str) -> None:
    """`1,0:T(8,128)(2,1)E(4)S(1)`; marks that say nothing of sizes or places are passed over."""
    order, _, marks = text.partition(":")
    layout.minor_to_major.extend(_numbers(order))
    for found in _MARK.finditer(marks):
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


def _numbers(text: str) -> list[int]:
    try:
        return [int(number) for number in text.split(",") if number.strip()]
    except ValueError:
        raise HloTextError(f"no list of numbers: {shown(text)}") from None
