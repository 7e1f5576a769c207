"""Sizes and texts of shapes, worked out by hand."""

from __future__ import annotations

import pytest

from tests.ingest.build import shape, tuple_shape
from xlahouse.ingest.hlo import shapes


@pytest.mark.parametrize(
    ("built", "logical", "padded", "text"),
    [
        # 32 x 32 x 8192 elements of 2 bytes; 32 and 8192 are whole tiles of 8 and 128 (METRICS, layout)
        (
            shape("bf16", 32, 32, 8192, tiles=((8, 128), (2, 1)), space=1),
            16_777_216,
            16_777_216,
            "bf16[32,32,8192]{2,1,0:T(8,128)(2,1)S(1)}",
        ),
        # 5 rows fill one tile of 8, 100 columns one of 128: 8 x 128 x 4
        (shape("f32", 5, 100, tiles=((8, 128),)), 2_000, 4_096, "f32[5,100]{1,0:T(8,128)}"),
        # a scalar in a tile of 128
        (shape("f32", tiles=((128,),)), 4, 512, "f32[]{:T(128)}"),
        # 7 elements of 4 bits: 28 bits need 4 bytes
        (shape("s4", 7), 4, 4, "s4[7]{0}"),
        (shape("f8e4m3fn", 3, 5), 15, 15, "f8e4m3fn[3,5]{1,0}"),
        (shape("pred", 0, 4), 0, 0, "pred[0,4]{1,0}"),
        (shape("token"), 0, 0, "token[]"),
        # 8 + 4; the token holds no data
        (
            tuple_shape(shape("f32", 2), shape("token"), shape("u32")),
            12,
            12,
            "(f32[2]{0}, token[], u32[])",
        ),
    ],
)
def test_sizes_and_text(built, logical, padded, text):
    assert shapes.logical_bytes(built) == logical
    assert shapes.padded_bytes(built) == padded
    assert shapes.shape_text(built) == text


def test_unknown_element_type_has_no_size():
    built = shape("f32", 2)
    built.element_type = 99
    assert shapes.logical_bytes(built) is None
    assert shapes.padded_bytes(built) is None
    assert shapes.dtype(built) == "unknown"


@pytest.mark.parametrize("order", [[], [0], [2, 0], [0, 0], [-1, 0]])
def test_a_layout_that_does_not_order_the_dims_has_no_padded_size(order):
    built = shape("f32", 2, 3)
    built.layout.minor_to_major[:] = order
    assert shapes.padded_bytes(built) is None
    assert shapes.logical_bytes(built) == 24
