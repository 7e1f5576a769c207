"""Cards at ingest: what they fill, what contradicts the trace, which lie beside which traces."""

from __future__ import annotations

import msgspec
import polars as pl
import pytest

from tests.ingest.traces import rows, tpu_trace, write
from tests.synth.describe import Run
from tests.synth.write import write_run
from xlahouse.capture.card import Parallelization
from xlahouse.capture.commands import TRACES, filled
from xlahouse.capture.errors import ManifestError
from xlahouse.ingest.card import _mesh
from xlahouse.ingest.events.codes_of_files import CARD_CONTRADICTS
from xlahouse.ingest.run import ingest_paths

CARD = """
hf_url: https://huggingface.co/Qwen/Qwen3-4B
workload:
  model: {phase: serving, moe: false, precision: bf16, iteration: 6, num_layers: 36, num_params: 40}
  data: {batch_size: 8, input_len: 100, output_len: 20}
  hardware:
    xpu_spec: {type: TPU, model: tpu_v6e, total_count: 2}
Model-executor:
  framework: {name: torchxla, version: 2.9.0}
  model_plan_parallelization: {dp_replicate: 1, dp_shard: 1, tp: 2, pp: 1, cp: 1}
"""


def run_row(root):
    frame = pl.concat([pl.read_parquet(file) for file in root.glob("tables/runs/*.parquet")])
    (row,) = frame.to_dicts()
    return row


def card_issues(root):
    """(code, severity, message) of what cards gave rise to, sorted."""
    found = rows(root, "issues").filter(pl.col("code").str.starts_with("card"))
    return sorted(found.select("code", "severity", "message").rows())


def trace_with(tmp_path, text, name="card.yaml"):
    """A trace of devices 0 and 1 (the second only named) with a card beside it."""
    write(tmp_path / "in" / "row-tpu" / "host0.xplane.pb", tpu_trace())
    card = tmp_path / "in" / "row-tpu" / name
    card.write_text(text)
    return card


def test_a_card_beside_a_trace_fills_what_it_lacks(tmp_path):
    trace_with(tmp_path, CARD)
    ingest_paths([str(tmp_path / "in")], str(tmp_path / "wh"))
    row = run_row(tmp_path / "wh")
    expected = {
        "name": "row-tpu",
        "model": "Qwen3-4B",
        "framework": "torch_xla",
        "dtype": "bfloat16",
        "batch_size": 8,
        "prompt_tokens": 100,
        "output_tokens": 20,
        "layers": 36,
        "parameters": 40,
        "active_parameters": 40,
        "expert_layers": 0,
        "mesh": [{"axis": "tp", "size": 2}],
        "parallelism": "tp2",
        "workload": "serving",
        "iterations": 6,
        "device_kind": "TPU v6 Lite",  # the trace's own
        "hidden_size": None,
        "manifest": None,
    }
    assert {name: row[name] for name in expected} == expected
    assert msgspec.json.decode(row["card"])["workload"]["data"]["batch_size"] == 8
    assert msgspec.json.decode(row["framework_versions"]) == {"torch_xla": "2.9.0"}
    (filled,) = card_issues(tmp_path / "wh")
    assert filled[:2] == ("card_filled", "info")
    for name in ("model", "batch_size", "mesh", "parallelism", "workload"):
        assert name in filled[2]


def test_what_contradicts_the_trace_is_told_and_left_out(tmp_path):
    card = trace_with(
        tmp_path, CARD.replace("tp: 2", "tp: 4").replace("total_count: 2", "total_count: 4")
    )
    ingest_paths([str(card.parent)], str(tmp_path / "wh"))
    row = run_row(tmp_path / "wh")
    assert (row["mesh"], row["parallelism"], row["expected_device_count"]) == (None, None, 2)
    told = [
        message for code, severity, message in card_issues(tmp_path / "wh") if severity == "warning"
    ]
    trace = str(card.parent / "host0.xplane.pb")
    assert told == [
        filled(CARD_CONTRADICTS.found("", detail=detail).message, {TRACES: trace})
        for detail in (
            "expected_device_count: 2 in the trace or manifest, 4 in the card",
            "mesh: tp=4 in the card, but the run names 2 devices",
        )
    ]


