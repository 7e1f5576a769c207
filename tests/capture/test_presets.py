"""Presets: their sizes give the parameter counts that were published, and a plan's overrides are checked."""

from __future__ import annotations

import pytest

from xlahouse.capture.errors import ManifestError
from xlahouse.capture.models.families import FAMILIES
from xlahouse.capture.models.presets import find_preset, model_config, presets

# Parameters as the hub counts the released checkpoints' tensors.
PUBLISHED = {
    "qwen2.5-32b": 32_763_876_352,
    "qwen3-32b": 32_762_123_264,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v2.5": 235_741_434_880,
}


def count(name):
    pytest.importorskip("torch", reason="install xlahouse[capture]")
    from xlahouse.capture.models.weights import build_skeleton

    preset = find_preset(name)
    family = FAMILIES[preset.family]
    skeleton = build_skeleton(family.model_class, family.name, preset.config)
    return sum(parameter.numel() for parameter in skeleton.parameters())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.xdist_group("capture")
@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_give_the_published_count_of_parameters(name):
    assert count(name) == PUBLISHED[name]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.xdist_group("capture")
def test_deepseek_v3_has_671_billion():
    """As its report says, without the layer that predicts further tokens."""
    assert round(count("deepseek-v3.1-base") / 1e9) == 671


def test_every_preset_is_of_a_family_and_names_its_source():
    for preset in presets().values():
        assert preset.family in FAMILIES
        assert preset.source
    assert "no checkpoint named DeepSeek 4.1 is known" in find_preset("deepseek-4.1").note


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"num_hidden_layer": 2}, "no field 'num_hidden_layer'; did you mean num_hidden_layers?"),
        ({"hidden_size": "big"}, "hidden_size must be int, not str"),
        ({"hidden_size": True}, "hidden_size must be int, not bool"),
        ({"hidden_size": 0}, "hidden_size must be above 0"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings must be bool, not int"),
    ],
)
def test_an_override_that_models_do_not_have_is_refused(overrides, message):
    with pytest.raises(ManifestError) as caught:
        model_config("qwen3-demo", overrides)
    assert message in str(caught.value)


def test_overrides_stand_on_top_of_the_preset():
    config = model_config(
        "deepseek-v3.1-base", {"q_lora_rank": None, "first_k_dense_replace": 0, "n_group": 4}
    )
    assert (config["q_lora_rank"], config["first_k_dense_replace"], config["n_group"]) == (
        None,
        0,
        4,
    )
    assert config["hidden_size"] == 7168
