"""A checkpoint's config.json decides; a plan overrides what no tensor's shape depends on, and says so."""

from __future__ import annotations

import json

import pytest

from tests.later import Later, needs
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.models.checkpoint_config import preset_fields, settle
from xlahouse.capture.models.presets import find_preset
from xlahouse.capture.plan import Experiment, Model

torch = Later("torch")

QWEN = find_preset("qwen3-0.6b").config
SMALL = {
    "vocab_size": 32,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
}


def settled(folder, stored, overrides=None, family="qwen3"):
    (folder / "config.json").write_text(json.dumps(stored))
    return settle(folder, family, QWEN, overrides or {})


def test_config_json_decides_over_the_preset(tmp_path):
    stored = {
        "model_type": "qwen3",
        "head_dim": 64,
        "num_attention_heads": 32,
        "rms_norm_eps": 1e-5,
    }
    found = settled(tmp_path, stored | {"rope_theta": 5e5, "hidden_act": "gelu", "eos_token_id": 7})
    assert found.config == QWEN | {
        "head_dim": 64,
        "num_attention_heads": 32,
        "rms_norm_eps": 1e-5,
        "rope_theta": 5e5,
    }
    assert (found.further, found.notes) == ({"hidden_act": "gelu"}, [])


def test_an_override_is_named_and_an_equal_value_is_none(tmp_path):
    stored = {"rms_norm_eps": 1e-6, "num_hidden_layers": 28, "hidden_size": 1024}
    overrides = {"rms_norm_eps": 1e-5, "num_hidden_layers": 2, "hidden_size": 1024}
    found = settled(tmp_path, stored, overrides)
    assert found.config == QWEN | overrides
    assert found.notes == [
        "the plan overrides rms_norm_eps, 1e-06 in the checkpoint: 1e-05",
        "the plan overrides num_hidden_layers, 28 in the checkpoint: 2",
    ]


@pytest.mark.parametrize(
    ("stored", "overrides", "message"),
    [
        ({"head_dim": 128}, {"head_dim": 64}, "has head_dim 128, the plan 64; take head_dim out"),
        ({"num_hidden_layers": 2}, {"num_hidden_layers": 3}, "has num_hidden_layers 2, the plan 3"),
        ({"model_type": "qwen2"}, {}, "config.json is of qwen2, the plan's preset of qwen3"),
        ({"use_sliding_window": True}, {}, "has use_sliding_window, which captures do not"),
        ([], {}, "not a mapping; download the checkpoint again"),
    ],
)
def test_a_contradiction_is_refused(tmp_path, stored, overrides, message):
    with pytest.raises(CaptureError, match=message):
        settled(tmp_path, stored, overrides)


def test_without_config_json_the_plan_decides_and_says_so(tmp_path):
    found = settle(tmp_path, "qwen3", QWEN, {"rms_norm_eps": 1e-5})
    assert found.config["rms_norm_eps"] == 1e-5
    assert found.notes == [
        f"{tmp_path} has no config.json: rope, eps, scales and sizes are the plan's"
    ]
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CaptureError, match="download the checkpoint again"):
        settle(tmp_path, "qwen3", QWEN, {})


YARN = {"factor": 40.0, "beta_fast": 32}


@pytest.mark.parametrize(
    ("stored", "theta", "scaling"),
    [
        ({"rope_theta": 1e4}, 1e4, None),
        ({"rope_theta": 1e4, "rope_scaling": None}, 1e4, None),
        (
            {"rope_theta": 1e4, "rope_scaling": {"type": "yarn"} | YARN},
            1e4,
            {"rope_type": "yarn"} | YARN,
        ),
        ({"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}}, 5e5, None),
        (
            {"rope_parameters": {"rope_theta": 1e4, "rope_type": "yarn"} | YARN},
            1e4,
            {"rope_type": "yarn"} | YARN,
        ),
    ],
)
def test_rope_is_read_in_the_form_of_each_version_of_transformers(stored, theta, scaling):
    found = preset_fields(stored)
    assert (found["rope_theta"], found["rope_scaling"]) == (theta, scaling)


def test_deepseek_v4s_kinds_of_layers_are_fields_of_the_preset():
    found = preset_fields(
        {
            "rope_parameters": {
                "main": {"rope_theta": 1e4, "rope_type": "default", "partial_rotary_factor": 0.125},
                "compress": {"rope_theta": 1.6e5, "rope_type": "default"},
            },
            "compress_rates": {
                "compressed_sparse_attention": 4,
                "heavily_compressed_attention": 128,
            },
            "mlp_layer_types": ["hash_moe", "moe", "moe"],
        }
    )
    assert (found["rope_theta"], found["compress_rope_theta"]) == (1e4, 1.6e5)
    assert (found["compress_rate_csa"], found["compress_rate_hca"]) == (4, 128)
    assert (found["rope_scaling"], found["num_hash_layers"]) == (None, 1)


@needs("torch")
@pytest.mark.verify
def test_a_checkpoint_runs_with_its_own_rope_and_eps(tmp_path):
    """The plan states sizes alone; logits are those of the model that was saved."""
    from xlahouse.capture.models.weights import RandomWeights, build_skeleton, fill_on_host
    from xlahouse.capture.run.sources import open_weights

    preset = find_preset("qwen3-32b").config | SMALL
    theirs = preset | {"rope_theta": 50.0, "rms_norm_eps": 0.1}
    saved = fill_on_host(
        build_skeleton("Qwen3ForCausalLM", "qwen3", theirs), RandomWeights(1), "float32"
    )
    saved.save_pretrained(tmp_path)
    model = Model(name="m", preset="qwen3-32b", config=SMALL, weights=str(tmp_path))
    experiment = Experiment(
        name="a", model=model, mesh={"tp": 1}, batch_size=1, prompt_tokens=6, output_tokens=2
    )
    opened = open_weights(experiment)
    assert opened.blueprint.config["rope_theta"] == 50.0
    loaded = fill_on_host(opened.skeleton(), opened.source, "float32")
    prompt = torch.arange(6)[None]
    with torch.no_grad():
        assert torch.equal(loaded(prompt).logits, saved(prompt).logits)
        ours = build_skeleton("Qwen3ForCausalLM", "qwen3", preset)
        other = fill_on_host(ours, opened.source, "float32")
        assert not torch.allclose(other(prompt).logits, saved(prompt).logits)


def test_a_checkpoint_that_the_mesh_cannot_split_is_refused(tmp_path):
    from xlahouse.capture.run.sources import open_weights

    (tmp_path / "config.json").write_text(json.dumps({"num_key_value_heads": 3}))
    model = Model(name="m", preset="qwen3-0.6b", weights=str(tmp_path))
    experiment = Experiment(
        name="a", model=model, mesh={"tp": 2}, batch_size=1, prompt_tokens=6, output_tokens=2
    )
    with pytest.raises(CaptureError, match=r"with .*config\.json: .*num_key_value_heads"):
        open_weights(experiment)