def test_a_manifest_is_not_overruled(tmp_path):
    write_run(Run(name="tp4"), tmp_path / "in")
    given = tmp_path / "card.yaml"
    given.write_text(CARD.replace("tp: 2", "tp: 8").replace("phase: serving", "phase: inference"))
    ingest_paths([str(tmp_path / "in")], str(tmp_path / "wh"), card=str(given))
    row = run_row(tmp_path / "wh")
    assert (row["model"], row["parallelism"], row["workload"]) == ("synthetic", "tp4", "inference")
    told = {
        message.partition(":")[0]
        for _, severity, message in card_issues(tmp_path / "wh")
        if severity == "warning"
    }
    assert {"model", "prompt_tokens", "expected_device_count"} <= told
    assert "workload" not in told


def test_several_axes_take_the_usual_order_and_experts_share_devices(tmp_path):
    plan = "{dp_replicate: 2, tp: 1, pp: 1, ep: 2}"
    text = CARD.replace("{dp_replicate: 1, dp_shard: 1, tp: 2, pp: 1, cp: 1}", plan)
    card = trace_with(tmp_path, text)
    ingest_paths([str(card.parent)], str(tmp_path / "wh"))
    assert run_row(tmp_path / "wh")["mesh"] == [{"axis": "dp", "size": 2}]


def test_a_wrong_value_beside_a_trace_costs_its_field_only(tmp_path):
    trace_with(
        tmp_path,
        CARD.replace("precision: bf16", "precision: tf32").replace("phase:", "speed: 1, phase:"),
    )
    ingest_paths([str(tmp_path / "in")], str(tmp_path / "wh"))
    row = run_row(tmp_path / "wh")
    assert (row["dtype"], row["model"]) == (None, "Qwen3-4B")
    problems = [entry for entry in card_issues(tmp_path / "wh") if entry[0] == "card_field"]
    assert [severity for _, severity, _ in problems] == ["info", "warning"]
    assert "line 4: workload.model.speed" in problems[0][2]
    assert "line 4: workload.model.precision: 'tf32' is not one of" in problems[1][2]


def test_a_card_that_is_none_costs_itself_only(tmp_path):
    card = trace_with(tmp_path, "workload:\n  model: {phase\n  x: [\n")
    ingest_paths([str(tmp_path / "in")], str(tmp_path / "wh"))
    row = run_row(tmp_path / "wh")
    assert (row["name"], row["model"], row["status"]) == ("row-tpu", None, "partial")
    issues = [entry for entry in card_issues(tmp_path / "wh") if entry[0] == "card_unreadable"]
    assert str(card) in issues[0][2]


def test_a_card_that_is_named_has_to_be_right(tmp_path):
    trace_with(tmp_path, CARD)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(CARD.replace("precision: bf16", "precision: tf32"))
    for path, message in (
        (wrong, "line 4: workload.model.precision"),
        (tmp_path / "no.yaml", "name a workload card"),
    ):
        with pytest.raises(ManifestError, match=message):
            ingest_paths([str(tmp_path / "in")], str(tmp_path / "wh"), card=str(path))
    assert not (tmp_path / "wh").exists()


def test_a_named_card_stands_in_for_the_one_beside(tmp_path):
    trace_with(tmp_path, CARD)
    given = tmp_path / "given.yaml"
    given.write_text(CARD.replace("batch_size: 8", "batch_size: 16"))
    ingest_paths([str(tmp_path / "in")], str(tmp_path / "wh"), card=str(given))
    assert run_row(tmp_path / "wh")["batch_size"] == 16


def test_a_run_is_written_again_where_its_card_changed(tmp_path):
    card = trace_with(tmp_path, CARD)
    path, root = str(tmp_path / "in"), tmp_path / "wh"
    (first,) = ingest_paths([path], str(root))
    (second,) = ingest_paths([path], str(root))
    assert second.unchanged
    card.write_text(CARD.replace("batch_size: 8", "batch_size: 9"))
    (third,) = ingest_paths([path], str(root))
    assert (third.run_id, third.unchanged) == (first.run_id, False)
    assert run_row(root)["batch_size"] == 9
    card.unlink()  # what was known stays
    (fourth,) = ingest_paths([str(card.parent / "host0.xplane.pb")], str(root))
    assert fourth.unchanged
    assert run_row(root)["batch_size"] == 9


