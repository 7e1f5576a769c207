"""Rows for CCL-Bench: their tools' definitions on our trace, the folder they accept, and the way back."""

from __future__ import annotations

import json

import msgspec
import polars as pl
import pytest
import yaml

from tests.command import run_command
from tests.ingest.traces import rows
from tests.layers import first_few
from tests.samples import sample
from tests.sql.export.ccl_drawn import drawn_run
from tests.sql.export.ccl_naive import legacy
from tests.synth.cases import CASES
from tests.synth.write import write_run
from tests.warehouse import write_warehouse
from xlahouse.capture.card_file import read_card
from xlahouse.capture.errors import ReportError
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql import Warehouse
from xlahouse.sql.export.ccl_card import chip_name
from xlahouse.sql.export.ccl_rows import write_rows

CARD = """
version: 1
hf_url: https://huggingface.co/Qwen/Qwen3-32B
workload:
  model: {phase: inference, moe: false, precision: bf16, iteration: 4}
  data: {batch_size: 8, input_len: 1024, output_len: 16}
  hardware:
    xpu_spec: {type: TPU, model: tpu_v6e, total_count: 2}
Model-executor:
  framework: {name: vllm}
  model_plan_parallelization: {dp_replicate: 1, dp_shard: 1, tp: 2, pp: 1, cp: 1}
"""


def export(root, folder, *runs):
    """(rows of benchmark_data.json by name, what was written), of all runs where none is named."""
    with Warehouse(root) as warehouse:
        ids = runs or [row["run_id"] for row in warehouse.runs()]
        written = write_rows(warehouse, ids, folder)
    data = json.loads((folder / "benchmark_data.json").read_text())
    return {row["trace"]: row for row in data["rows"]}, written


def contents(folder):
    """(trace, card) of a row's folder, which holds these two files and no other."""
    (card,) = folder.glob("*.yaml")
    (trace,) = folder.glob("*.trace.json")
    assert sorted(folder.iterdir()) == sorted([card, trace])
    assert card.stem == folder.name
    return json.loads(trace.read_text()), yaml.safe_load(card.read_text())


def check(folder, row):
    """Their definitions, plainly over the JSON, give the row's values; returns these."""
    expected = legacy(*contents(folder))
    found = {name: row["metrics"][name] for name in expected}
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-12), name
    ours = {name.removeprefix("xlahouse_") for name in row["metrics"]} - set(expected)
    assert not ours
    assert len(row["metrics"]) == 2 * len(expected)
    return found


@pytest.mark.verify
def test_their_definitions_on_drawn_runs(tmp_path):
    drawn = [drawn_run(number) for number in range(12)]
    tables = {name: [row for run in drawn for row in run[name]] for name in drawn[0]}
    found, written = export(write_warehouse(tmp_path / "wh", tables), tmp_path / "rows")
    values = [check(row.folder, found[row.folder.name]) for row in written]
    assert len(values) == 12
    for metric in values[0]:  # no metric is always absent or always there by accident
        assert any(value[metric] is not None for value in values), metric


@pytest.fixture(scope="module")
def vllm(tmp_path_factory):
    """A collection's row: the trace of vLLM on two TPUs with a card."""
    folder = tmp_path_factory.mktemp("row") / "Qwen3-32B-vllm-tp2-tpu"
    folder.mkdir()
    (folder / "host.trace.json.gz").write_bytes(
        sample("tpu/vllm_qwen3_tp2.trace.json.gz").read_bytes()
    )
    (folder / f"{folder.name}.yaml").write_text(CARD)
    root = tmp_path_factory.mktemp("wh")
    ingest_paths([str(folder)], str(root))
    return root


@pytest.mark.verify
def test_every_metric_of_the_vllm_trace_has_a_row_in_both_views(vllm, tmp_path):
    found, (written,) = export(vllm, tmp_path / "rows")
    values = check(written.folder, found["Qwen3-32B-vllm-tp2-tpu"])
    # 2 devices x 129 all-reduces of 2 x 10,485,760 bytes accessed: TRACE_FACTS's, in GB (1e9).
    assert values["collective_vol_allreduce_gb"] == pytest.approx(2 * 129 * 20_971_520 / 1e9)
    ours = found["Qwen3-32B-vllm-tp2-tpu"]["metrics"]
    assert ours["xlahouse_collective_vol_allreduce_gb"] == pytest.approx(2 * 129 * 10_485_760 / 1e9)
    assert ours["xlahouse_mfu"] is None  # most of its time is in kernels of unknown FLOPs
    with Warehouse(vllm) as warehouse:
        for view in ("ccl_bench", "ccl_legacy"):
            told = warehouse.query(f"select metric, value, unit, reason, note from {view}").dicts()
            assert len({row["metric"] for row in told}) == len(told) == 19
            assert all((row["value"] is None) == (row["reason"] is not None) for row in told)
            assert all(row["unit"] and row["note"] for row in told)


def test_the_card_of_a_row_says_what_is_known(vllm, tmp_path):
    _, (written,) = export(vllm, tmp_path / "rows")
    card, problems = read_card((written.folder / f"{written.folder.name}.yaml").read_text(), "card")
    assert not problems
    assert card.workload.hardware.xpu_spec.model == "tpu_v6e"
    assert card.workload.hardware.xpu_spec.total_count == 2
    assert card.workload.data.seq_len == 1024 + 16
    assert card.executor.model_plan_parallelization.tp == 2
    assert card.executor.framework.name == "vllm"
    assert card.workload.hardware.network_topo.bandwidth_gbps is None  # no source has it
    assert any("workload.data.dataset" in remark for remark in written.remarks)


