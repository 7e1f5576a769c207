"""The closed forms against numbers worked out by hand: 2 layers, width 128, bf16, 8 prompts of 16 tokens.

A forward pass has 8 x 16 = 128 tokens in prefill and 8 in decode (of which there are 3), so a
[tokens, width] tensor has 128 x 128 x 2 = 32,768 bytes in prefill and 8 x 128 x 2 = 2,048 in decode.
"""

from __future__ import annotations

import pytest

from tests.synth.answers.expected import expected_traffic
from tests.synth.answers.links import link_traffic
from tests.synth.answers.model import mbu
from tests.synth.cases import CASES
from tests.synth.describe import Run
from tests.synth.draw import draw_run
from tests.synth.times import device_time, latency
from tests.synth.traffic import collective_bandwidth, traffic_matrix, traffic_volume


def volume(run, device):
    """(phase, axis, kind) -> (collectives, payload, wire) of a device."""
    return {
        (row["phase"], row["axis"], row["kind"]): (
            row["collectives"],
            row["payload_bytes"],
            row["wire_bytes"],
        )
        for row in traffic_volume(run)
        if row["device_id"] == device
    }


def test_tp_all_reduces_twice_a_layer():
    # 2 x 2 all-reduces a pass; wire 2 x 3/4 of the payload.
    assert volume(CASES["tp4"], 0) == {
        ("prefill", "tp", "all-reduce"): (4, 4 * 32_768, 196_608),
        ("decode", "tp", "all-reduce"): (12, 12 * 2_048, 36_864),
    }


def test_dp_halves_the_tokens_and_causes_nothing():
    # Groups of 2: wire = payload.
    assert volume(CASES["dp_tp"], 3) == {
        ("prefill", "tp", "all-reduce"): (4, 65_536, 65_536),
        ("decode", "tp", "all-reduce"): (12, 12_288, 12_288),
    }
    assert volume(CASES["no_collectives"], 0) == {}


def test_sp_gathers_and_scatters_twice_a_layer():
    # S is the gathered tensor for both; wire 3/4 of it.
    prefill = (4, 131_072, 98_304)
    found = volume(CASES["sp"], 1)
    assert found["prefill", "tp", "all-gather"] == prefill
    assert found["prefill", "tp", "reduce-scatter"] == prefill
    assert len(found) == 4


def test_ep_dispatches_and_combines_in_each_layer():
    # Operand [4, 128, 128] bf16 = 131,072 bytes, twice in each of 2 layers.
    assert volume(CASES["ep"], 2)["prefill", "ep", "all-to-all"] == (4, 524_288, 393_216)


def test_fsdp_gathers_every_weight_in_each_pass():
    # Width 64: [256, 64] and [512, 64] bf16 a layer = 98,304 bytes; 3 layers; 3/4 on the wire.
    found = volume(CASES["fsdp_hidden"], 0)
    assert found["prefill", "fsdp", "all-gather"] == (6, 294_912, 221_184)
    assert found["decode", "fsdp", "all-gather"] == (18, 884_736, 663_552)


def test_a_stacked_pipeline_shifts_in_every_tick():
    # 4 + 4 - 1 = 7 ticks of 32 tokens = 8,192 bytes; the last stage sends to no other.
    key = "prefill", "pp", "collective-permute"
    assert volume(CASES["pp_stacked"], 0)[key] == (7, 57_344, 57_344)
    assert volume(CASES["pp_stacked"], 3)[key] == (7, 0, 0)


def test_stages_hand_over_once_a_microbatch():
    key = "prefill", "pp", "collective-permute"
    assert volume(CASES["pp_stages"], 0)[key] == (4, 32_768, 32_768)
    assert volume(CASES["pp_stages"], 1)[key] == (4, 0, 0)


def test_matrix_of_a_ring_of_four():
    # Each device's 196,608 go to its successor; or half each way; or a third to each other.
    run = CASES["tp4"]
    sent = {
        name: {
            (row["source_device_id"], row["target_device_id"]): row["bytes"]
            for row in traffic_matrix(run, name)
            if row["phase"] == "prefill" and row["source_device_id"] == 3
        }
        for name in ("ring", "bidirectional_ring", "direct")
    }
    assert sent == {
        "ring": {(3, 0): 196_608},
        "bidirectional_ring": {(3, 0): 98_304, (3, 2): 98_304},
        "direct": {(3, 0): 65_536, (3, 1): 65_536, (3, 2): 65_536},
    }


def test_time_of_a_prefill():
    # embedding 832,277 + 2 x (attention 3,399,617 + mlp 5,315,415) + head 1,587,253; 4 transfers
    # of 1,511,719 + 97 x 32,768; 4 barriers of 78,203; 4 dependency-waits of 1,094.
    row = next(row for row in device_time(CASES["tp4"]) if row["step"] == 0)
    assert row["compute_ps"] == 19_849_594
    assert row["collective_ps"] == row["exposed_ps"] == 18_760_860
    assert (row["sync_wait_ps"], row["idle_ps"]) == (312_812, 4_376)
    assert row["window_ps"] == 38_927_642