def test_a_collection_ingests_as_it_lies(tmp_path):
    """Rows by their folders: nested sessions, several ranks, two cards, a plan beside, and none at all."""
    first, second = tpu_trace(), tpu_trace(1)
    root = tmp_path / "collection"
    write(root / "a-tpu" / "h.xplane.pb", first)
    (root / "a-tpu" / "a-tpu.yaml").write_text(CARD)
    write(root / "b-tpu" / "plugins" / "profile" / "s" / "h.xplane.pb", second)
    (root / "b-tpu" / "card.yml").write_text(CARD)
    rank = '{"traceEvents": [{"ph": "X", "pid": %d, "tid": 1, "ts": 1, "dur": 2, "name": "n"}]}'
    for number in (0, 1):
        write(root / "c" / f"rank{number}_trace.json", (rank % number).encode())
    (root / "c" / "c.yaml").write_text(CARD)
    (root / "c" / "other.yaml").write_text(CARD)
    write(root / "d" / "h.xplane.pb", tpu_trace(hlo=False))
    (root / "d" / "plan.yaml").write_text("name: p\nexperiments: []\n")
    results = ingest_paths([str(root)], str(tmp_path / "wh"))
    names = {result.name for result in results}
    assert {"a-tpu", "b-tpu", "c"} <= names
    frame = pl.concat(
        [pl.read_parquet(file) for file in (tmp_path / "wh").glob("tables/runs/*.parquet")]
    )
    files = {row["name"]: len(row["source_files"]) for row in frame.to_dicts()}
    assert files["c"] == 2
    assert files["b-tpu"] == 1
    models = dict(frame.select("name", "model").rows())
    assert models["b-tpu"] == models["c"] == "Qwen3-4B"


def test_two_cards_beside_a_trace_are_none(tmp_path):
    card = trace_with(tmp_path, CARD, "one.yaml")
    (card.parent / "two.yaml").write_text(CARD)
    ingest_paths([str(tmp_path / "in")], str(tmp_path / "wh"))
    assert run_row(tmp_path / "wh")["model"] is None
    trace = card.parent / "host0.xplane.pb"
    assert card_issues(tmp_path / "wh") == [
        (
            "card_unreadable",
            "warning",
            "several workload cards lie beside the trace (one.yaml, two.yaml); "
            f"the facts that they would give are NULL; name one: `xlahouse ingest {trace} "
            "--run RUN --card CARD`",
        )
    ]


def test_runs_whose_cards_choose_the_same_are_repeats(tmp_path):
    setups = []
    for number, text in enumerate(
        (CARD, CARD + "contact: me@x\n", CARD.replace("batch_size: 8", "batch_size: 9"))
    ):
        folder = tmp_path / f"in{number}"
        write(folder / "h.xplane.pb", tpu_trace())
        (folder / "card.yaml").write_text(text)
        ingest_paths([str(folder)], str(tmp_path / f"wh{number}"))
        setups.append(run_row(tmp_path / f"wh{number}")["setup"])
    assert setups[0] == setups[1] != setups[2]
    assert all(setups)


def test_cards_that_differ_in_the_mesh_alone_have_one_setup_besides_it(tmp_path):
    """Two devices along tp or along fsdp, on one host or two; another batch is another setup."""
    rows = []
    for number, text in enumerate(
        (
            CARD,
            CARD.replace("dp_shard: 1, tp: 2", "dp_shard: 2, tp: 1").replace(
                "total_count: 2", "total_count: 2, count_per_node: 1"
            ),
            CARD.replace("batch_size: 8", "batch_size: 9"),
        )
    ):
        folder = tmp_path / f"in{number}"
        write(folder / "h.xplane.pb", tpu_trace())
        (folder / "card.yaml").write_text(text)
        ingest_paths([str(folder)], str(tmp_path / f"wh{number}"))
        rows.append(run_row(tmp_path / f"wh{number}"))
    assert len({row["setup"] for row in rows}) == 3
    tensor, sharded, batch = (row["setup_besides_mesh"] for row in rows)
    assert tensor == sharded != batch


def test_a_mesh_of_more_devices_than_any_machine_has_is_left_out():
    """Where the trace does not say how many there are."""
    row, problem = _mesh(Parallelization(dp_shard=4096, tp=4096), {})
    assert row == {}
    assert "mesh: 16,777,216 devices are more than 65,536" in problem
    assert _mesh(Parallelization(dp_shard=2, tp=4), {})[0]["parallelism"] == "fsdp2.tp4"
