"""Hours of a plan: sums by hand, the study within its budget, and a slice that is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.capture.test_dry_run import real
from tests.capture.zone import ZONE
from tests.command import run_command
from tests.conftest import DEMO_PLAN
from tests.later import needs
from xlahouse.capture.plan import read_plan
from xlahouse.capture.run.dry_run import describe_plan
from xlahouse.capture.run.forecast import forecast
from xlahouse.capture.run.hours import VM_S, hours_of, spent_on, step_seconds
from xlahouse.capture.slices import GENERATIONS, parse_slice

pytestmark = [needs("torch", "transformers"), pytest.mark.xdist_group("capture")]
STUDY, CORE = (DEMO_PLAN.with_name(name) for name in ("study.yaml", "core.yaml"))
QWEN = real("qwen3-32b", {"tp": 8}, slice="v6e-8", warmup_requests=5, compare=False)
# Of one device, under tp8: the products of a token with a layer's matrices, and with the head.
MATRICES = 64 * (2 * 5120 * 64 * 128 + 2 * 5120 * 8 * 128 + 3 * 5120 * 25600) // 8
HEAD = 151936 * 5120 // 8
PAIRS = 64 * 8 * 2 * 128 * 640  # of one query: layers, heads, scores and values, width, slots


def test_flops_of_a_step():
    """8 sequences; the head's logits are of the last position only."""
    share = forecast(QWEN)
    assert share.decode_flops == 2 * 8 * (MATRICES + HEAD + PAIRS)
    assert share.prefill_flops == 2 * 8 * (512 * (MATRICES + PAIRS) + HEAD)


def test_seconds_of_a_step():
    """A decode step reads weights and cache; a prefill multiplies. Half of the peaks are reached."""
    prefill, decode = step_seconds(QWEN, forecast(QWEN), parse_slice("v6e-8").generation)
    sent = 7 / 8 * (129 * 2 * 81920 + 2430976) / (2 * 9e10)
    assert decode == pytest.approx(
        2 * ((8_191_715_840 + 167_772_160) / 1.6e12 + sent) + 130 * 1e-5, rel=1e-9
    )
    sent = 7 / 8 * (129 * 2 * 41943040 + 2430976) / (2 * 9e10)
    flops = 2 * 8 * (512 * (MATRICES + PAIRS) + HEAD)
    assert prefill == pytest.approx(2 * (flops / 9.18e14 + sent) + 130 * 1e-5, rel=1e-9)


def test_a_stage_reads_its_weights_at_every_tick():
    """pp2 of 4 microbatches has 5 ticks."""
    piped = real("qwen3-32b", {"pp": 2, "tp": 4}, slice="v6e-8", microbatches=4)
    share = forecast(piped)
    _, decode = step_seconds(piped, share, parse_slice("v6e-8").generation)
    read = (5 * share.weight_bytes + share.cache_bytes) / 1.6e12
    sent = 5 * 2 * 5120 * 2  # permutes of 2 sequences
    sent += 3 / 4 * (2 * (5 * 64 * 2 * 5120 * 2 + 8 * 5120 * 2) + 8 * 151936 * 2)
    counts = 5 + (5 * 64 + 1) + 1
    assert decode == pytest.approx(2 * (read + sent / 1.8e11) + counts * 1e-5, rel=1e-9)


def test_what_an_experiment_spends():
    share = forecast(QWEN)
    prefill, decode = step_seconds(QWEN, share, parse_slice("v6e-8").generation)
    spent = spent_on(QWEN, share)
    assert (spent.start, spent.traces) == (60, 15)
    assert spent.load == pytest.approx(8.19171584)  # 1 GB/s
    assert spent.compile == 64 * 2.5  # 2 s and 0.5 s a layer
    # A whole request, then 4, and one on each side of the profiler, of 16 decode steps.
    assert spent.warm_up == pytest.approx(7 * prefill + (127 + 6 * 16) * decode)
    assert spent.steps == pytest.approx(2 * (prefill + 16 * decode))
    assert spent_on(QWEN, share, compiles=False).compile == 0
    sharing = spent_on(QWEN, share, places=False)
    assert (sharing.start, sharing.load) == (15, 0)  # only its traces are fetched


def test_long_prompts_compile_longer_and_checkpoints_load_longer():
    """8 sequences of 8 heads and 32,640 tokens: 2^28 scores are 128 keys, so 32,768 slots 256 blocks."""
    long = msgspec.structs.replace(QWEN, prompt_tokens=32640)
    assert spent_on(long, forecast(QWEN)).compile == pytest.approx(64 * (2 * (1 + 25.5) + 0.5))
    model = msgspec.structs.replace(QWEN.model, weights="Qwen/Qwen3-32B")
    read = msgspec.structs.replace(QWEN, model=model)
    assert spent_on(read, forecast(QWEN)).load == pytest.approx(32_762_123_264 * 2 / 2e8)