def test_latency_of_a_run():
    # TTFT: dispatch 40 us + prologue 812,500 + the window. A decode step: 40 us + 812,500 + window
    # 22,203,242 + fetch 25,000,117 + gap 90,000,013, and three of them from end to end.
    (row,) = latency(CASES["tp4"])
    assert row["ttft_s"] == pytest.approx(79_740_142e-12, rel=1e-12)
    assert row["tpot_s"] == pytest.approx(178_015_872e-12, rel=1e-12)


def test_skew_is_the_lag_since_the_last_meeting():
    # One attention between two collectives: the slowest is 390,011 late, the fastest not at all.
    run = Run(lag_ps=(0, 50_021, 7_001, 390_011))
    rows = [row for row in collective_bandwidth(run) if row["op"] == "all-reduce.1"]
    assert {row["skew_ps"] for row in rows} == {390_011}
    # Before the first one stand embedding and attention: twice the lag.
    first = [row for row in collective_bandwidth(run) if row["op"] == "psum.0"]
    assert {row["skew_ps"] for row in first} == {780_022}


def test_descriptions_without_a_closed_form_are_refused():
    with pytest.raises(ValueError, match="only one axis may communicate"):
        Run(mesh=(("ep", 2), ("tp", 2)), lag_ps=(1, 2, 3, 4))
    with pytest.raises(ValueError, match="hosts and processes"):
        Run(hosts=3)


def test_a_seed_always_gives_the_same_run():
    assert draw_run(7) == draw_run(7)
    assert draw_run(7) != draw_run(8)


def test_expectation_of_tp():
    # On each of 4 devices a prefill should reduce once after the embedding and twice a layer: 5 of
    # 32,768 bytes, 163,840; 4 are measured. Logits: 8 sequences x 1,000 words x 2 bytes.
    rows = {
        (row["phase"], row["kind"]): (
            row["expected_count"],
            row["expected_payload_bytes"],
            row["measured_payload_bytes"],
            row["ratio"],
        )
        for row in expected_traffic(CASES["tp4"])
    }
    assert rows["prefill", "all-reduce"] == (20, 655_360, 524_288, 0.8)
    assert rows["prefill", "all-gather"] == (4, 64_000, 0, 0.0)
    # Three decode steps of [8, 128] bf16: 2,048 bytes.
    assert rows["decode", "all-reduce"] == (60, 122_880, 98_304, 0.8)
    assert rows["decode", "all-gather"] == (12, 192_000, 0, 0.0)


def test_expectation_of_a_stacked_pipeline():
    # 4 stages of a layer, 2 microbatches of 4 prompts: 5 ticks of [4 x 16, 128] bf16, 16,384 bytes, on
    # each of 8 devices; the last stage, 2 of the 8, send to no device here.
    (row,) = (
        row
        for row in expected_traffic(CASES["pp_tp_ticks"])
        if (row["phase"], row["axis"]) == ("prefill", "pp")
    )
    assert (row["expected_count"], row["expected_payload_bytes"]) == (40, 655_360)
    assert (row["measured_payload_bytes"], row["ratio"]) == (491_520, 0.75)


def test_links_of_a_ring_of_four():
    # 2 x 2: 0 -> 1 is a link; 1 -> 2 goes over 0; 2 -> 3 is a link; 3 -> 0 goes over 2. A device sends
    # 196,608 bytes in a prefill, in 4 all-reduces of 1,511,719 + 97 x 32,768 = 4,690,215 ps.
    rows = {
        (row["source_chip"], row["target_chip"]): (
            row["bytes"],
            row["sources_seen"],
            row["in_flight_ps"],
        )
        for row in link_traffic(CASES["tp4"])
        if (row["phase"], row["algorithm"]) == ("prefill", "ring")
    }
    assert rows == {
        (0, 1): (196_608, 1, 18_760_860),
        (1, 0): (196_608, 1, 18_760_860),
        (0, 2): (196_608, 1, 18_760_860),
        (2, 3): (196_608, 1, 18_760_860),
        (3, 2): (196_608, 1, 18_760_860),
        (2, 0): (196_608, 1, 18_760_860),
    }


def test_cache_that_decoding_reads():
    # Steps 1 to 3 after 16 tokens read 17, 18 and 19 tokens of 8 sequences, 1,536 bytes each: 18 on
    # average; TPOT 178,015,872 ps.
    (row,) = mbu(CASES["tp4"])
    assert row["kv_bytes"] == 221_184
    assert row["tpot_s"] == pytest.approx(178_015_872e-12, rel=1e-12)
