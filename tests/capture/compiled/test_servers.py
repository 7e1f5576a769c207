"""A server's programs, compiled for a TPU: their collectives are the plan's, and the cache stays in place."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from tests.capture.compiled.test_compile import SMALL
from tests.capture.compiled.transfers import transfers
from tests.later import needs
from tests.synth.protos import HloProto
from xlahouse.capture.compile.cell import Compiling, compile_cell
from xlahouse.capture.compile.child import Children
from xlahouse.capture.compile.program import Compiler
from xlahouse.capture.compile.target import target_of
from xlahouse.capture.compiled_facts import FACTS, CompiledRun
from xlahouse.capture.plan import Experiment, Model
from xlahouse.capture.serving import Serving

pytestmark = [
    pytest.mark.verify,
    needs("torch", "torch_xla", "transformers", "jax", "libtpu"),
    pytest.mark.xdist_group("capture"),
]
# of a sequence: prompt and output; of a head, as models have it
SLOTS, LENGTH, WIDTH = (
    16,
    128 + 128,
    128,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A Qwen3 of 2 layers with heads as wide as real ones, a key/value head a device."""
    cell = Experiment(
        name="server",
        model=Model(name="wide", preset="qwen3-32b", config=SMALL | {"head_dim": WIDTH}),
        mesh={"tp": 4},
        batch_size=SLOTS,
        prompt_tokens=128,
        output_tokens=128,
        dtype="bfloat16",
        slice="v6e-4",
        serving=Serving(poisson_per_s=1, buckets=(64, 128)),
    )
    compiler = Compiler.of(None, tmp_path_factory.mktemp("compiler"))
    traces = tmp_path_factory.mktemp("traces")
    return compile_cell(
        cell, target_of(cell), Compiling(compiler, traces, Children()), lambda _: None
    )


@pytest.mark.parametrize(("program", "rows"), [("prefill", 128), ("decode", SLOTS)])
def test_collectives_are_the_plans(folder, program, rows):
    """An all-reduce [rows, 64] for the embedding and two a layer; one all-gather of each row's logits."""
    found = transfers(folder, program)
    assert Counter(found["kind"]) == {"all-reduce": 1 + 2 * 2, "all-gather": 1}
    reduced = found.filter(found["kind"] == "all-reduce")["payload_bytes"]
    assert set(reduced) <= {rows * 64 * 2, rows * 64 * 4}  # some are summed in float32
    (gathered,) = found.filter(found["kind"] == "all-gather")["payload_bytes"]
    assert gathered in {width * 512 * (rows if program == "decode" else 1) for width in (2, 4)}


@pytest.mark.parametrize("program", ["prefill", "decode"])
def test_the_cache_stays_in_place(folder, program):
    """Keys and values of two layers are donated; no op brings a whole entry into another layout."""
    run = msgspec.json.decode((folder / FACTS).read_bytes(), type=CompiledRun)
    entry = SLOTS * LENGTH * WIDTH
    assert run.programs[program].alias_bytes == 2 * 2 * entry * 2
    module = HloProto.FromString((folder / f"{program}.hlo.pb").read_bytes()).hlo_module
    (main,) = (each for each in module.computations if each.id == module.entry_computation_id)
    sizes = Counter()
    for instruction in main.instructions:
        elements = 1
        for dimension in instruction.shape.dimensions:
            elements *= dimension
        sizes[instruction.opcode] += elements == entry
    assert sizes["parameter"] == 4
    assert sizes["copy"] == sizes["transpose"] == 0