def test_repeats_compile_once_and_slices_add_up():
    again = msgspec.structs.replace(QWEN, name="y", repeat=1)
    elsewhere = msgspec.structs.replace(QWEN, slice="v4-16")
    nowhere = msgspec.structs.replace(QWEN, slice="")
    share = forecast(QWEN)
    first, second = hours_of((each, share) for each in (QWEN, again, elsewhere, nowhere))
    assert (first.slice.accelerator_type, first.experiments) == ("v6e-8", 2)
    assert first.spent.compile == spent_on(QWEN, share).compile
    assert (first.spent.start, first.spent.load) == (45 + 2 * 15, spent_on(QWEN, share).load)
    assert first.hours == pytest.approx((VM_S + first.spent.total) / 3600)
    assert first.chip_hours == pytest.approx(8 * first.hours)
    assert (second.slice.accelerator_type, second.experiments) == ("v4-16", 1)
    # v4's memory is slower by 1.6 / 1.2, its links by two.
    assert second.spent.steps > 4 / 3 * first.spent.steps / 2


def test_a_dry_run_ends_with_the_hours_and_what_they_assume():
    lines = list(describe_plan([QWEN], Path("traces")))
    place = next(place for place, line in enumerate(lines) if "on the slices, estimated" in line)
    head, row, whole, *assumed = lines[place + 1 :]
    (taken,) = hours_of([(QWEN, forecast(QWEN))])
    assert head.split()[:3] == ["slice", "experiments", "start"]
    assert row.split()[:2] == ["v6e-8", "1"]
    assert row.split()[-2:] == [f"{taken.hours:.2f}", f"{8 * taken.hours:.1f}"]
    assert whole.split()[1:] == row.split()[1:]
    assert all(line.startswith("  assumed: ") for line in assumed)
    assert len(assumed) == 5


def test_rates_are_those_of_the_views():
    """views/efficiency/_chip_peaks_v1.sql names their sources."""
    text = (DEMO_PLAN.parents[2] / "views/efficiency/_chip_peaks_v1.sql").read_text()
    for each in GENERATIONS:
        start = text.index(f"'{each.name}', 1, ") + len(f"'{each.name}', 1, ")
        rates = [float(number) for number in text[start:].split(",")[:3]]
        assert rates == [each.flops_per_s, each.hbm_bytes_per_s, each.ici_bytes_per_s]


def test_a_slice_is_not_created_for_a_plan_that_takes_longer(zone, monkeypatch, capsys):
    plan = zone.folder / "one.yaml"
    plan.write_text(
        "experiments:\n  - {name: a, model: qwen3-0.6b, mesh: {tp: 8}, slice: v6e-8, batch_size: 8,"
        " prompt_tokens: 128, output_tokens: 9, dtype: bfloat16, compare: false}\n"
    )

    def create(*words):
        start = ("tpu", "create", "vm", "--zone", ZONE, "--plan", str(plan), "--type")
        return run_command(monkeypatch, *start, *words)

    # 10 minutes for the VM, 75 s besides the model, 28 layers of 2.5 s: 0.21 hours and little more.
    assert create("v6e-8", "--hours", "0.2") == 1
    error = capsys.readouterr().err
    assert "1 experiments on v6e-8 take about 0.21 hours, more than --hours 0.2" in error
    assert create("v6e-4") == 1
    assert "no experiment that is chosen has `slice: v6e-4`" in capsys.readouterr().err
    assert not (zone.root / "calls.jsonl").exists()
    assert create("v6e-8", "--hours", "0.3") == 0
    assert "take about 0.21 hours" in capsys.readouterr().err


def test_the_core_is_a_part_of_the_study():
    """Four models, each parallelism once, two batches; the study skips what the core captured."""
    study = {each.name: each for each in read_plan(STUDY).experiments}
    core = read_plan(CORE).experiments
    assert all(study[each.name] == each for each in core)
    assert len({each.model.preset for each in core}) == 4
    cells: dict[tuple[str, str], set[int]] = {}
    for each in core:
        cells.setdefault((each.model.preset, each.parallelism), set()).add(each.batch_size)
    assert {len(batches) for batches in cells.values()} == {2}
    assert {axis for each in core for axis in each.mesh} == {"tp", "sp", "pp", "dp", "ep", "fsdp"}
    prompts = {each.prompt_tokens for each in study.values()}
    assert {8192, 32768} <= prompts


@pytest.mark.verify
@pytest.mark.parametrize(("plan", "budget"), [(CORE, 15), (STUDY, 60)])
def test_a_plan_is_within_its_budget(plan, budget):
    found = hours_of((each, forecast(each)) for each in read_plan(plan).experiments)
    assert sum(each.hours for each in found) <= budget
