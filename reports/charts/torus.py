"""Names of the lines of chips in a torus, as charts of its links call them."""

from __future__ import annotations


def sizes_of(topology: str) -> list[int]:
    """`4x2x2` or `4x2` -> chips along x, y and z."""
    return [*(int(size) for size in topology.split("x")), 1][:3]


def shape_name(topology: str) -> str:
    """`4x2x1` -> `4x2`."""
    return topology.removesuffix("x1")


def across(dimension: str, sizes: list[int]) -> str:
    """The names of the other coordinates, without coordinates of size 1."""
    named = zip("xyz", sizes, strict=True)
    return ", ".join(name for name, size in named if name != dimension and size > 1) or "one"


def line_count(dimension: str, sizes: list[int]) -> int:
    """Lines of chips that lie along a dimension."""
    return sizes[0] * sizes[1] * sizes[2] // sizes["xyz".index(dimension)]


def line_name(line: int, dimension: str, sizes: list[int]) -> str:
    """Number of a line of chips -> its other coordinates, such as `y 1` or `y 1, z 0`."""
    others = [(name, size) for name, size in zip("xyz", sizes, strict=True) if name != dimension]
    (minor, width), (major, depth) = others
    parts = [(minor, line % width, width), (major, line // width, depth)]
    return ", ".join(f"{name} {place}" for name, place, size in parts if size > 1) or "all"
