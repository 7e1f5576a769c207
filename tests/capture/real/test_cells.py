"""Every family and every kind of sharding, captured for real: tokens, collectives, stages and costs.

Checkpoints are made here by transformers' own saving, one of them in fp8 blocks; the tokens expected are
those of the model that was saved.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.capture.profile_reader import collectives, payloads, read_profile
from tests.later import Later, needs
from xlahouse.capture.manifest import decode_manifest, manifest_path
from xlahouse.capture.plan import read_plan
from xlahouse.capture.run.forecast import forecast
from xlahouse.capture.run.record import DTYPE_BYTES
from xlahouse.capture.run.runner import run_plan
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.warehouse import Warehouse

torch = Later("torch")
pytestmark = [
    pytest.mark.verify(together=True),
    needs("torch", "torch_xla"),
    pytest.mark.xdist_group("capture"),
]

BATCH, PROMPT, OUTPUT, HIDDEN, VOCABULARY = 4, 8, 4, 32, 64


def save(experiment, folder):
    """Save the experiment's model with random weights as transformers does; the model."""
    from xlahouse.capture.models.weights import RandomWeights, fill_on_host
    from xlahouse.capture.run.sources import skeleton_of

    source = RandomWeights(7, experiment.model.sizes.get("n_routed_experts", 0))
    model = fill_on_host(skeleton_of(experiment), source, "float32")
    model.save_pretrained(folder)
    return model


def to_fp8(folder):
    """Store the matrices of a checkpoint as fp8 with a scale for each block of 16 x 16; what they are."""
    from safetensors.torch import load_file, save_file

    (path,) = folder.glob("*.safetensors")
    stored, meant = {}, {}
    for name, weight in load_file(path).items():
        meant[name] = stored[name] = weight
        if weight.dim() == 2 and "self_attn" in name and name.endswith("_proj.weight"):
            rows, columns = (-(-size // 16) for size in weight.shape)
            scale = 0.25 + torch.arange(rows * columns).reshape(rows, columns) / 64.0
            spread = torch.kron(scale, torch.ones(16, 16))[: weight.shape[0], : weight.shape[1]]
            stored[name] = (weight / spread).to(torch.float8_e4m3fn)
            stored[f"{name}_scale_inv"] = scale
            meant[name] = stored[name].float() * spread
    save_file(stored, path)
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [16, 16]}
    (folder / "config.json").write_text(json.dumps(config))
    return meant


def generate(model, experiment):
    """Greedy tokens of the capture's last prompt by transformers' own loop."""
    from xlahouse.capture.run.reference import draw_prompts

    prompt = draw_prompts(experiment)[-1]
    with torch.no_grad():
        model.generation_config.eos_token_id = None  # greedy to the last token, whichever it is
        tokens = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=OUTPUT,
            do_sample=False,
        )
    return tokens[:, PROMPT:].tolist()


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    """The plan, its traces, and name -> tokens of the model that was saved."""
    base = tmp_path_factory.mktemp("cells")
    plan = base / "cells.yaml"
    text = Path(__file__).with_name("cells.yaml").read_text()
    plan.write_text(text.replace("CHECKPOINTS", str(base / "checkpoints")))
    expected, models = {}, {}
    for experiment in read_plan(plan).experiments:
        folder = experiment.model.weights
        if folder and folder not in models:
            models[folder] = save(experiment, Path(folder))
            if experiment.model.name == "v3":
                loaded = models[folder]
                for name, weight in to_fp8(Path(folder)).items():
                    if name in loaded.state_dict():
                        loaded.state_dict()[name].copy_(weight)
        if folder:
            expected[experiment.name] = generate(models[folder], experiment)
    return plan, run_plan(plan, base / "traces", device="cpu"), expected


@pytest.fixture(scope="module")
def cells(captured):
    """name -> (experiment, manifest, profile, tokens of the model that was saved or None)."""
    plan, traces, expected = captured
    found = {}
    for experiment, trace in zip(read_plan(plan).experiments, traces, strict=True):
        path = manifest_path(trace)
        manifest = decode_manifest(path.read_bytes(), str(path))
        found[experiment.name] = (
            experiment,
            manifest,
            read_profile(trace),
            expected.get(experiment.name),
        )
    return found


CELLS = ("fsdp2", "sp2", "pp2.tp2", "dp2.ep2", "ep2.tp2", "pp2", "tp2")


