"""What a TPU's compiler notes about an instruction, from protos and from text."""

from __future__ import annotations

import json

import pytest

from xlahouse.ingest.compiled.backend_config import NOTHING, CompilerNotes, compiler_notes
from xlahouse.ingest.compiled.decisions import decisions
from xlahouse.ingest.hlo.messages import new_instruction
from xlahouse.ingest.hlo.module_text import read_module_text
from xlahouse.ingest.hlo.program_facts import gather

# As libtpu 0.0.42.1 writes it of an all-reduce over the 16 chips of a v6e-16.
DETAIL = (
    "UniDirectionNDRingStrategy{colors:4 phases:2 cores:{4 4},{4 4},{4 4},{4 4} nophase0:0 "
    "num_dims:2 active_dims:111 dim_sizes:4,4 dim_used:{0 1},{1 0},{0 1},{1 0}}"
)
ALGORITHM = {
    "emitter": "RotatedPincerEmitter",
    "strategy": "UniDirectionNDRingStrategy",
    "debug": f"\n{DETAIL}",
}
CONFIG = json.dumps({"flag_configs": [], "collective_algorithm_config": ALGORITHM})
WINDOW = '{"window_config":{"estimated_cycles":"14180608","iteration_bounds":["1"]}}'


def notes(config):
    return compiler_notes(new_instruction(backend_config=config.encode()))


def test_numbers_are_texts():
    assert notes(WINDOW) == CompilerNotes(estimated_cycles=14180608)


def test_the_way_of_a_transfer_is_taken_apart():
    assert notes(CONFIG) == CompilerNotes(
        None,
        "RotatedPincerEmitter",
        "UniDirectionNDRingStrategy",
        4,
        2,
        "4 4,4 4,4 4,4 4",
        DETAIL,
    )


def test_an_all_gather_has_an_emitter_and_no_strategy():
    debug = "\\ngroup_size = 4 \\nshard_size = 8192 bytes "
    config = f'{{"collective_algorithm_config":{{"emitter":"2DAllGather","debug":"{debug}"}}}}'
    found = notes(config)
    assert (found.collective_emitter, found.collective_strategy) == ("2DAllGather", None)
    assert (found.collective_colors, found.collective_rings) == (None, None)
    assert found.collective_detail == "group_size = 4 \nshard_size = 8192 bytes"


@pytest.mark.parametrize(
    "config",
    ["", "{}", "no json", '{"custom_call_config":{"body":"…"}}', '{"window_config":{}}'],
)
def test_other_configurations_say_nothing(config):
    assert notes(config) == NOTHING


@pytest.mark.parametrize("cycles", ['"-5"', '"1e3"', '""', "null", '"99999999999999999999"'])
def test_what_is_no_number_is_not_known(cycles):
    assert notes(f'{{"window_config":{{"estimated_cycles":{cycles}}}}}').estimated_cycles is None


def text(config):
    return f"""HloModule jit_f, is_scheduled=true, num_partitions=4

%inner (p: f32[8]) -> f32[8] {{
  %p = f32[8]{{0}} parameter(0)
  ROOT %ar = f32[8]{{0}} all-reduce(%p), channel_id=1, replica_groups={{{{0,1,2,3}}}}, to_apply=%add, {config}
}}

ENTRY %main (x: f32[8]) -> f32[8] {{
  %x = f32[8]{{0}} parameter(0)
  ROOT %wrapped = f32[8]{{0}} fusion(%x), kind=kCustom, calls=%inner, backend_config={WINDOW}
}}
"""


def decided(config):
    read = read_module_text(text(config), 5, "f")
    assert not read.problems
    found = decisions([read.program], gather([read.program], "f").ops, "f")
    columns = ("schedule_index", "estimated_cycles", "collective_strategy", "collective_colors")
    rows = {op: row for op, *row in found.instructions.select("op", *columns).rows()}
    return rows, found.issues


def test_a_wrapper_has_what_is_said_of_the_transfer_that_it_wraps():
    rows, issues = decided(f"backend_config={CONFIG}")
    assert not issues
    assert rows == {
        "ar": [None, None, "UniDirectionNDRingStrategy", 4],
        "x": [0, None, None, None],
        "wrapped": [1, 14180608, "UniDirectionNDRingStrategy", 4],
    }


def test_a_configuration_that_cannot_be_read_is_a_finding():
    rows, [issue] = decided('backend_config={"collective_algorithm_config":7}')
    assert "ar" not in rows
    assert issue.code == "damaged_hlo"
    assert issue.message.startswith("jit_f ar: its backend_config cannot be read: Expected `object")
