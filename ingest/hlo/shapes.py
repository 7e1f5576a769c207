"""Shapes of HLO values: their text, and their logical and padded sizes in bytes."""

from __future__ import annotations

import math

from xlahouse.ingest.hlo.messages import Shape

# xla.PrimitiveType (xla/xla_data.proto): number -> (name in HLO text, bits of an element).
ELEMENT_TYPES = {
    1: ("pred", 8),
    2: ("s8", 8),
    3: ("s16", 16),
    4: ("s32", 32),
    5: ("s64", 64),
    6: ("u8", 8),
    7: ("u16", 16),
    8: ("u32", 32),
    9: ("u64", 64),
    10: ("f16", 16),
    11: ("f32", 32),
    12: ("f64", 64),
    15: ("c64", 64),
    16: ("bf16", 16),
    18: ("c128", 128),
    19: ("f8e5m2", 8),
    20: ("f8e4m3fn", 8),
    21: ("s4", 4),
    22: ("u4", 4),
    23: ("f8e4m3b11fnuz", 8),
    24: ("f8e5m2fnuz", 8),
    25: ("f8e4m3fnuz", 8),
    26: ("s2", 2),
    27: ("u2", 2),
    28: ("f8e4m3", 8),
    29: ("f8e3m4", 8),
    30: ("s1", 1),
    31: ("u1", 1),
    32: ("f4e2m1fn", 4),
    33: ("f8e8m0fnu", 8),
}
TUPLE, TOKEN, OPAQUE = 13, 17, 14
COMBINED = -1 << 63  # a dim of a tile that is merged into the next: xla::Tile::kCombineDimension
UNBOUNDED = -1 << 63  # a dimension without a size, written `?`: xla::Shape::kUnboundedSize
UNKNOWN_SPACE = -1  # memory space of a layout that cannot be read
DATALESS = {TOKEN: "token", OPAQUE: "opaque"}


def dtype(shape: Shape) -> str:
    """Element type as HLO text writes it; `tuple`, `token` or `opaque` for a value that is not an array."""
    if shape.element_type == TUPLE:
        return "tuple"
    if shape.element_type in DATALESS:
        return DATALESS[shape.element_type]
    return ELEMENT_TYPES.get(shape.element_type, ("unknown", 0))[0]


def leaves(shape: Shape) -> list[Shape]:
    """The arrays of a shape: its tuple elements, flattened, without tokens and opaque values."""
    if shape.element_type == TUPLE:
        return [leaf for part in shape.tuple_shapes for leaf in leaves(part)]
    return [] if shape.element_type in DATALESS else [shape]


def is_known(leaf: Shape) -> bool:
    """Whether element type and dimensions of an array are known."""
    return leaf.element_type in ELEMENT_TYPES and min(leaf.dimensions, default=0) >= 0


def is_bound(leaf: Shape) -> bool:
    """Whether a dimension of an array is dynamic: its size is then the most it may be."""
    return any(leaf.is_dynamic_dimension)


def dims(shape: Shape) -> list[int | None]:
    """Dimensions of an array; None for one that has no size."""
    return [None if size < 0 else size for size in shape.dimensions]


def logical_bytes(shape: Shape) -> int | None:
    """dims x bits, rounded up to bytes, summed over a tuple; None where unknown."""
    total = 0
    for leaf in leaves(shape):
        if not is_known(leaf):
            return None
        total += _bytes(math.prod(leaf.dimensions), ELEMENT_TYPES[leaf.element_type][1])
    return _plausible(total)


def padded_bytes(shape: Shape) -> int | None:
    """Bytes that the tiled layout occupies, summed over a tuple; None where it is not known."""
    total = 0
    for leaf in leaves(shape):
        if not is_known(leaf) or leaf.layout.memory_space == UNKNOWN_SPACE:
            return None
        order = list(leaf.layout.minor_to_major)
        if sorted(order) != list(range(len(leaf.dimensions))):  # absent, or damaged
            return None
        sizes = [leaf.dimensions[index] for index in reversed(order)]
        for tile in leaf.layout.tiles:
            if min(tile.dimensions, default=1) < 1:  # "combine" dims are negative
                return None
            sizes = _tiled(sizes, list(tile.dimensions))
        bits = leaf.layout.element_size_in_bits or ELEMENT_TYPES[leaf.element_type][1]
        total += _bytes(math.prod(sizes), bits)
    return _plausible(total)


def _plausible(total: int) -> int | None:
    """None for a size beyond any memory: damaged dimensions."""
    return total if 0 <= total < 1 << 60 else None


def _tiled(sizes: list[int], tile: list[int]) -> list[int]:
    """Split the innermost dims (major to minor) into tiles, each dim rounded up to whole tiles."""
    sizes = [1] * (len(tile) - len(sizes)) + sizes
    inner = sizes[len(sizes) - len(tile) :]
    counts = [-(-dim // size) for dim, size in zip(inner, tile, strict=True)]
    return sizes[: len(sizes) - len(tile)] + counts + tile


def _bytes(elements: int, bits: int) -> int:
    return -(-elements * bits // 8)


def tiling(shape: Shape) -> str | None:
    """Tiles as HLO text writes them, such as `(8,128)(2,1)`; None without tiles."""
    tiles = (",".join(map(_tile_dim, tile.dimensions)) for tile in shape.layout.tiles)
    return "".join(f"({tile})" for tile in tiles) or None


def _tile_dim(size: int) -> str:
    return "*" if size == COMBINED else str(size)


def shape_text(shape: Shape) -> str:
    """As HLO text writes it: `bf16[8,128]{1,0:T(8,128)S(1)}`, tuples in parentheses."""
    if shape.element_type == TUPLE:
        return "(" + ", ".join(shape_text(part) for part in shape.tuple_shapes) + ")"
    if shape.element_type in DATALESS:
        return DATALESS[shape.element_type] + "[]"
    dynamic = [*shape.is_dynamic_dimension, *(False for _ in shape.dimensions)]
    sizes = ",".join(
        "?" if size == UNBOUNDED else f"<={size}" if unsure else f"{size}"
        for size, unsure in zip(shape.dimensions, dynamic, strict=False)
    )
    layout = ",".join(map(str, shape.layout.minor_to_major))
    tiles = tiling(shape)
    space = shape.layout.memory_space
    bits = shape.layout.element_size_in_bits
    marks = (f"T{tiles}" if tiles else "") + (f"E({bits})" if bits else "")
    marks += f"S({space})" if space > 0 else ""
    layout += f":{marks}" if marks else ""
    return f"{dtype(shape)}[{sizes}]" + (f"{{{layout}}}" if layout else "")
