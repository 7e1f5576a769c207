"""Replayed steps and drawn weights on four virtual devices, in a process of their own."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys

import pytest

from tests.later import needs

pytestmark = [
    pytest.mark.verify(together=True),
    needs("torch", "torch_xla"),
    pytest.mark.xdist_group("capture"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    command = (sys.executable, "-m", "tests.capture.on_devices", str(tmp_path_factory.mktemp("on")))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_devices_draw_the_bits_that_the_host_draws_on_every_mesh(found):
    assert found["wrong"] == []


def test_drawing_takes_at_most_12_integer_operations_an_element(found):
    assert sorted(found["integer_ops"]) == ["add", "and", "multiply", "xor"]


def test_a_replayed_step_gives_the_tokens_of_a_traced_one(found):
    traced, recorded, replayed = found["replay"]["tokens"]
    assert traced == recorded == replayed
    assert len({token for sequence in traced for token in sequence}) > 4


def test_replay_compiles_nothing_and_launches_once_a_step(found):
    assert (found["replay"]["compiles"], found["replay"]["launches"]) == (0, 6)


def test_scopes_of_replayed_ops_are_those_of_traced_ops(found):
    assert found["replay"]["scoped"] > 100
    assert found["replay"]["different"] == []


def test_a_replayed_step_of_64_layers_costs_the_host_a_fiftieth_of_a_traced_one(found):
    """430 ms against 4 ms. Only the one program of a single token is traced, for prefill and decode."""
    host = found["host"]
    (tracing,), sending = host["tracing"], host["sending"]
    assert (len(sending), host["carried"]) == (40, 128)  # keys and values of 64 layers
    assert 0 < 50 * statistics.median(sending) < tracing


def test_names_are_collected_when_a_step_is_traced_and_in_no_launch(found):
    assert found["host"]["named"] == [False, True]


def test_memory_is_flat_over_steps(found):
    """A cache of 17 MiB; a step that left one behind would add 340 MiB in 20 steps."""
    memory = found["memory"]
    assert memory["cache"] > 16
    assert memory["grown"] < 8
    assert memory["alive"] <= 0
