"""Random weights: an element is a hash of its indices, worked out here with Python's integers."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from tests.later import Later, needs
from xlahouse.capture.models.drawing import drawing
from xlahouse.capture.models.weights import RandomWeights

torch = Later("torch")
pytestmark = needs("torch")

MASK = 2**32 - 1


def mix(word):
    word = (word ^ word >> 16) * 0x7FEB352D & MASK
    word = (word ^ word >> 15) * 0x846CA68B & MASK
    return word ^ word >> 16


def element(key, row, column):
    """A word in [-2**31, 2**31), the low 8 bits of which are 0."""
    start = mix(zlib.crc32(key.encode()))
    across = mix(start ^ 0x5851F42D)
    r = mix((row * 0x9E3779B1 + start) & MASK)
    c = mix((column * 0x9E3779B1 + across) & MASK)
    s, d = mix((r + 0x3C6EF372) & MASK), mix((c + 0x3C6EF372) & MASK)
    word = (r + c) * (s ^ d) & MASK & ~255
    return word - 2**32 if word >= 2**31 else word


@pytest.mark.parametrize("deviation", [1.0, 0.125])
def test_an_element_is_a_hash_of_its_indices(deviation):
    drawn = drawing("5:some.weight", (2, 3, 4), deviation).tensor()
    scale = np.float32(deviation * 3**0.5 / 2**31)
    for first in range(2):
        for second in range(3):
            for column in range(4):
                word = element("5:some.weight", 3 * first + second, column)
                assert drawn[first, second, column].item() == np.float32(word) * scale


def test_elements_are_uniform_of_the_deviation_and_do_not_depend_on_one_another():
    drawn = drawing("0:x", (512, 1024), 1.0).tensor().double()
    assert abs(float(drawn.mean())) < 5 / 724  # 724**2 elements: five standard errors
    assert float(drawn.var()) == pytest.approx(1, abs=5 * 0.9 / 724)  # kurtosis 1.8
    assert float((drawn**4).mean()) == pytest.approx(1.8, abs=0.02)
    assert float(drawn.abs().max()) <= 3**0.5
    # The largest singular value of independent elements is near sqrt(512) + sqrt(1024) = 54.6.
    assert float(torch.linalg.matrix_norm(drawn, 2)) == pytest.approx(54.6, rel=0.02)
    near = torch.corrcoef(drawn) - torch.eye(512)
    assert float(near.abs().max()) < 6 / 32  # six standard errors over 131,000 pairs


def test_names_and_seeds_give_other_weights_and_norms_are_near_1():
    like = torch.empty(8, 16, device="meta")
    source = RandomWeights(3)
    one = source.tensor("model.layers.0.mlp.up_proj.weight", like)
    assert torch.equal(one, RandomWeights(3).tensor("model.layers.0.mlp.up_proj.weight", like))
    for seed, name in (
        (3, "model.layers.1.mlp.up_proj.weight"),
        (4, "model.layers.0.mlp.up_proj.weight"),
    ):
        other = RandomWeights(seed).tensor(name, like)
        assert not torch.equal(one, other)
    row = torch.empty(64, device="meta")
    norm, bias = (source.tensor(f"model.{name}", row) for name in ("norm.weight", "q_proj.bias"))
    assert 0.8 < float(norm.min()) < float(norm.max()) < 1.2
    assert -0.2 < float(bias.min()) < 0 < float(bias.max()) < 0.2


def test_the_experts_of_a_token_id_are_distinct():
    like = torch.empty(100, 3, dtype=torch.int64, device="meta")
    chosen = RandomWeights(0, experts=8).tensor("tid2eid", like)
    assert chosen.dtype == torch.int64
    assert all(len(set(row)) == 3 and set(row) <= set(range(8)) for row in chosen.tolist())
    assert len(set(chosen.flatten().tolist())) == 8
