"""Checkpoints as transformers saves them come back tensor by tensor; fp8 blocks are dequantised."""

from __future__ import annotations

import pytest

from tests.later import Later, needs
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.models.checkpoint import Checkpoint, dequantise, find_checkpoint
from xlahouse.capture.models.weights import RandomWeights, fill_on_host
from xlahouse.capture.plan import Experiment, Model
from xlahouse.capture.run.sources import skeleton_of

torch, safetensors = Later("torch"), Later("safetensors.torch")
pytestmark = [needs("torch"), pytest.mark.xdist_group("capture")]

QWEN = {
    "vocab_size": 32,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}
LATENT = QWEN | {
    "num_hidden_layers": 2,
    "moe_intermediate_size": 8,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 8,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
}
MODELS = {
    "qwen2.5-32b": QWEN,
    "qwen3-0.6b": QWEN | {"head_dim": 8},  # tied: the head is the embedding
    "deepseek-v2-lite": LATENT,
    "deepseek-v3.1-base": LATENT | {"q_lora_rank": 8, "n_group": 2, "topk_group": 1},
    "deepseek-4.1": {
        "vocab_size": 32,
        "hidden_size": 16,
        "num_hidden_layers": 4,
        "moe_intermediate_size": 8,
        "num_attention_heads": 2,
        "head_dim": 8,
        "q_lora_rank": 8,
        "qk_rope_head_dim": 4,
        "n_routed_experts": 4,
        "num_experts_per_tok": 2,
        "num_hash_layers": 1,
        "o_groups": 2,
        "o_lora_rank": 4,
        "index_n_heads": 2,
        "index_head_dim": 4,
        "hc_mult": 2,
    },
}


def experiment(preset, **config):
    model = Model(name="m", preset=preset, config=MODELS[preset] | config)
    return Experiment(
        name="a", model=model, mesh={"tp": 1}, batch_size=1, prompt_tokens=4, output_tokens=2
    )


def save(preset, folder, shard="5GB"):
    model = fill_on_host(skeleton_of(experiment(preset)), RandomWeights(3, 4), "float32")
    model.save_pretrained(folder, max_shard_size=shard)
    return model


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("preset", MODELS)
def test_what_was_saved_comes_back_under_the_modules_names(preset, tmp_path):
    saved = save(preset, tmp_path, "4KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    checkpoint = Checkpoint(tmp_path, skeleton_of(experiment(preset)))
    loaded = fill_on_host(skeleton_of(experiment(preset)), checkpoint, "float32")
    assert loaded.state_dict().keys() == saved.state_dict().keys()
    for name, tensor in saved.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor), name


def test_each_block_is_multiplied_by_its_scale():
    weight = torch.tensor([[1.0, 2.0, 4.0], [8.0, 16.0, 0.5], [1.0, 1.0, 1.0]])
    scale = torch.tensor([[2.0, 10.0], [0.5, 100.0]])  # of blocks of 2 x 2; the last are cut
    got = dequantise(weight.to(torch.float8_e4m3fn), scale, (2, 2))
    want = [[2.0, 4.0, 40.0], [16.0, 32.0, 5.0], [0.5, 0.5, 100.0]]
    assert got.tolist() == want


def test_a_weight_that_is_missing_or_of_another_shape_is_named(tmp_path):
    save("qwen2.5-32b", tmp_path)
    wider = skeleton_of(experiment("qwen2.5-32b", intermediate_size=64))
    with pytest.raises(CaptureError, match=r"gate_proj.weight is \[32, 16\], but .* is \[64, 16\]"):
        fill_on_host(wider, Checkpoint(tmp_path, wider), "float32")
    deeper = skeleton_of(experiment("qwen2.5-32b", num_hidden_layers=2))
    with pytest.raises(CaptureError, match=r"no weight model\.layers\.1\."):
        fill_on_host(deeper, Checkpoint(tmp_path, deeper), "float32")


@pytest.mark.filterwarnings("ignore")
def test_another_number_of_experts_is_named(tmp_path):
    save("deepseek-v2-lite", tmp_path)
    more = skeleton_of(experiment("deepseek-v2-lite", n_routed_experts=8))
    with pytest.raises(CaptureError, match=r"has 8 experts, the checkpoint 4"):
        fill_on_host(more, Checkpoint(tmp_path, more), "float32")


def test_a_folder_without_weights_or_with_damaged_ones_is_refused(tmp_path):
    skeleton = skeleton_of(experiment("qwen2.5-32b"))
    with pytest.raises(CaptureError, match=r"no \*\.safetensors file"):
        Checkpoint(tmp_path, skeleton)
    (tmp_path / "model.safetensors").write_bytes(b"\x00" * 40)
    with pytest.raises(CaptureError, match="download the checkpoint again"):
        Checkpoint(tmp_path, skeleton)
    (tmp_path / "model.safetensors.index.json").write_text("{")
    with pytest.raises(CaptureError, match="download the checkpoint again"):
        Checkpoint(tmp_path, skeleton)


def test_names_and_scales_of_a_folder_are_read_without_its_config(tmp_path):
    save("qwen2.5-32b", tmp_path)
    (path,) = tmp_path.glob("*.safetensors")
    stored = safetensors.load_file(path)
    name = "model.layers.0.mlp.up_proj.weight"
    stored[f"{name}_scale_inv"] = torch.full((1, 1), 3.0)
    meant = stored[name].to(torch.float8_e4m3fn)
    stored[name] = meant
    safetensors.save_file(stored, path)
    (tmp_path / "config.json").unlink()
    skeleton = skeleton_of(experiment("qwen2.5-32b"))
    got = Checkpoint(tmp_path, skeleton).tensor(name, skeleton.state_dict()[name])
    assert torch.equal(got, meant.float() * 3.0)


def test_a_local_folder_is_the_checkpoint(tmp_path):
    assert find_checkpoint(str(tmp_path)) == tmp_path
    with pytest.raises(CaptureError, match=r"weights \.\./none: no such folder"):
        find_checkpoint("../none")
