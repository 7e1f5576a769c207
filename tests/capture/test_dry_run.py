"""Forecasts: device bytes and collectives of a step, against sums by hand; every cell of the study fits."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.conftest import DEMO_PLAN
from tests.later import Later, needs
from xlahouse.capture.compiled_facts import Compiled, CompiledRun
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.models.paper import Collective
from xlahouse.capture.models.watermark import Watermark
from xlahouse.capture.plan import Experiment, Model, read_plan
from xlahouse.capture.run import dry_run
from xlahouse.capture.run import forecast as forecasting
from xlahouse.capture.run.forecast import forecast
from xlahouse.capture.slices import parse_slice
from xlahouse.capture.tpu.quota import read_quota

torch = Later("torch")
pytestmark = [needs("torch", "transformers"), pytest.mark.xdist_group("capture")]
STUDY = DEMO_PLAN.with_name("study.yaml")
CELLS = Path(__file__).with_name("real") / "cells.yaml"
STUDIED = read_plan(STUDY).experiments
FIRSTS = [each for each in STUDIED if each.repeat == 0]  # repeats take the same
CELLS_TO_FIT = [  # every 48th in `make test`
    each if k % 48 == 0 else pytest.param(each, marks=pytest.mark.verify)
    for k, each in enumerate(FIRSTS)
]
GIB = 2**30


def real(preset, mesh, **fields):
    """An experiment of a released model in bfloat16: 8 sequences of 512 + 128 tokens."""
    return Experiment(
        name="x",
        model=Model(name=preset, preset=preset),
        mesh=mesh,
        dtype="bfloat16",
        **{"batch_size": 8, "prompt_tokens": 512, "output_tokens": 128} | fields,
    )


@pytest.mark.parametrize(
    ("preset", "published"),
    [  # counts that the hub shows for the safetensors of each
        ("qwen2.5-32b", 32_763_876_352),
        ("qwen3-32b", 32_762_123_264),
        ("deepseek-v2-lite", 15_706_484_224),
    ],
)
def test_parameters_are_those_published(preset, published):
    assert forecast(real(preset, {"tp": 1})).parameters == published


def test_deepseek_v3_has_its_671_billion():
    assert round(forecast(real("deepseek-v3.1-base", {"tp": 1})).parameters / 1e9) == 671


def test_qwen3_under_tp8():
    """An eighth of each matrix and all of each norm; 8 key/value heads, one a device."""
    share = forecast(real("qwen3-32b", {"tp": 8}))
    matrices = 64 * (2 * 5120 * 64 * 128 + 2 * 5120 * 8 * 128 + 3 * 5120 * 25600)
    matrices += 2 * 151936 * 5120  # embedding and head
    norms = 64 * (2 * 5120 + 2 * 128) + 5120
    rotary = 2 * 64 * 4  # two float32 tables of half a head
    assert share.weight_bytes == 2 * (matrices // 8 + norms) + rotary
    assert share.cache_bytes == 64 * 2 * 1 * 128 * 2 * 8 * 640  # layers, k and v, ..., slots
    rows, logits = 8 * 5120 * 2, 8 * 151936 * 2
    assert share.prefill == {
        Collective("all-reduce", "tp", 512 * rows): 129,
        Collective("all-gather", "tp", logits): 1,
    }
    assert share.decode == {
        Collective("all-reduce", "tp", rows): 129,
        Collective("all-gather", "tp", logits): 1,
    }


def test_qwen3_under_pp4_tp2():
    """16 layers a stage; embedding and head on every stage; m + p - 1 = 5 ticks of 4 sequences."""
    share = forecast(real("qwen3-32b", {"pp": 4, "tp": 2}, microbatches=2))
    layer = 2 * 5120 * 64 * 128 + 2 * 5120 * 8 * 128 + 3 * 5120 * 25600
    ends = 2 * 151936 * 5120
    norms = 16 * (2 * 5120 + 2 * 128) + 5120
    assert share.weight_bytes == 2 * ((16 * layer + ends) // 2 + norms) + 2 * 64 * 4
    part = 4 * 5120 * 2  # a microbatch of 4 sequences, one token
    assert share.decode == {
        Collective("collective-permute", "pp", part): 5,
        Collective("all-reduce", "tp", part): 5 * 16 * 2,
        Collective("all-reduce", "tp", 2 * part): 1,  # the embedding, of the whole batch
        Collective("all-gather", "tp", 8 * 151936 * 2): 1,
    }


def test_deepseek_v3_under_ep8_tp8():
    """Experts in 64 parts; of attention only what has heads is split, and only over tp."""
    share = forecast(
        real("deepseek-v3.1-base", {"ep": 8, "tp": 8}, batch_size=64, capacity_factor=2.0)
    )
    heads, hidden = 128, 7168
    attention = 1536 * heads * 192 + 512 * heads * 256 + heads * 128 * hidden
    whole = hidden * 1536 + hidden * 576 + 1536 + 512 + 2 * hidden  # q_a, kv_a, four norms
    expert = 3 * hidden * 2048
    layers = 61 * (attention // 8 + whole) + 58 * (256 * expert // 64 + expert // 8)
    layers += 3 * (3 * hidden * 18432 // 8)  # dense ones
    ends = 2 * 129280 * hidden // 8 + hidden
    routers = 58 * (256 * hidden + 256)  # with their bias; the model keeps both in float32
    assert share.weight_bytes == 2 * (layers + ends) + 4 * routers + 2 * 32 * 4
    assert share.cache_bytes == 61 * (512 + 64) * 2 * 8 * 640  # 8 sequences a device
    # 512 x 8 tokens of 8 experts each over 256 experts: 128 a expert, twice that in places.
    places = 256 * 256 * hidden * 2
    assert share.prefill[Collective("all-to-all", "ep", places)] == 58 * 2
    assert share.prefill[Collective("all-reduce", "tp", 8 * 512 * hidden * 2)] == 1 + 2 * 61
    # One token of 8 sequences: ceil(8 x 8 / 256 x 2) = 1 place an expert.
    assert share.decode[Collective("all-to-all", "ep", 256 * 1 * hidden * 2)] == 58 * 2
    assert set(share.decode) == {
        Collective("all-to-all", "ep", 256 * hidden * 2),
        Collective("all-reduce", "tp", 8 * hidden * 2),
        Collective("all-gather", "tp", 8 * 129280 * 2),
    }


def test_deepseek_v2_lite_under_fsdp4_gathers_every_matrix():
    share = forecast(real("deepseek-v2-lite", {"fsdp": 4}, capacity_factor=2.0))
    hidden = 2048
    dense, shared, experts = 10944, 2 * 1408, 64 * 1408
    counts = {
        # q, kv_a, kv_b, o; by bytes of the whole matrix
        16 * 192 * hidden: 27,
        576 * hidden: 27,
        16 * 256 * 512: 27,
        16 * 128 * hidden: 27,
        dense * hidden: 3,
        shared * hidden: 26 * 3,
        2 * experts * hidden: 26,
        experts * hidden: 26,
        102400 * hidden: 2,
    }
    assert share.decode == {
        Collective("all-gather", "fsdp", 2 * size): count for size, count in counts.items()
    }
    assert share.prefill == share.decode


@pytest.mark.verify
def test_layers_that_are_alike_are_traced_once_to_the_same_end(monkeypatch):
    """The same forecast as with every layer traced, for a model of each family."""
    shared = [forecast(each) for each in read_plan(CELLS).experiments]

    class Apart:
        def __init__(self, *_):
            pass

        def forget(self):
            pass

    monkeypatch.setattr(forecasting, "AlikeLayers", Apart)
    forecasting._forecast.cache_clear()
    assert [forecast(each) for each in read_plan(CELLS).experiments] == shared
    forecasting._forecast.cache_clear()


def test_the_watermark_counts_what_lives_at_once():
    mark = Watermark()
    with mark.watching():
        first = torch.empty(100, dtype=torch.float32, device="meta")  # 400
        second = first * 2  # 800
        view = second.reshape(10, 10)  # of the same storage
        third = view.to(torch.bfloat16)  # 1000
        del first, second, view  # 200
        fourth = third + 1  # 400
    assert (mark.now, mark.most) == (400, 1000)
    del third, fourth
    assert mark.now == 0


@pytest.mark.parametrize("experiment", CELLS_TO_FIT, ids=lambda each: each.name)
def test_a_cell_of_the_study_fits_its_slice(experiment):
    share = forecast(experiment)
    assert dry_run.fits(experiment, share) is True
    kept = {axis for axis, size in experiment.mesh.items() if size > 1 and axis != "dp"}
    assert {each.axis for each in share.prefill} == kept
    assert {each.axis for each in share.decode} == kept


def test_the_study_measures_long_enough_and_within_the_quota():
    for each in STUDIED:
        assert each.warmup_requests >= 5
        assert each.output_tokens - 1 >= 128
        assert each.dtype == "bfloat16"
        asked = parse_slice(each.slice)
        assert any(
            grant.type == asked.generation.name and grant.chips >= asked.chips
            for grant in read_quota()
        )
    assert {each.repeat for each in STUDIED} == {0, 1, 2}
    axes = {axis for each in STUDIED for axis in each.mesh}
    assert axes == {"tp", "sp", "pp", "dp", "ep", "fsdp"}
    assert {each.model.preset for each in STUDIED} == {
        "qwen2.5-32b",
        "qwen3-32b",
        "deepseek-v2-lite",
        "deepseek-v3.1-base",
        "deepseek-4.1",
    }
    assert {parse_slice(each.slice).generation.name for each in STUDIED} == {"v4", "v5e", "v6e"}


def test_lines_of_a_dry_run():
    one = real("qwen3-32b", {"tp": 8}, slice="v6e-8")
    again = msgspec.structs.replace(one, name="y", repeat=1)
    lines = list(dry_run.describe_plan([one, again], Path("traces")))
    assert lines[:10] == [
        "x  traces/qwen3-32b/tp8/batch_8_seq_512",
        "y  traces/qwen3-32b/tp8/batch_8_seq_512",
        "  tp8 on v6e-8: 32,762,123,264 parameters, bfloat16, 8 devices",
        "  tp8 divides num_attention_heads 64 into 8, num_key_value_heads 8 into 1, "
        "intermediate_size 25600 into 3200, vocab_size 151936 into 18992",
        # 8,191,715,840 and 167,772,160 bytes; temporaries are what the trace estimates.
        f"  a device holds {forecast(one).total_bytes / GIB:.2f} GiB: weights 7.63, cache 0.16, "
        f"temporary about {forecast(one).temporary_bytes / GIB:.2f}; fits 95% of 32 GiB",
        "    step     collective  axis  count  payload bytes",
        "    prefill  all-gather  tp        1      2,430,976",
        "    prefill  all-reduce  tp      129     41,943,040",
        "    decode   all-gather  tp        1      2,430,976",
        "    decode   all-reduce  tp      129         81,920",
    ]


@pytest.mark.parametrize(
    ("temp", "verdict"), [(1 << 30, "fits 32 GiB"), (26 << 30, "DOES NOT FIT 32 GiB")]
)
def test_what_the_compiler_said_stands_instead_of_an_estimate(temp, verdict):
    """6 GiB of arguments, 1 GiB of results, half of it in arguments, and half a GiB of code."""
    gib = 1 << 30
    program = Compiled(
        argument_bytes=6 * gib,
        output_bytes=gib,
        alias_bytes=gib // 2,
        temp_bytes=temp,
        generated_code_bytes=gib // 2,
        peak_bytes=0,
        arguments=[],
        platform_version="",
        device_kind="TPU v6 lite",
        devices=[],
    )
    run = CompiledRun(
        key="",
        topology="v6e:2x4",
        chip_config="",
        flags="",
        compiler={"libtpu": "0.0.21"},
        programs={"decode": program},
    )
    lines = []
    described = dry_run.describe_plan(
        [real("qwen3-32b", {"tp": 8}, slice="v6e-8")], Path("traces"), lambda experiment: run
    )
    with pytest.raises(CaptureError) if "NOT" in verdict else contextlib.nullcontext():
        lines.extend(described)
    needed = 7 + temp // gib
    assert lines[3:6] == [
        "  compiled before, for v6e:2x4 by libtpu 0.0.21; a device needs",
        f"    decode: {needed}.00 GiB: weights, cache and inputs 6.00, results beside them 0.50, "
        f"temporary {temp // gib}.00 (VMEM included), program code 0.50",
        f"    {verdict}",
    ]
    assert not any("about" in line for line in lines)


def test_a_single_device_has_no_collectives():
    *_, last = dry_run.describe_plan([real("qwen3-32b", {"tp": 1})], Path("traces"))
    assert last == "  no collectives"


def test_small_models_are_told_in_mib():
    (demo, _) = read_plan(DEMO_PLAN).experiments
    told = [line for line in dry_run.describe_plan([demo], Path("traces")) if "holds" in line]
    # 4 layers of 512 x (512 + 256 + 256 + 512 + 3 x 1536), 2 x 4096 x 512, float32, in 4 parts, and
    # norms of 4 x (2 x 512 + 2 x 64) + 512 and two tables of 32 whole; keys and values of 4 layers,
    # 1 head of 64, 4 sequences of 76 slots.
    weights = (4 * 512 * (512 + 256 + 256 + 512 + 3 * 1536) + 2 * 4096 * 512) + 4 * 5120
    (line,) = told
    assert (
        f" MiB: weights {weights / 2**20:.2f}, cache {4 * 2 * 64 * 4 * 76 * 4 / 2**20:.2f}," in line
    )


def test_what_does_not_fit_is_an_error_after_all_else():
    small = real("qwen3-32b", {"tp": 1}, slice="v6e-1")
    lines = []
    with pytest.raises(CaptureError, match=r"^x: more than the slice's memory; shard over more"):
        lines.extend(dry_run.describe_plan([small], Path("traces")))
    assert any("weights 61.02" in line and "DOES NOT FIT 95% of 32 GiB" in line for line in lines)


def test_without_torch_the_names_and_what_is_needed(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert list(dry_run.describe_plan([real("qwen3-32b", {"tp": 8})], Path("traces"))) == [
        "x  traces/qwen3-32b/tp8/batch_8_seq_512",
        "a forecast of memory and collectives needs torch and transformers: "
        "pip install 'xlahouse[capture]'",
    ]


def test_a_forecast_does_not_load_torch_xla():
    """Which takes longer than a small plan's forecasts."""
    asks = (
        "import sys\nfrom pathlib import Path\nfrom xlahouse.capture.plan import read_plan\n"
        "from xlahouse.capture.run.forecast import forecast\n"
        "print(forecast(read_plan(Path(sys.argv[1])).experiments[0]).parameters)\n"
        "sys.exit('torch_xla' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", asks, DEMO_PLAN], check=False, capture_output=True)
    matrices = 4 * 512 * (512 + 256 + 256 + 512 + 3 * 1536) + 2 * 4096 * 512
    norms = 4 * (2 * 512 + 2 * 64) + 512
    assert (done.returncode, int(done.stdout)) == (0, matrices + norms), done.stderr
