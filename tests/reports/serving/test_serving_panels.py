"""The page of a server: what is drawn of its steps, batches and requests, and what is said."""

from __future__ import annotations

import pytest

from tests.reports.example import Store
from tests.reports.sections import filled
from tests.reports.vega_lite import assert_valid, data
from xlahouse.reports.panels.serving import batches, requests, steps

DEVICE = {"run_id": "r", "device_id": 0, "traced": True, "core": "tensorcore"}
MS = 10**9


def store_of(**tables):
    return Store({"runs": [{"run_id": "r"}], "devices": [DEVICE], **tables})


def step(number, phase, period_ms, count, **more):
    period = None if period_ms is None else period_ms * MS
    row = {"run_id": "r", "host": "h", "step": number, "phase": phase, "requests": count}
    return {**row, "start_ps": number * 10 * MS, "period_ps": period, "tokens": count, **more}


def test_steps_are_drawn_over_time_by_phase():
    rows = [step(0, "decode", 4, 2), step(1, "mixed", 9, 3), step(2, "step", None, 3)]
    section = filled(store_of(serving_step_v1=rows), steps.PANEL, "r")
    assert_valid(section)
    period, count = (data(figure.spec) for figure in section.figures)
    drawn = [(row["start_s"], row["phase"], row["value"]) for row in period]
    assert drawn == [(0.0, "decode", 4.0), (0.01, "mixed", 9.0)]
    assert [row["value"] for row in count] == [2.0, 3.0, 3.0]
    assert section.coverage.startswith("Period known for 2 of 3 steps")
    assert section.notes == [
        "Whether 1 step prefill or decode is not known: the trace does not state the tokens of each request, "
        "and did not see all requests begin.",
        "A step has no period if its ops are not in the trace.",
    ]


def test_neighbouring_steps_of_long_runs_are_one_point():
    """Of 800 steps two are a stretch: 400 points, each the median of 1 and 3 ms."""
    rows = [step(number, "decode", 1 + 2 * (number % 2), 1) for number in range(800)]
    section = filled(store_of(serving_step_v1=rows), steps.PANEL, "r")
    period = data(section.figures[0].spec)
    assert len(period) == 400
    assert {row["value"] for row in period} == {2.0}


def test_a_run_without_a_server_says_so():
    for panel in (steps.PANEL, requests.PANEL, batches.PANEL):
        section = filled(store_of(), panel, "r")
        assert section.empty == "No server marks steps that serve several requests in this trace."


def batch(phase, count, p50_s):
    row = {"run_id": "r", "phase": phase, "requests": count, "steps": 4, "lost_steps": 0}
    return {**row, "p50_period_s": p50_s}


def test_a_prefill_beside_decodes_is_compared_with_decodes_alone():
    rows = [batch("mixed", 2, 0.03), batch("decode", 2, 0.02), batch("decode", 3, 0.025)]
    beside = {
        "run_id": "r",
        "requests": 2,
        "added_s": 0.01,
        "slowdown_ratio": 1.5,
        "decode_steps": 7,
    }
    store = store_of(serving_batch_v1=rows, interference_v1=[beside])
    section = filled(store, batches.PANEL, "r")
    assert_valid(section)
    drawn = [
        (row["phase"], row["requests"], row["period"]) for row in data(section.figures[0].spec)
    ]
    assert drawn == [("decode", 2, 20.0), ("decode", 3, 25.0), ("mixed", 2, 30.0)]
    assert section.notes == [
        "With a prefill in a batch of 2, a step takes 1.50 times the period of decodes alone: "
        "10.0\xa0ms longer for each request in it (medians of 4 steps and 7 steps)."
    ]


@pytest.mark.parametrize(
    ("phases", "note"),
    [
        (["decode"], "No step has a prefill beside decodes, so none interferes with them."),
        (
            ["mixed"],
            "No decode step serves as many requests as a mixed one: nothing to compare with.",
        ),
    ],
)
def test_without_both_kinds_of_steps_nothing_is_compared(phases, note):
    rows = [batch(phase, 2, 0.02) for phase in phases]
    assert filled(store_of(serving_batch_v1=rows), batches.PANEL, "r").notes == [note]


