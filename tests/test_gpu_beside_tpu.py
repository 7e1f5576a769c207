"""Runs on GPUs beside runs on TPUs in one warehouse: the same views, NULL with its reason for the rest."""

from __future__ import annotations

from functools import partial

import pytest

from tests.each import check_each
from tests.kept import INTERNAL
from tests.layers import first_few
from tests.samples import sample
from tests.synth.cases import CASES
from tests.synth.write import write_run
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql import Warehouse
from xlahouse.sql.library import shipped

GPU_RUNS = ("mi300_jax_gemm", "sampled_rank1", "large_integer", "amd_minitoy")
SOURCES = ("gpu/mi300_jax_gemm.xplane.pb", *(f"kineto/{name}.json.gz" for name in GPU_RUNS[1:]))
pytestmark = pytest.mark.xdist_group("gpu_beside_tpu")
# of two runs, so that others bring rows
PAIRS = (
    "op_diff_v1",
    "run_comparison_v1",
    "run_comparison_v2",
    "traffic_compatibility_v1",
)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A warehouse of one run on four TPUs."""
    folder = tmp_path_factory.mktemp("tpu")
    write_run(CASES["tp_skewed"], folder / "in")
    ingest_paths([str(folder / "in")], str(folder / "wh"))
    with Warehouse(folder / "wh") as whole, whole.keeping(INTERNAL) as warehouse:
        yield warehouse


@pytest.fixture(scope="module")
def beside(tmp_path_factory):
    """The same run, and four on GPUs."""
    paths = [str(sample(source)) for source in SOURCES]
    folder = tmp_path_factory.mktemp("mixed")
    write_run(CASES["tp_skewed"], folder / "in")
    ingest_paths([*paths, str(folder / "in")], str(folder / "wh"))
    with Warehouse(folder / "wh") as whole, whole.keeping(INTERNAL) as warehouse:
        yield warehouse


def ask(warehouse, columns, source, run):
    sql = f"select {columns} from {source} where run_id = $run"
    return warehouse.query(sql, {"run": warehouse.resolve_run(run)}).rows


def told(row):
    """A row as text; sums of floats depend on the order in which threads add them, in the last digits."""
    return repr(tuple(float(f"{v:.12g}") if isinstance(v, float) else v for v in row))


@pytest.mark.verify
def test_a_run_on_tpus_has_the_rows_that_it_has_alone(alone, beside):
    views = [view.name for view in shipped().public if view.name not in PAIRS]
    check_each("views", {view: partial(same_rows, view, alone, beside) for view in views})


def same_rows(view, alone, beside):
    columns = ", ".join(column.name for column in shipped().views[view].columns)
    (mine,) = (row["run_id"] for row in alone.runs())
    found = sorted(map(told, ask(beside, columns, view, mine)))
    assert found == sorted(map(told, ask(alone, columns, view, mine)))


@pytest.mark.parametrize("run", GPU_RUNS)
def test_what_a_gpu_has(run, beside):
    """One window of its ops, split without a rest; a summary; rows in both views of CCL-Bench."""
    ((window, parts),) = ask(
        beside,
        "sum(window_ps), sum(compute_ps + exposed_ps + exposed_copy_ps + sync_wait_ps + idle_ps)",
        "device_time",
        run,
    )
    assert window == parts > 0
    ((status, devices, inferred),) = ask(
        beside, "status, device_count, inferred", "run_summary", run
    )
    assert (status, devices, inferred) == ("complete", 1, False)
    assert ask(beside, "distinct core", "device_time", run) == [("gpu",)]
    rows = ask(beside, "value, reason", "ccl_legacy", run)
    assert rows == [(None, "no TPU was traced")] * 19


@pytest.mark.parametrize("run", first_few(GPU_RUNS, 2))
def test_what_a_gpu_lacks_is_null_and_says_why(run, beside):
    assert ask(
        beside, "distinct peak_flops_per_s, peak_ici_bytes_per_s", "hardware_peaks", run
    ) == [(None, None)]
    assert ask(beside, "distinct mfu_ratio, hfu_ratio", "mfu", run) == [(None, None)]
    assert set(ask(beside, "utilization_ratio, bytes", "link_traffic", run)) <= {(None, None)}
    assert all(problem for (problem,) in ask(beside, "topology_problem", "link_traffic", run))
    assert set(ask(beside, "axis", "collective_axis", run)) <= {("unclassified",)}
    ((problem,),) = ask(beside, "mesh_problem", "run_summary", run)
    assert problem == "no mesh is known"
    reasons = ask(beside, "value is null, reason is null", "ccl_bench", run)
    assert len(reasons) == 19
    assert all(empty != silent for empty, silent in reasons)


def test_collectives_of_unknown_groups_have_no_wire_and_no_bandwidth(beside):
    """The trace of one rank of 128 tells sizes, not groups: an issue says so."""
    volume = ask(
        beside,
        "kind, collectives, payload_bytes, wire_bytes, axis",
        "traffic_volume",
        "sampled_rank1",
    )
    assert sorted(volume) == [
        ("all-gather", 2, 2 * 1_073_741_824, None, "unclassified"),
        ("all-reduce", 4, 4 * (2 * 19_618_307 + 26_258_430 + 5_716_654), None, "unclassified"),
        (
            "all-to-all",
            4,
            339_738_624 + 4 * 2_846_720 + 8 * 384 + 394_073_856,
            None,
            "unclassified",
        ),
    ]
    assert ask(beside, "*", "collective_bandwidth", "sampled_rank1") == []
    assert set(ask(beside, "bytes, target_device_id", "traffic_matrix", "sampled_rank1")) == {
        (None, None)
    }
    codes = {code for (code,) in ask(beside, "code", "issues", "sampled_rank1")}
    assert {"collective_without_group", "one_rank"} <= codes
    # The kernel of large_integer is not described at all, so its size is not known either.
    ((payload,),) = ask(beside, "payload_bytes", "traffic_volume", "large_integer")
    assert payload is None
    assert ("collective_without_payload",) in ask(beside, "code", "issues", "large_integer")


def test_sides_are_held_against_each_other_by_what_both_have(beside):
    gpu, tpu = (beside.resolve_run(run) for run in ("mi300_jax_gemm", "tp_skewed"))
    rows = beside.query(
        "select metric from run_comparison where run_id = $a and other_run_id = $b "
        "or run_id = $b and other_run_id = $a",
        {"a": gpu, "b": tpu},
    ).rows
    metrics = {metric for (metric,) in rows}
    assert "idle_ratio" in metrics
    assert not {"ttft_s", "tpot_s"} & metrics  # the GPU's trace has no markers
