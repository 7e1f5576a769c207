"""Serving experiments in a plan: what is drawn or read, what is refused, and what a dry run says."""

from __future__ import annotations

import random

import msgspec
import pytest

from tests.conftest import DEMO_PLAN
from tests.later import needs
from xlahouse.capture.errors import ManifestError
from xlahouse.capture.plan import read_plan
from xlahouse.capture.serving import Arrival, arrivals_of, buckets_of

GOOD = """\
name: server
experiments:
  - name: s
    model: {name: tiny, preset: qwen3-demo, config: {num_hidden_layers: 2}}
    mesh: {tp: 2}
    batch_size: 4
    prompt_tokens: 40
    output_tokens: 8
    requests: 3
    serving: {poisson_per_s: 2, shortest_prompt: 5}
"""
LISTED = GOOD.replace("    requests: 3\n", "").replace(
    "{poisson_per_s: 2, shortest_prompt: 5}",
    "{arrivals: [{at_s: 0, prompt_tokens: 7, output_tokens: 2}, "
    "{at_s: 0.5, prompt_tokens: 40, output_tokens: 8}]}",
)
LINES = (
    '{"at_s": 0, "prompt_tokens": 7, "output_tokens": 2}\n\n'
    '{"at_s": 0.5, "prompt_tokens": 40, "output_tokens": 8}\n'
    '{"at_s": 0.5, "prompt_tokens": 1, "output_tokens": 1}\n'
)


def read(tmp_path, text, lines=LINES):
    (tmp_path / "plan.yaml").write_text(text)
    (tmp_path / "load.jsonl").write_text(lines)
    return read_plan(tmp_path / "plan.yaml").experiments


def test_arrivals_are_drawn_from_the_seed(tmp_path):
    """Gaps are exponential with a mean of half a second; prompts have 5 to 40 tokens, outputs 8."""
    (experiment,) = read(tmp_path, GOOD)
    drawn, now = random.Random(0), 0.0
    for arrival in arrivals_of(experiment):
        now += drawn.expovariate(2)
        assert (arrival.at_s, arrival.prompt_tokens) == (now, drawn.randint(5, 40))
        assert arrival.output_tokens == 8
    other = msgspec.structs.replace(experiment, seed=1, requests=4000)
    assert arrivals_of(other)[0].at_s != arrivals_of(experiment)[0].at_s
    many = arrivals_of(other)
    # the sum of 4,000 gaps is within 4 standard deviations of 2,000 s
    assert abs(many[-1].at_s - 2000) < 4 * 0.5 * 4000**0.5
    assert {each.prompt_tokens for each in many} == set(range(5, 41))


def test_listed_arrivals_are_taken_as_they_are(tmp_path):
    (experiment,) = read(tmp_path, LISTED)
    assert arrivals_of(experiment) == [
        Arrival(at_s=0, prompt_tokens=7, output_tokens=2),
        Arrival(at_s=0.5, prompt_tokens=40, output_tokens=8),
    ]
    assert experiment.requests == 2


def test_a_file_beside_the_plan_has_arrivals_as_lines(tmp_path):
    text = GOOD.replace("{poisson_per_s: 2, shortest_prompt: 5}", "{file: load.jsonl}")
    (all_three,) = read(tmp_path, text)
    (two,) = read(tmp_path, text.replace("requests: 3", "requests: 2"))
    (uncounted,) = read(tmp_path, text.replace("    requests: 3\n", ""))
    assert [each.prompt_tokens for each in arrivals_of(all_three)] == [7, 40, 1]
    assert arrivals_of(two) == arrivals_of(all_three)[:2]
    assert arrivals_of(uncounted) == arrivals_of(all_three)
    # what a child process, a TPU VM and the manifest get is the list itself
    again = msgspec.json.decode(msgspec.json.encode(two), type=type(two))
    assert arrivals_of(again) == arrivals_of(two)


@pytest.mark.parametrize(
    ("prompt", "mesh", "buckets", "expected"),
    [
        (40, "{tp: 2}", "", [16, 32, 40]),
        (16, "{tp: 2}", "", [16]),
        (7, "{tp: 2}", "", [7]),
        (42, "{sp: 3}", "", [18, 33, 42]),
        (40, "{tp: 2}", ", buckets: [48, 8]", [8, 48]),
    ],
)
def test_prompts_are_padded_to_few_lengths(tmp_path, prompt, mesh, buckets, expected):
    sizes = "num_attention_heads: 6, num_key_value_heads: 3, vocab_size: 4095"
    text = GOOD.replace("tokens: 40", f"tokens: {prompt}").replace("{tp: 2}", mesh)
    if "sp" in mesh:
        text = text.replace("num_hidden_layers: 2", f"num_hidden_layers: 2, {sizes}")
    (experiment,) = read(tmp_path, text.replace(", shortest_prompt: 5", buckets))
    assert buckets_of(experiment) == expected


