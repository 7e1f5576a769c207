"""Programs that the compiler refuses: its message, and the search for the batch or mesh that compiles."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.compiled.test_compile import cell, compiles
from xlahouse.capture.compile import plan as plans
from xlahouse.capture.compile.cell import (
    Compiling,
    compiled_before,
    refused_before,
    write_refused,
)
from xlahouse.capture.compile.child import Children
from xlahouse.capture.compile.plan import compile_plan
from xlahouse.capture.compile.program import Compiler
from xlahouse.capture.compile.refusal import DoesNotFitError, Refusal, refusal_error
from xlahouse.capture.compile.search import advice_on, batch_unit, larger_meshes, largest_batch
from xlahouse.capture.compile.target import target_of
from xlahouse.capture.compiled_facts import RefusedRun
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.plan import read_plan
from xlahouse.capture.run.dry_run import describe_plan

GIB = 2**30
# libtpu 0.0.21 of Qwen3-32B's decode, tp8, 512 sequences of 640 tokens, on a v5e-8.
MESSAGE = """RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. \
Used 17.84G of 15.75G hbm. Exceeded hbm capacity by 2.09G.

Total hbm usage >= 18.09G:
    reserved        258.00M\x20
    program         212.33M\x20
    arguments        17.63G\x20

Output size 10.00G; shares 10.00G with arguments.

Program hbm requirement 212.33M:
    global            64.5K
    HLO temp        211.64M (100.0% utilization: Unpadded (150.35M) Padded (150.35M))

  Largest program allocations in hbm:
"""


def test_the_compilers_message_is_read():
    error = refusal_error("decode", MESSAGE)
    assert isinstance(error, DoesNotFitError)
    assert error.refusal == Refusal(
        17.84 * GIB,
        15.75 * GIB,
        {"reserved": 258 * 2**20, "program": 212.33 * 2**20, "arguments": 17.63 * GIB},
    )
    assert str(error) == (
        "the decode needs 17.84 GiB of HBM, and a program can have 15.75 GiB: weights, cache and inputs "
        "17.63, temporaries 0.21"
    )


@pytest.mark.parametrize(
    "message",
    [
        "UNIMPLEMENTED: no such op\nat line 3",
        "RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem. Used 3.0M of 2.0M vmem.",
    ],
)
def test_another_refusal_is_its_first_line(message):
    error = refusal_error("prefill", message)
    assert not isinstance(error, DoesNotFitError)
    assert str(error) == f"the compiler refused the prefill: {message.partition(chr(10))[0]}"


def refused(needed):
    return DoesNotFitError("decode", Refusal(needed, 16.0, {}))


class Chip:
    """A compiler that accepts programs of up to 16 bytes, and notes what it is asked."""

    def __init__(self, bytes_of):
        self.bytes_of, self.asked = bytes_of, []

    def __call__(self, experiment):
        self.asked.append((experiment.parallelism, experiment.batch_size))
        needed = self.bytes_of(experiment)
        if needed > 16:
            raise refused(needed)
        return needed


@given(
    weights=st.floats(0, 20),
    each=st.floats(1e-4, 4),
    bend=st.floats(0.5, 2),
    units=st.integers(1, 3000),
    unit=st.sampled_from([1, 2, 6]),
)
def test_the_largest_batch_is_found(weights, each, bend, units, unit):
    """Whatever the curve, as long as more sequences never need less; tried in few compilations."""
    experiment = cell(mesh={"dp": unit, "tp": 1}, batch_size=units * unit)
    chip = Chip(lambda variant: weights + each * variant.batch_size**bend)
    needed = chip.bytes_of(experiment)
    if needed <= 16:
        return
    found = largest_batch(experiment, Refusal(needed, 16.0, {}), chip)
    fitting = [n for n in range(unit, units * unit, unit) if weights + each * n**bend <= 16]
    assert found == max(fitting, default=0)
    assert len(chip.asked) <= 3 * math.log2(units) + 3
    assert all(batch % unit == 0 for _, batch in chip.asked)


def test_bytes_that_grow_with_the_batch_take_four_compilations():
    """8 of weights and 1 for 50 sequences: 400 fit in 16. The least batch, the line's end, and the next."""
    chip = Chip(lambda variant: 8 + variant.batch_size / 50)
    experiment = cell(mesh={"tp": 4}, batch_size=1000)
    assert largest_batch(experiment, Refusal(28.0, 16.0, {}), chip) == 400
    assert len(chip.asked) <= 5


def test_a_batch_is_a_multiple_of_all_that_divides_it():
    assert batch_unit(cell(mesh={"dp": 2, "pp": 2, "tp": 2}, batch_size=12, microbatches=3)) == 6


