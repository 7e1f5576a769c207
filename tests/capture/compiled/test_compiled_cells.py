"""Programs of matrix.yaml from the TPU's compiler against the plan: kinds, sizes and groups of transfers.

In bfloat16: libtpu narrows float32 transfers whose only use is a bfloat16 product. Where the compiler
decides otherwise, `explained` says how.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from tests.capture.compiled.transfers import transfers
from tests.conftest import DEMO_PLAN
from tests.later import needs
from tests.layers import sampled
from xlahouse.capture.compile.cell import Compiling, compile_cell
from xlahouse.capture.compile.child import Children
from xlahouse.capture.compile.program import Compiler
from xlahouse.capture.compile.target import target_of
from xlahouse.capture.plan import read_plan
from xlahouse.capture.run.forecast import forecast

pytestmark = [
    pytest.mark.verify(together=True),
    needs("torch", "torch_xla", "transformers", "jax", "libtpu"),
    pytest.mark.xdist_group("compile"),
]
SLICES = ("v4-8", "v5e-4", "v6e-4")
CELLS = [
    (experiment.name, slice_name)
    for experiment in read_plan(DEMO_PLAN.with_name("matrix.yaml")).experiments
    for slice_name in SLICES
]


@pytest.fixture(scope="module")
def compiler(tmp_path_factory):
    """The compiler of this Python."""
    return Compiler.of(None, tmp_path_factory.mktemp("compiler"))


def compiled(folder: Path, program: str) -> Counter:
    """(kind, payload bytes) of each transfer of a program -> how often."""
    rows = transfers(folder, program)
    assert not rows["kind"].is_null().any()
    return Counter(zip(rows["kind"], rows["payload_bytes"], strict=True))


def explained(got: Counter, planned: Counter) -> bool:
    """Whether the compiler turned every reduce-scatter into a whole all-reduce of the same tensor."""
    more, less = got - planned, planned - got
    return Counter(
        {("reduce-scatter", payload): n for (_, payload), n in more.items()}
    ) == less and all(kind == "all-reduce" for kind, _ in more)


@pytest.mark.parametrize(("name", "slice_name"), sampled(CELLS, 2, "compiled cells"))
def test_transfers_are_the_plans(name, slice_name, compiler, tmp_path):
    """Every planned transfer, with its bytes, or a decision of the compiler that is known."""
    plan = read_plan(DEMO_PLAN.with_name("matrix.yaml"))
    (found,) = (each for each in plan.experiments if each.name == name)
    experiment = msgspec.structs.replace(found, dtype="bfloat16", slice=slice_name)
    target = target_of(experiment)
    folder = compile_cell(
        experiment, target, Compiling(compiler, tmp_path, Children()), lambda _: None
    )
    share = forecast(experiment)
    for program, noted in (("prefill", share.prefill), ("decode", share.decode)):
        planned: Counter = Counter()
        for each, count in noted.items():
            planned[each.kind, each.payload_bytes] += count
        got = compiled(folder, program)
        assert got == planned or explained(got, planned), (program, got - planned, planned - got)