def summary(**more):
    known = {"run_id": "r", "tokens_per_s": 100.0, "mean_requests": 2.5, "host_bound_ratio": 0.25}
    return {**known, **more}


def latency(number, ttft_s, tpot_s, **more):
    row = {"run_id": "r", "request": number, "source": "server", "ttft_s": ttft_s, "tpot_s": tpot_s}
    return {**row, **more}


def test_requests_are_spread_against_their_limits():
    rows = [
        latency(0, 0.1, 0.01),
        latency(1, 0.3, None, request_ttft_s=0.5, reason="no decode step"),
        latency(2, None, None, reason="no decode step"),
    ]
    limits = {"ttft_limit_s": 0.4, "judged_requests": 2, "good_requests": 1}
    rates = {"good_requests_per_s": 0.5, "output_tokens_per_s": 50.0}
    times = {"p50_ttft_s": 0.2, "p90_ttft_s": 0.3, "p99_ttft_s": 0.4, "p50_queue_s": 0.05}
    shares = {"prefill_least_ratio": 0.9, "prefill_most_ratio": 0.95}
    judged = summary(**limits, **rates, **times, **shares, profile="prefill_heavy")
    section = filled(store_of(latency_v3=rows, serving_summary_v1=[judged]), requests.PANEL, "r")
    assert_valid(section)
    ttft, tpot = section.figures
    assert [(row["s"], row["share"]) for row in data(ttft.spec)] == [(0.1, 0.5), (0.5, 1.0)]
    assert (ttft.note, tpot.note) == ("Dashed: the limit.", "")
    assert (ttft.title, tpot.title) == ("TTFT with queue of requests", "TPOT of requests")
    assert section.coverage.startswith("TTFT known for 2 and TPOT for 1 of 3 requests")
    assert section.notes == [
        "100 tokens/s, prompts included, 50.0 output tokens/s; 2.50 requests in a step on average.",
        "90.0\xa0% to 95.0\xa0% of the tokens are of prompts: prefill-heavy.",
        "TTFT from the first step: median 200\xa0ms, 90th percentile 300\xa0ms, 99th 400\xa0ms.",
        "In the queue before the first step: median 50.0\xa0ms.",
        "Devices wait for the host 25.0\xa0% of the time.",
        "1 of 2 requests that can be judged are within the limits (TTFT with queue at most 400\xa0ms): "
        "0.5 good requests/s.",
        "2 requests: no decode step.",
    ]


def test_without_markers_of_requests_ttft_has_no_queue():
    rows = [latency(0, 0.1, 0.01)]
    store = store_of(
        latency_v3=rows,
        serving_summary_v1=[
            summary(profile="ambiguous", prefill_least_ratio=0.3, prefill_most_ratio=0.3)
        ],
    )
    section = filled(store, requests.PANEL, "r")
    assert section.figures[0].title == "TTFT of requests"
    assert "30.0\xa0% of the tokens are of prompts." in section.notes


def test_a_rate_that_is_not_known_has_its_reason():
    lost = summary(tokens_per_s=None, wall_problem="the trace lacks the ops of the last step")
    store = store_of(latency_v3=[latency(0, 0.1, 0.01)], serving_summary_v1=[lost])
    section = filled(store, requests.PANEL, "r")
    assert section.notes[0] == (
        "Tokens/s are not known: the trace lacks the ops of the last step; 2.50 requests in a step on "
        "average."
    )


@pytest.mark.parametrize(
    ("limits", "note"),
    [
        ({}, "No limits are set: `xlahouse set limits RUN ttft=0.5,tpot=0.05` sets them."),
        (
            {"tpot_limit_s": 0.02, "judged_requests": 0},
            "No request can be compared with the limits (TPOT at most 20.0\xa0ms).",
        ),
    ],
)
def test_without_limits_or_requests_to_judge_that_is_said(limits, note):
    store = store_of(latency_v3=[latency(0, None, None)], serving_summary_v1=[summary(**limits)])
    assert note in filled(store, requests.PANEL, "r").notes