def test_the_sentence_on_a_batch():
    experiment = cell(batch_size=64, slice="")
    chip = Chip(lambda variant: variant.batch_size)
    target = target_of(experiment, "v6e-4")
    assert advice_on(experiment, target, Refusal(64.0, 16.0, {}), chip) == (
        "the largest batch_size that compiles is 16; 17 does not"
    )


def test_the_sentence_on_a_mesh():
    """Half of 60 is too much, a quarter fits."""
    experiment = cell(mesh={"tp": 1}, batch_size=4)
    chip = Chip(lambda variant: 60 / variant.mesh["tp"])
    refusal = Refusal(60.0, 16.0, {"arguments": 60.0})
    assert advice_on(experiment, target_of(experiment), refusal, chip) == (
        "no batch_size compiles on single; of larger meshes tp4 on v6e-4 is the smallest that compiles "
        "with batch_size 4"
    )
    assert ("tp2", 4) not in chip.asked  # half of its arguments are already too much
    chip = Chip(lambda variant: 1000)
    assert advice_on(experiment, target_of(experiment), Refusal(1000.0, 16.0, {}), chip) == (
        "no batch_size compiles on single, nor batch_size 4 on a larger mesh of the same axes"
    )


def test_a_larger_mesh_grows_along_an_axis_that_splits_weights():
    """Up to tp4, since the model has 4 key/value heads."""
    found = larger_meshes(cell(mesh={"dp": 2, "tp": 1}), Refusal(1, 1, {}))
    assert [(each.mesh, each.slice) for each in found] == [
        ({"dp": 2, "tp": 2}, "v6e-4"),
        ({"dp": 2, "tp": 4}, "v6e-8"),
    ]


def test_a_full_disk_costs_the_search_alone(tmp_path, monkeypatch):
    """The compiler's refusal is still said, and what to do about the disk."""

    def full(*_):
        raise OSError(28, "No space left on device")

    def refuse(*_):
        raise refused(20.0)

    monkeypatch.setattr(plans, "compile_cell", refuse)
    monkeypatch.setattr(plans, "needed_bytes", full)
    one = cell(batch_size=8)
    compiling = Compiling(Compiler("python", {}), tmp_path, Children())
    with pytest.raises(CaptureError, match=r"the decode needs .*No space left.*free some space"):
        plans._compiled(one, target_of(one), compiling, lambda message: None, True)


PLAN = """
name: refused
experiments:
  - name: wide
    model:
      name: wide
      preset: qwen3-32b
      config:
        num_hidden_layers: 1
        vocab_size: 1024
        hidden_size: 1024
        intermediate_size: 1024
        num_key_value_heads: 64
        head_dim: 256
        max_position_embeddings: 200000
    mesh: {dp: 4}
    slice: v5e-4
    dtype: bfloat16
    batch_size: 12
    prompt_tokens: 100000
    output_tokens: 1000
"""


def test_each_experiment_of_a_folder_keeps_its_own_refusal(tmp_path):
    """Element types and slices have no folder of their own."""
    wide, narrow = (
        RefusedRun(key=key, compiler={}, programs=("decode",), reason=f"{key} is too large")
        for key in ("a" * 64, "b" * 64)
    )
    for refused in (wide, narrow):
        write_refused(tmp_path, refused)
    assert refused_before(tmp_path, "a" * 64) == wide
    assert refused_before(tmp_path, "b" * 64) == narrow
    assert refused_before(tmp_path, "c" * 64) is None
    (tmp_path / f".refused_{'a' * 16}.json").write_text("{")  # cut
    assert refused_before(tmp_path, "a" * 64) is None


@pytest.mark.verify
@compiles
def test_a_batch_that_is_too_large_is_refused_once(tmp_path):
    """A sequence has 101,000 tokens of 64 key/value heads of 256 in bf16: 6.2 GiB, so that a device of 15.75
    holds two. The second time nothing is compiled, and a dry run says it too."""
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    said = []

    def compile_it():
        with pytest.raises(CaptureError) as error:
            compile_plan(
                plan,
                tmp_path / "traces",
                programs=("decode",),
                on_event=lambda e: said.append(e.message),
            )
        return str(error.value)

    reason = compile_it()
    found = re.fullmatch(
        r"experiment wide: the decode needs [\d.]+ GiB of HBM, and a program can have 15\.75 GiB: "
        r"weights, cache and inputs [\d.]+, temporaries [\d.]+; "
        r"the largest batch_size that compiles is 8; 12 does not",
        reason,
    )
    assert found, reason
    said.clear()
    assert compile_it() == reason
    assert len(said) == 1
    (experiment,) = read_plan(plan).experiments
    refused = compiled_before(experiment, tmp_path / "traces")
    assert f"experiment wide: {refused.reason}" == reason
    lines = []
    with pytest.raises(CaptureError, match="more than the slice's memory"):
        lines.extend(describe_plan([experiment], tmp_path, lambda each: refused))
    assert any(line.endswith(refused.reason) and "refused to compile" in line for line in lines)
