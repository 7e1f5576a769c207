"""Each name that a reader depends on is renamed or dropped: the run then has NULLs or a finding.

`python -m tests.sweep` prints what all mutants gave.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

import xlahouse.ingest.run
from tests.layers import first_few, sampled
from tests.sweep.inputs import INPUTS, Input, case
from tests.sweep.mutants import Mutant
from tests.sweep.outcome import VIEWS, Result, mutants_of, outcomes

SAMPLE = 12  # mutants of each input that a commit draws
READERS = Path(xlahouse.ingest.run.__file__).parent / "xplane"
# Methods that look a stat up by its name.
LOOKUPS = {"texts", "numbers", "integers", "links", "blobs", "stat", "text"}
# Mutants that change numbers without a finding, and why none is due.
ALLOWED = {
    r"event xlahouse renamed": "the prefix of our own markers, which captures and ingest share",
    r"(line|thread_name=)\s?(thread_name=)?Steps dropped": "its ops are of category control, and in no sum",
    r"line (thread_name=)?Async XLA Ops dropped": "its ops repeat pairs of ops on the line of ops",
    r"event backend_compile renamed": "the compile's other event still marks the time, which is shorter",
    r"event %\w+_fusion .*renamed": "operands in other texts keep the old name, of one more instruction",
    r"stat model_flops .*": "flops_known_ratio is the share of ops whose FLOPs are known, and says so",
    r"header baseTimeNanoseconds .*": "it is the zero of all times, which move alike",
}
# Mutants that give NULL without a finding, and why none is due.
UNNAMED = {
    r"word tf_op=lm_head/.* renamed": "a module's path, which the model's author chose",
    r"stat Out msg nelems .*": "the size of one result; the payload follows from the operand's",
    r"event (?:embed|head|mlp)_fusion renamed": "an op's own name, which the compiler chose",
}
# Input, mutant, and the finding that states it: those that were silent before.
TOLD = (
    ("moe", "line XLA Ops renamed", "unknown_line"),
    ("moe", "line XLA Ops dropped", "ops_missing"),
    ("moe", "stat device_type_string dropped", "device_kind_unknown"),
    ("compile", "stat step_num renamed", "marker_incomplete"),
    ("compile", "plane /host:CPU dropped", "host_unseen"),
    ("compile", "stat program_id dropped", "program_unknown"),
    ("allocators", "stat allocator_name renamed", "allocator_unknown"),
    ("allocators", "stat bytes_allocated dropped", "allocator_unknown"),
    ("tf_op", "stat tf_op dropped", "scope_unknown"),
    ("memory of a TPU", "stat memory_access_breakdown dropped", "columns_unstated"),
    ("no device", "stat profile_start_time renamed", "columns_unstated"),
    ("two GPUs", "stat peak_teraflops_per_second dropped", "peak_unknown"),
    ("allocators", "word allocator_name=TPU_ renamed", "allocator_unknown"),
    ("one of two ranks", "stat Seq renamed", "columns_unstated"),
    ("one of two ranks", "event ncclKernel_SendRecv_RING renamed", "collective_unseen"),
    ("one of two ranks", "category gpu_memcpy renamed", "unknown_category"),
    ("one of two ranks", "event Memcpy HtoD  renamed", "copy_way_unknown"),
)


def input_named(name: str) -> Input:
    return next(each for each in INPUTS if each.name == name)


def run(
    chosen: Input, mutants: list[Mutant], folder: Path, views: Sequence[str] = VIEWS
) -> list[Result]:
    return list(outcomes(chosen, mutants, folder, views))


def is_silent(result: Result) -> bool:
    """Whether numbers changed, or became NULL, without a finding that is due."""
    allowed = {"wrong": ALLOWED, "null": UNNAMED}.get(result.outcome)
    return allowed is not None and not any(
        re.fullmatch(pattern, result.mutant.label) for pattern in allowed
    )


@pytest.mark.parametrize("name", first_few(sorted({name for name, *_ in TOLD}), 1))
def test_what_readers_miss_is_a_finding(name, tmp_path):
    wanted = {label: code for of_input, label, code in TOLD if of_input == name}
    chosen = input_named(name)
    mutants = [each for each in mutants_of(chosen) if each.label in wanted]
    assert {each.label for each in mutants} == set(wanted)
    found = {each.mutant.label: each for each in run(chosen, mutants, tmp_path, views=())}
    assert {label for label, each in found.items() if wanted[label] not in each.new} == set()


@pytest.mark.verify
@pytest.mark.parametrize("chosen", INPUTS, ids=lambda each: f"{each.reader}: {each.name}")
def test_no_renamed_or_dropped_name_changes_numbers_silently(chosen, tmp_path):
    purpose = f"sweep {chosen.reader} {chosen.name}"
    results = run(chosen, sampled(list(mutants_of(chosen)), SAMPLE, purpose), tmp_path)
    print(purpose, dict(Counter(result.outcome for result in results)))
    silent = [(each.mutant.label, each.changed[:3]) for each in results if is_silent(each)]
    assert silent == []


def test_the_inputs_hold_every_stat_that_a_reader_looks_up():
    named = set()
    for path in READERS.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in LOOKUPS:
                first = node.args[0] if node.args else None
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    named.add(first.value)
    assert len(named) > 20
    inputs = b"".join(
        [*(each.make() for each in INPUTS), case("foreign/jax_0_10_cpu_8_devices", "*.pb")]
    )
    assert {name for name in named if name.encode() not in inputs} == set()