@pytest.mark.parametrize("name", CELLS)
def test_tokens_are_those_of_the_unsharded_model(cells, name):
    experiment, manifest, _, expected = cells[name]
    if experiment.dtype == "float32":
        assert manifest.tokens_match_unsharded is True
        assert manifest.tokens == expected
        assert manifest.weights == experiment.model.weights
    else:
        assert manifest.logits_difference <= manifest.logits_tolerance == 0.1


@pytest.mark.parametrize("name", CELLS)
def test_observing_has_a_price_that_the_manifest_names(cells, name):
    _, manifest, _, _ = cells[name]
    lower, upper = manifest.profiler_cost_quartiles
    assert lower <= manifest.profiler_cost_ratio <= upper
    assert manifest.cost_pairs == 2 * (manifest.output_tokens - 1)


@pytest.mark.parametrize("name", CELLS)
def test_a_step_is_one_launch(cells, name):
    assert cells[name][1].launches_per_step == 1


def test_deepseek_4_1_says_what_it_is(cells):
    (note,) = cells["tp2"][1].warnings
    assert note.startswith("deepseek-4.1: no checkpoint named DeepSeek 4.1 is known")


def test_each_cell_moves_what_its_model_and_mesh_let_it_expect(captured, tmp_path):
    """In number and in bytes, bfloat16 included, which XLA's CPU moves as f32."""
    _, traces, _ = captured
    ingest_paths([str(trace) for trace in traces], str(tmp_path / "warehouse"))
    with Warehouse(str(tmp_path / "warehouse")) as warehouse:
        rows = warehouse.query(
            "select name, axis, kind, ratio, expected_count, measured_count"
            " from expected_traffic_v1 join runs using (run_id)"
        ).rows
    assert [row for row in rows if row[3] != 1 or row[4] != row[5]] == []
    assert {row[:3] for row in rows} == {
        ("fsdp2", "fsdp", "all-gather"),
        *(("sp2", "sp", kind) for kind in ("all-reduce", "reduce-scatter", "all-gather")),
        *(("pp2.tp2", "tp", kind) for kind in ("all-reduce", "all-gather")),
        ("pp2.tp2", "pp", "collective-permute"),
        ("dp2.ep2", "ep", "all-to-all"),
        *(("ep2.tp2", "tp", kind) for kind in ("all-reduce", "all-gather")),
        ("ep2.tp2", "ep", "all-to-all"),
        ("pp2", "pp", "collective-permute"),
        *(("tp2", "tp", kind) for kind in ("all-reduce", "all-gather")),
    }


def step_collectives(profile, phase):
    """kind -> result shapes of one step's program, in order of kind and shape."""
    found = {}
    for kind, _, shape, groups in collectives(profile.programs[profile.program(phase)]):
        found.setdefault(kind, []).append((shape, groups))
    return found


def shapes(found, kind):
    return sorted(shape for shape, _ in found.get(kind, []))


@pytest.mark.parametrize(("phase", "tokens"), [("prefill", PROMPT), ("decode", 1)])
def test_tp_ends_each_block_with_an_all_reduce(cells, phase, tokens):
    """1 for the embedding, 2 in each of 4 layers; 1 all-gather of the last logits."""
    found = step_collectives(cells["tp2"][2], phase)
    assert set(found) == {"all-reduce", "all-gather"}
    assert shapes(found, "all-reduce") == [(BATCH * tokens, HIDDEN)] * 9
    assert shapes(found, "all-gather") == [(1, BATCH, 1, VOCABULARY)]