def test_loads_are_swept(tmp_path):
    loads = "[{poisson_per_s: 0.5}, {poisson_per_s: 20, policy: prefill_first}, {file: load.jsonl}]"
    swept = read(tmp_path, GOOD.replace("{poisson_per_s: 2, shortest_prompt: 5}", loads))
    assert [each.name for each in swept] == ["s-0.5ps", "s-20ps", "s-load"]
    assert [each.serving.policy for each in swept] == ["mixed", "prefill_first", "mixed"]
    (listed,) = read(tmp_path, LISTED.replace("serving: {", "serving: [{").replace("}]}", "}]}]"))
    assert listed.name == "s-arrivals"


BAD = (
    # (what a good plan says, what it says instead, what the error says)
    (GOOD, "poisson_per_s: 2, ", "", "serving: give one of poisson_per_s, file and arrivals"),
    (GOOD, "poisson_per_s: 2", "poisson_per_s: 2, file: load.jsonl", "give one of poisson_per_s"),
    (GOOD, "poisson_per_s: 2", "poisson_per_s: 0", "Expected `float` > 0.0"),
    (GOOD, "{poisson_per_s: 2, shortest_prompt: 5}", "{file: a/b}", "matching regex"),
    (GOOD, "{poisson_per_s: 2, shortest_prompt: 5}", "{file: no.jsonl}", "put the file beside"),
    (
        GOOD.replace("requests: 3", "requests: 4"),
        "{poisson_per_s: 2, shortest_prompt: 5}",
        "{file: load.jsonl}",
        "requests: 4, but load.jsonl has 3; lower it",
    ),
    (GOOD, "requests: 3", "requests: 100001", "requests: 100,001 are more than 100,000 requests"),
    (
        GOOD,
        "shortest_prompt: 5",
        "shortest_prompt: 41",
        "shortest_prompt 41 is above prompt_tokens",
    ),
    (
        GOOD,
        "shortest_prompt: 5",
        "shortest_output: 9",
        "shortest_output 9 is above output_tokens 8",
    ),
    (LISTED, "{arrivals", "{shortest_output: 1, arrivals", "are for poisson_per_s; remove them"),
    (LISTED, "at_s: 0.5", "at_s: -1", "Expected `float` >= 0.0"),
    (LISTED, "at_s: 0,", "at_s: 1,", "serving: request 1 arrives before request 0"),
    (
        LISTED,
        "prompt_tokens: 40, o",
        "prompt_tokens: 41, o",
        "prompt_tokens: 40, but request 1 has 41",
    ),
    (LISTED, "output_tokens: 8}]", "output_tokens: 9}]", "output_tokens: 8, but request 1 has 9"),
    (GOOD, "shortest_prompt: 5", "buckets: [8, 39]", "buckets end with 39, below prompt_tokens 40"),
    (GOOD, "shortest_prompt: 5", "buckets: [49]", "bucket 49 is longer than a slot, which has"),
    (
        GOOD.replace("{tp: 2}", "{sp: 2}"),
        "shortest_prompt: 5",
        "buckets: [9, 40]",
        "bucket 9 is not a multiple of sp=2",
    ),
    (GOOD, "{tp: 2}", "{pp: 2}", "mesh: a server runs no pipeline; remove pp, or serving"),
    (GOOD, "{tp: 2}", "{dp: 8}", "batch_size: 4 is not a multiple of dp=8"),
    (GOOD, "mesh", "capacity_factor: 1.5\n    mesh", "capacity_factor: tokens that experts drop"),
    (
        GOOD,
        "preset: qwen3-demo, config: {num_hidden_layers: 2}",
        "preset: deepseek-4.1",
        "model: de",
    ),
    (GOOD, "{tp: 2}", "{dp: 2, tp: 2}\n    slice: v6e-16", "slice: v6e-16 has 16 chips"),
    (
        GOOD.replace("batch_size: 4", "batch_size: 16"),
        "{tp: 2}",
        "{dp: 4, tp: 4}\n    slice: v6e-16",
        "slice: v6e-16 has 4 hosts, which would schedule by clocks of their own",
    ),
)