def ops_of(root):
    """(device, line, op, start, duration) of every op, sorted."""
    frame = rows(root, "ops").select("device_id", "op", "start_ps", "duration_ps")
    return frame.sort(pl.all())


@pytest.mark.parametrize(
    "source",
    first_few(
        [
            "tpu/v6e_4dev_jax_psum_offload.xplane.pb",
            "tp_skewed",
            "cpu/torch_xla_mlp_4dev.xplane.pb",
            "dp_tp_skewed_without_barriers",
            "tp_transposed",
        ],
        1,
    ),
)
def test_the_way_back_keeps_every_op(source, tmp_path):
    if source in CASES:
        write_run(CASES[source], tmp_path / "in")
        path = tmp_path / "in"
    else:
        path = sample(source)
    ingest_paths([str(path)], str(tmp_path / "wh"))
    _, (written,) = export(tmp_path / "wh", tmp_path / "rows")
    ingest_paths([str(written.folder)], str(tmp_path / "back"))
    before, after = ops_of(tmp_path / "wh"), ops_of(tmp_path / "back")
    assert before.height > 90
    assert after.equals(before)


def test_their_values_on_the_v6e_trace(tmp_path):
    path = sample("tpu/v6e_4dev_jax_psum_offload.xplane.pb")
    ingest_paths([str(path)], str(tmp_path / "wh"))
    found, (written,) = export(tmp_path / "wh", tmp_path / "rows")
    values = check(written.folder, found[written.folder.name])
    assert values["collective_vol_allreduce_gb"] == pytest.approx(12 * 2 * 5_368_709_120 / 1e9)
    ours = found[written.folder.name]["metrics"]["xlahouse_collective_vol_allreduce_gb"]
    assert ours == pytest.approx(12 * 5_368_709_120 / 1e9)


def test_rows_that_cannot_be(tmp_path):
    devices = [{"run_id": "g", "device_id": 0, "core": "gpu", "traced": True}]
    root = write_warehouse(
        tmp_path / "wh", {"runs": [{"run_id": "e", "name": "empty"}], "devices": devices}
    )
    with Warehouse(root) as warehouse:
        with pytest.raises(ReportError, match="on GPUs; CCL-Bench's tools read"):
            write_rows(warehouse, ["g"], tmp_path / "rows")
        with pytest.raises(ReportError, match="empty: no device was traced"):
            write_rows(warehouse, ["empty"], tmp_path / "rows")
    assert not (tmp_path / "rows").exists()


@pytest.mark.verify
def test_the_command_writes_folders_and_never_over_anything_else(tmp_path, monkeypatch, capsys):
    drawn = drawn_run(1)
    drawn["devices"][0]["core"] = "tensorcore"
    cpu = [{"run_id": "cpu", "device_id": 0, "core": "cpu", "traced": True, "inferred": True}]
    drawn["devices"] += cpu
    root, out = write_warehouse(tmp_path / "wh", drawn), tmp_path / "rows"

    def command(*runs):
        return run_command(monkeypatch, "export", "ccl-bench", *runs, "-o", out, "-w", root)

    assert command("run1", "cpu") == 0
    said = capsys.readouterr()
    assert said.out.split() == [str(out / "run1-tpu"), str(out / "cpu-virtual-tpu")]
    assert "cpu-virtual-tpu: virtual devices" in said.err
    assert "run1-tpu: the card lacks fields without a source:" in said.err
    assert command("run1") == 0  # again: the folder is replaced
    contents(out / "run1-tpu")
    (out / "run1-tpu" / "mine.txt").write_text("mine")
    assert command("run1") == 1
    assert "holds mine.txt, which no export wrote" in capsys.readouterr().err
    assert (out / "run1-tpu" / "mine.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("TPU v6 lite", "tpu_v6e"),
        ("TPU v5 Lite", "tpu_v5e"),
        ("TPU v5p", "tpu_v5p"),
        ("TPU v5", "tpu_v5p"),
        ("tpu_v6e", "tpu_v6e"),
        ("TPU v4", "tpu_v4"),
        ("TPU7x", "tpu_v7x"),
        ("TPU", None),
        ("cpu", None),
        (None, None),
    ],
)
def test_chips_have_one_name(kind, name):
    assert chip_name(kind) == name


def test_texts_and_times_stand_as_they_are(tmp_path):
    """Six digits after the point, no float between; quotes and backslashes escaped."""
    name = 'a "b" \\ \n é'
    ops = [
        {
            "device_id": 0,
            "op": name,
            "line": "XLA Ops",
            "start_ps": 2_000_000_000_001,
            "duration_ps": 7,
        }
    ]
    devices = [
        {
            "device_id": 0,
            "core": "tensorcore",
            "traced": True,
            "plane": "/device:TPU:0",
            "host": "h",
        }
    ]
    root = write_warehouse(tmp_path / "wh", {"ops": ops, "devices": devices})
    _, (written,) = export(root, tmp_path / "rows")
    raw = (written.folder / "h.trace.json").read_text()
    assert '"ts":2000000.000001,"dur":0.000007' in raw
    event = msgspec.json.decode(raw)["traceEvents"][-1]
    assert event["name"] == name
    assert event["args"] == {"device_offset_ps": "2000000000001", "device_duration_ps": "7"}
