"""Damage of any kind: never an unexpected exception, never events lost without a finding."""

from __future__ import annotations

import gzip
import random
from pathlib import PurePosixPath

import pytest
from hypothesis import strategies as st

from tests.ingest.damage import Outcome, damage, leaves_no_trace, outcome, silent_loss
from tests.ingest.traces import tpu_trace
from tests.layers import first_few, layered, seeds
from tests.samples import sample

NAME = "host0.xplane.pb"
# The trace has one of two devices, and neither host, link, scope, wait nor most facts about an op.
LACKS = {"devices_missing", "host_unseen", "launch_unlinked", "scope_unknown", "waits_unseen"}
LACKS |= {"columns_unstated"}
WHOLE = Outcome(events=2, codes=frozenset(LACKS))
SAMPLES = {
    "cpu/torch_xla_mlp_4dev.xplane.pb": 10,
    "gpu/mi300_jax_gemm.xplane.pb": 10,
    "tpu/v6e_4dev_jax_psum_offload.xplane.pb": 5,
    "cpu/torch_xla_mlp_4dev.trace.json.gz": 5,
    "kineto/amd_minitoy.json.gz": 5,
    "kineto/cpu_only_base_time.json.gz": 10,
    "kineto/large_integer.json.gz": 20,
}


def check(whole, raw, name=NAME):
    found = outcome(raw, name)
    assert found.unforeseen() == []
    assert not silent_loss(whole, found) or leaves_no_trace(name, raw), found


@pytest.mark.parametrize("seed", seeds(10, 100))
def test_a_small_tpu_trace(seed):
    check(WHOLE, damage(tpu_trace(), random.Random(seed)))


@layered(10, 300, at=st.integers(0, len(tpu_trace()) - 1), byte=st.integers(0, 255))
def test_any_byte_may_be_any_other(at, byte):
    raw = bytearray(tpu_trace())
    raw[at] = byte
    check(WHOLE, bytes(raw))


def test_an_opcode_may_be_no_text():
    raw = tpu_trace()
    at = raw.index(b"all-reduce", raw.index(b"all-reduce") + 1)
    for place in (118, at):
        check(WHOLE, raw[:place] + b"\x80" + raw[place + 1 :])


@layered(10, 300, raw=st.binary(max_size=200))
def test_any_bytes(raw):
    check(Outcome(), raw)


@pytest.mark.parametrize("name", first_few(SAMPLES, 0))
def test_samples(name):
    raw = sample(name).read_bytes()
    file = PurePosixPath(name).name
    whole = outcome(raw, file)
    for seed in range(SAMPLES[name]):
        check(whole, damage(raw, random.Random(seed)), file)


@pytest.mark.verify
@pytest.mark.parametrize("name", [name for name in SAMPLES if name.endswith(".gz")])
def test_samples_of_text_that_was_damaged_before_it_was_packed(name):
    raw, file = gzip.decompress(sample(name).read_bytes()), PurePosixPath(name).stem
    whole = outcome(raw, file)
    for seed in range(SAMPLES[name]):
        check(whole, damage(raw, random.Random(seed)), file)


@pytest.mark.verify
def test_a_dump_of_hlo():
    """Seeds at which lines of all kinds are hit: computations, instructions, their attributes."""
    raw = sample("hlo/torch_xla_llama2_tp4_pp2.hlo.txt").read_bytes()[:40_000]
    for seed in range(10):
        dump = {"jit_f(77).txt": damage(raw, random.Random(seed))}
        found = outcome(tpu_trace(hlo=False), NAME, dump)
        assert found.unforeseen() == []
        assert found.events == WHOLE.events


def test_cut_gzip_keeps_what_is_whole():
    raw = gzip.compress(tpu_trace())
    found = outcome(raw[: len(raw) - 20], "host0.xplane.pb.gz")
    assert found.refusals == ()
    assert found.codes - LACKS


def test_the_whole_trace_is_what_damage_is_compared_with():
    assert (WHOLE.events, WHOLE.codes) == (
        outcome(tpu_trace(), NAME).events,
        outcome(tpu_trace(), NAME).codes,
    )