@pytest.mark.parametrize(("good", "says", "instead", "error"), BAD)
def test_what_cannot_be_served_is_refused_with_its_line(tmp_path, good, says, instead, error):
    assert says in good
    with pytest.raises(ManifestError) as caught:
        read(tmp_path, good.replace(says, instead))
    assert error in str(caught.value)
    assert "plan.yaml, line " in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ("\n", "load.jsonl: no request; write lines such as"),
        (LINES + "{}\n", "load.jsonl, line 5: Object missing required field `at_s`"),
        (LINES + "{]\n", "load.jsonl, line 5: JSON is malformed"),
    ],
)
def test_a_wrong_line_of_a_file_is_named(tmp_path, lines, error):
    text = GOOD.replace("{poisson_per_s: 2, shortest_prompt: 5}", "{file: load.jsonl}")
    with pytest.raises(ManifestError) as caught:
        read(tmp_path, text.replace("    requests: 3\n", ""), lines)
    assert error in str(caught.value)


def test_the_shipped_plan_is_small_and_its_requests_differ():
    (server,) = read_plan(DEMO_PLAN.with_name("serving_demo.yaml")).experiments
    arrivals = arrivals_of(server)
    assert (len(arrivals), len(buckets_of(server)) + 1) == (12, 3)  # requests, programs
    assert arrivals[-1].at_s < 3
    assert len({each.prompt_tokens for each in arrivals}) > 6
    assert len({each.output_tokens for each in arrivals}) > 4
    assert server.batch_size < len(arrivals)  # slots are used again


@needs("torch", "transformers")
@pytest.mark.xdist_group("capture")
def test_a_dry_run_says_what_is_served_and_how_long_it_takes(tmp_path):
    """Four parts of four devices prefill a prompt of 48 tokens each; a decode step has 4 of 16 slots."""
    from xlahouse.capture.run.dry_run import describe_plan
    from xlahouse.capture.run.forecast import forecast
    from xlahouse.capture.run.hours import spent_on, step_seconds
    from xlahouse.capture.slices import parse_slice

    text = LISTED.replace("{tp: 2}", "{dp: 2, tp: 2}\n    slice: v6e-4").replace(
        "{arrivals", "{buckets: [16, 48], arrivals"
    )
    (experiment,) = read(tmp_path, text.replace("batch_size: 4", "batch_size: 16"))
    printed = list(describe_plan([experiment], tmp_path))
    assert printed[2].strip() == (
        "serves 2 requests in 16 slots (mixed), the last after 0.5 s: prompts of 7 to 40, outputs of 2 to "
        "8 tokens; prompts padded to 16, 48; at most 64 steps"
    )
    share = forecast(experiment)
    # 2 layers: 2 all-reduces each, and 1 of the embedding, of [rows, 512] in float32; logits of 4,096
    assert {(c.kind, c.payload_bytes): n for c, n in share.prefill.items()} == {
        ("all-reduce", 48 * 512 * 4): 5,
        ("all-gather", 4096 * 4): 1,
    }
    assert {(c.kind, c.payload_bytes): n for c, n in share.decode.items()} == {
        ("all-reduce", 8 * 512 * 4): 5,
        ("all-gather", 8 * 4096 * 4): 1,
    }
    # keys and values of 2 layers, 8 of 16 slots of 48 tokens, 2 of 4 heads of 64
    assert share.cache_bytes == 2 * 2 * 8 * 48 * 2 * 64 * 4
    prefill, decode = step_seconds(experiment, share, parse_slice("v6e-4").generation)
    spent = spent_on(experiment, share)
    # programs for 16, 48 and the decode step, in each of two warm-ups
    assert spent.compile == 2 * (2 * 2 + 0.5)
    assert spent.warm_up == pytest.approx(2 * (2 * prefill + decode))
    # 10 tokens take at most 10 steps, two with a prefill: far less than until the last request comes.
    # The unsharded model computes 2 x parameters for each of 7 + 40 + 2 + 8 tokens, at 1e11 FLOP/s.
    assert 10 * decode + 2 * prefill < 0.5
    assert spent.steps == pytest.approx(0.5 + 2 * share.parameters * 57 / 1e11)
