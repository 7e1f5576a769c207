"""What a host reads of a checkpoint: boxes by hand, and the files' bytes that are touched."""

from __future__ import annotations

import json

import pytest

from tests.capture.test_checkpoint import experiment, save
from tests.later import Later, needs
from xlahouse.capture.models.checkpoint import Checkpoint, dequantise
from xlahouse.capture.models.families import FAMILIES
from xlahouse.capture.models.held import covers, held_box, whole_box
from xlahouse.capture.models.placing import boxes_of_stages
from xlahouse.capture.models.sharding import Layout
from xlahouse.capture.run.sources import skeleton_of

torch, safetensors = Later("torch"), Later("safetensors.torch")
pytestmark = [needs("torch"), pytest.mark.xdist_group("capture")]
EP4_TP2 = {"ep": 4, "tp": 2}  # devices 2e + t


@pytest.mark.parametrize(
    ("mesh", "spec", "shape", "devices", "held"),
    [
        # Host 1 of 2 holds experts 4 to 7 of 8, all rows of them.
        (EP4_TP2, ("ep", "tp", None), (8, 6, 5), (4, 5, 6, 7), ((4, 8), (0, 6), (0, 5))),
        # One device: ep 1, tp 1.
        (EP4_TP2, ("ep", "tp", None), (8, 6, 5), (3,), ((2, 4), (3, 6), (0, 5))),
        # Both axes split one dimension, ep major: devices 2 and 3 have parts 2 and 3 of 8.
        (EP4_TP2, (("ep", "tp"),), (16,), (2, 3), ((4, 8),)),
        # The other way round device 2 (ep 1, tp 0) has part 1 and device 3 (ep 1, tp 1) part 5.
        (EP4_TP2, (("tp", "ep"),), (16,), (2, 3), ((2, 12),)),
        # tp major: a host of devices 0 and 1 has one half of tp.
        ({"tp": 2, "ep": 4}, ("ep", "tp"), (8, 8), (0, 1), ((0, 4), (0, 4))),
        (EP4_TP2, (None, None), (3, 4), (7,), ((0, 3), (0, 4))),
    ],
)
def test_a_box_has_the_shards_of_all_devices(mesh, spec, shape, devices, held):
    found = held_box(mesh, spec, shape, devices)
    assert [(side.start, side.stop) for side in found] == list(held)


def test_other_hosts_stages_are_not_read():
    """pp2.tp2 on hosts of two devices: each has one stage, both halves of its heads."""
    layout = Layout({"pp": 2, "tp": 2})
    name = "model.layers.0.self_attn.q_proj.weight"  # [heads over tp, hidden]
    box, none = (slice(0, 8), slice(0, 4)), (slice(0, 0), slice(0, 0))
    qwen = FAMILIES["qwen3"]
    assert boxes_of_stages(qwen, layout, name, (8, 4), 2, (2, 3)) == [none, box]
    assert boxes_of_stages(qwen, layout, name, (8, 4), 2, (0, 1)) == [box, none]
    half = (slice(4, 8), slice(0, 4))
    assert boxes_of_stages(qwen, layout, name, (8, 4), 2, (1, 3)) == [half, half]


def test_packed_rows_of_experts_are_read_whole():
    """Each device has gate and up rows, which lie apart in the file."""
    layout, v3 = Layout({"ep": 2, "tp": 2}), FAMILIES["deepseek_v3"]
    name = "model.layers.1.mlp.experts.gate_up_proj"
    (box,) = boxes_of_stages(v3, layout, name, (4, 16, 8), 1, (2, 3))
    assert box == (slice(2, 4), slice(0, 16), slice(0, 8))


def test_a_shard_outside_of_what_was_read_is_seen():
    box, none = (slice(4, 8), slice(0, 4)), (slice(0, 0), slice(0, 0))
    assert covers([box], [slice(4, 6), slice(0, 4)])
    assert not covers([box], [slice(2, 6), slice(0, 4)])
    assert covers([none, box], [slice(1, 2), slice(4, 8), slice(0, 2)])
    assert not covers([none, box], [slice(0, 1), slice(4, 8), slice(0, 2)])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("preset", ["qwen2.5-32b", "deepseek-v3.1-base"])
def test_of_each_tensor_the_box_is_read_and_no_more(preset, tmp_path, monkeypatch):
    """The upper half of the first dimension, the lower of the last: a quarter of a matrix."""
    saved = save(preset, tmp_path)
    skeleton = skeleton_of(experiment(preset))
    checkpoint = Checkpoint(tmp_path, skeleton)
    taken, load = [], checkpoint._load

    def counting(key, box):
        taken.append(load(key, box).numel())
        return load(key, box)

    monkeypatch.setattr(checkpoint, "_load", counting)
    for name, like in skeleton.state_dict().items():
        box = list(whole_box(like.shape))
        box[-1] = slice(0, -(-like.shape[-1] // 2))
        box[0] = slice(like.shape[0] // 2, box[0].stop) if like.dim() > 1 else box[0]
        taken.clear()
        found = checkpoint.tensor(name, like, tuple(box))
        want = torch.zeros(like.shape)
        want[tuple(box)] = saved.state_dict()[name][tuple(box)]
        assert torch.equal(found, want), name
        assert sum(taken) == want[tuple(box)].numel(), name


def test_blocks_that_a_box_cuts_are_read_whole(tmp_path):
    """fp8 blocks of 4 x 8: rows 5 to 9 of 16 need blocks 1 and 2, columns 10 to 12 block 1."""
    save("qwen2.5-32b", tmp_path)
    (path,) = tmp_path.glob("*.safetensors")
    name = "model.layers.0.self_attn.q_proj.weight"
    stored = safetensors.load_file(path)
    scale = torch.arange(1.0, 9.0).reshape(4, 2)
    stored[name] = (stored[name] * 8).to(torch.float8_e4m3fn)
    stored[f"{name}_scale_inv"] = scale
    safetensors.save_file(stored, path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["quantization_config"] = {"weight_block_size": [4, 8]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    skeleton = skeleton_of(experiment("qwen2.5-32b"))
    box = (slice(5, 9), slice(10, 12))
    found = Checkpoint(tmp_path, skeleton).tensor(name, skeleton.state_dict()[name], box)
    want = torch.zeros(16, 16)
    want[box] = dequantise(stored[name], scale, (4, 8))[box]
    assert torch.equal(found, want)
    assert found[5:9, 10:12].abs().sum() > 0