def test_sp_splits_prefills_sequence_and_decodes_as_tp(cells):
    """2 layers: a reduce-scatter after the embedding and each block, 4 tokens of 8 a device; an
    all-gather before each block and after the last norm; then the logits."""
    prefill = step_collectives(cells["sp2"][2], "prefill")
    assert set(prefill) == {"reduce-scatter", "all-gather"}
    assert shapes(prefill, "reduce-scatter") == [(BATCH, PROMPT // 2, HIDDEN)] * 5
    gathered = [(1, BATCH, 1, VOCABULARY), *[(1, BATCH, PROMPT, HIDDEN)] * 5]
    assert shapes(prefill, "all-gather") == sorted(gathered)
    decode = step_collectives(cells["sp2"][2], "decode")
    assert shapes(decode, "all-reduce") == [(BATCH, HIDDEN)] * 5
    assert set(decode) == {"all-reduce", "all-gather"}


@pytest.mark.parametrize(("phase", "tokens"), [("prefill", PROMPT), ("decode", 1)])
def test_ep_deals_tokens_out_and_back_within_its_groups(cells, phase, tokens):
    """One layer with 4 experts: each of 4 devices has one sequence and a place in each expert for
    all its tokens; mesh dp x ep = [[0, 1], [2, 3]]."""
    found = step_collectives(cells["dp2.ep2"][2], phase)
    assert set(found) == {"all-to-all"}
    assert len(found["all-to-all"]) == 2
    assert {groups for _, groups in found["all-to-all"]} == {((0, 1), (2, 3))}


@pytest.mark.parametrize(("phase", "tokens"), [("prefill", PROMPT), ("decode", 1)])
def test_ep_and_tp_keep_to_their_own_axes(cells, phase, tokens):
    """2 layers on ep x tp = [[0, 1], [2, 3]]: a device has 2 of the 4 sequences."""
    found = step_collectives(cells["ep2.tp2"][2], phase)
    assert set(found) == {"all-reduce", "all-gather", "all-to-all"}
    assert shapes(found, "all-reduce") == [(BATCH // 2 * tokens, HIDDEN)] * 5
    assert {groups for _, groups in found["all-reduce"]} == {((0, 1), (2, 3))}
    assert {groups for _, groups in found["all-to-all"]} == {((0, 2), (1, 3))}
    assert len(found["all-to-all"]) == 2


def test_fsdp_gathers_each_split_weight_once_a_step(cells):
    """2 layers of 7 matrices, embedding and head."""
    for phase in ("prefill", "decode"):
        found = step_collectives(cells["fsdp2"][2], phase)
        assert {kind: len(each) for kind, each in found.items()} == {"all-gather": 2 * 7 + 2}


@pytest.mark.parametrize(("phase", "tokens"), [("prefill", PROMPT), ("decode", 1)])
def test_pp_passes_a_microbatch_on_at_every_tick(cells, phase, tokens):
    """2 stages, 2 microbatches of 2 sequences: 3 ticks, each with one layer's 2 all-reduces."""
    found = step_collectives(cells["pp2.tp2"][2], phase)
    assert set(found) == {"collective-permute", "all-reduce", "all-gather"}
    passed = shapes(found, "collective-permute")
    assert [shape[-3:] for shape in passed] == [(2, tokens, HIDDEN)] * 3
    ticks = [(2 * tokens, HIDDEN)] * 6
    assert shapes(found, "all-reduce") == sorted([*ticks, (BATCH * tokens, HIDDEN)])


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_the_dry_run_foretells_the_collectives(cells, name, phase):
    """Kind, payload and count of every collective of the captured step's program, from shapes alone.

    In numbers, not bytes: XLA widens bfloat16 on CPUs.
    """
    experiment, manifest, profile, _ = cells[name]
    share = forecast(experiment)
    foretold = Counter()
    for each, count in getattr(share, phase).items():
        foretold[each.kind, each.payload_bytes // DTYPE_BYTES[experiment.dtype]] += count
    captured = payloads(profile.programs[profile.program(phase)])
    assert captured == foretold
    assert share.parameters == manifest.parameters


def test_the_manifest_tells_stages_and_ticks(cells):
    _, two, _, _ = cells["pp2.tp2"]
    assert two.stage_layers == [[0], [1]]
    assert two.tick_microbatch == [[0, None], [1, 0], [None, 1]]
    _, dense, _, _ = cells["pp2"]  # layer 0 is dense and runs before stage 0
    assert dense.stage_layers == [[1], [2]]
    assert dense.tick_microbatch == [[0, None], [None, 0]]


def test_ticks_and_local_layers_reach_the_op_names(cells):
    profile = cells["pp2"][2]
    names = [
        instruction.metadata.op_name
        for computation in profile.programs[profile.program("decode")].computations
        for instruction in computation.instructions
    ]
    for tick in (0, 1):
        inside = [name for name in names if f"xlahouse.tick.{tick}." in name]
        assert any("model.layers.0.mlp.experts" in name for name in inside)
        assert not any("model.layers.1" in name for name in inside)
    outside = [name for name in names if "xlahouse.tick" not in name]
    assert any("model.layers.0.mlp" in name for name in outside)  # the dense layer
