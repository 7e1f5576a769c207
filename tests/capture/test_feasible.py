"""Experiments that cannot run are refused, with the reason and the nearest one that can."""

from __future__ import annotations

import msgspec
import pytest

from xlahouse.capture.errors import ManifestError
from xlahouse.capture.feasible import check_feasible
from xlahouse.capture.plan import Experiment, Model

QWEN = Model(name="q", preset="qwen3-demo")  # 4 layers, 8 heads, 4 key/value heads, hidden 512
V2 = Model(name="v2", preset="deepseek-v2-lite")  # 27 layers of which 1 dense, 16 heads, 64 experts
V4 = Model(name="v4", preset="deepseek-4.1")
BASE = Experiment(
    name="a", model=QWEN, mesh={"tp": 4}, batch_size=8, prompt_tokens=16, output_tokens=4
)


def refuse(**fields):
    with pytest.raises(ManifestError) as caught:
        check_feasible(msgspec.structs.replace(BASE, **fields).candidate)
    return str(caught.value)


@pytest.mark.parametrize(
    ("fields", "reason", "near"),
    [
        # 8 devices: heads allow tp=4 at most, so the other factor of 2 goes to dp.
        ({"mesh": {"tp": 8}}, "mesh: tp=8 does not divide the model's num_key_", "{tp: 4, dp: 2}"),
        ({"mesh": {"pp": 3}}, "mesh: pp=3 does not divide the model's 4 layers", "{pp: 4}"),
        ({"mesh": {"pp": 5}}, "mesh: pp=5 does not divide the model's 4 layers", "{pp: 4}"),
        ({"model": V2, "mesh": {"pp": 3}}, "mesh: pp=3 does not divide the model's 26", "{pp: 2}"),
        ({"mesh": {"ep": 2}}, "mesh: ep=2, but qwen3 has no experts", "{tp: 2}"),
        ({"mesh": {"sp": 2}, "prompt_tokens": 15}, "prompt_tokens: 15 is not a multiple of sp=2", "{dp: 2}"),
        ({"mesh": {"tp": 2, "sp": 2}}, "mesh: tp and sp split the same weights", "{sp: 2, dp: 2}"),
        ({"batch_size": 6, "mesh": {"dp": 4}}, "batch_size: 6 is not a multiple of dp=4", "{dp: 2, tp: 2}"),
        ({"microbatches": 2}, "microbatches: 2 without a pp axis", "{tp: 4} with microbatches 1"),
        (
            {"mesh": {"pp": 2}, "microbatches": 3},
            "microbatches: 3 does not divide the 8 sequences of a device",
            "{pp: 2} with microbatches 1",
        ),
        ({"mesh": {"pp": 2, "fsdp": 2}}, "mesh: fsdp with pp would gather each weight", None),
        ({"model": V4, "mesh": {"pp": 2}}, "mesh: pp=2, but layers of deepseek_v4 differ", None),
        ({"model": V2, "mesh": {"pp": 4}}, "mesh: pp=4 does not divide the model's 26 layers", "{pp: 2"),
        ({"model": V2, "mesh": {"ep": 3}, "batch_size": 6}, "mesh: ep=3 does not divide the", "{ep: 2}"),
    ],
)  # fmt: skip
def test_what_cannot_run_is_refused_and_the_nearest_named(fields, reason, near):
    message = refuse(**fields)
    assert message.startswith(reason)
    if near:
        assert f"the nearest that can run is {near}" in message


@pytest.mark.parametrize(
    ("model", "mesh", "fields"),
    [
        (QWEN, {"pp": 2, "tp": 2}, {"microbatches": 4}),
        (QWEN, {"sp": 4}, {}),
        (V2, {"pp": 2, "ep": 2, "tp": 2}, {"microbatches": 2}),
        (V2, {"fsdp": 2, "ep": 4}, {}),
        (V4, {"ep": 2, "tp": 4}, {}),
    ],
)
def test_what_can_run_passes(model, mesh, fields):
    check_feasible(msgspec.structs.replace(BASE, model=model, mesh=mesh, **fields).candidate)


@pytest.mark.parametrize("mesh", [{"tp": 10**12}, {"dp": 1 << 9, "tp": 1 << 8}])
def test_a_mesh_beyond_any_machine_is_refused_at_once(mesh):
    assert "more than 65,536 devices of a mesh" in refuse(mesh=mesh, batch_size=1 << 20)


def test_a_model_whose_heads_do_not_fit_is_refused_without_a_nearest():
    odd = Model(name="q", preset="qwen3-demo", config={"num_key_value_heads": 3})
    message = refuse(model=odd, mesh={"tp": 1})
    assert message == "model: num_key_value_heads 3 does not divide num_attention_heads 8"
