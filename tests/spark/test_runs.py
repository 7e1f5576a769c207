"""Views over whole runs, synthetic and real: Spark gives the very rows that DuckDB gives."""

from __future__ import annotations

import pytest

from tests.ingest.traces import write as write_file
from tests.layers import sampled
from tests.referee.draw import draw
from tests.referee.writing import write
from tests.samples import sample
from tests.spark.engines import Answers, differences
from tests.synth.cases import CASES
from tests.synth.server import draw_server
from tests.synth.write import write_run
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql import Warehouse
from xlahouse.sql.library import shipped
from xlahouse.sql.settings import set_limits, set_peaks

pytestmark = [pytest.mark.verify(together=True), pytest.mark.xdist_group("spark_runs")]
VIEWS = sorted(shipped().views)
TRIED = 20  # views that a commit tries on each warehouse, with the views below them
# One run of each way to shard, with what else is special about it.
SYNTHETIC = ("dp_tp", "sp_fused", "pp_tp_stacked", "ep_tp", "fsdp_exposed", "unmarked")
# Seeds of runs of two hosts, by what their files tell of the clocks, and of servers of one and two engines.
HOSTS = {"known": 53, "unmarked": 57, "ambiguous": 28, "unconnected": 16}
SERVERS = {"one": 7, "two": 72}
LIMITS = "ttft=35e-6,tpot=20e-6"
SHARED = "shared_link_bytes_per_s=1e9"  # below what these runs send, so that demands collide
LATENCIES = (
    "latency_v3",
    "serving_step_v1",
    "serving_summary_v1",
    "step_latency_v1",
    "straggler_v2",
    "traffic_compatibility_v1",
)
SAMPLES = ("tpu/v6e_4dev_jax_psum_offload.xplane.pb", "cpu/torch_xla_mlp_4dev.xplane.pb")


@pytest.fixture(scope="module")
def synthetic(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("synthetic")
    for name in SYNTHETIC:
        write_run(CASES[name], folder / "traces" / name)
    traces = [str(folder / "traces" / name) for name in SYNTHETIC]
    assert len(ingest_paths(traces, str(folder / "warehouse"))) == len(SYNTHETIC)
    with Warehouse(folder / "warehouse") as warehouse:
        yield Answers(spark, warehouse)


@pytest.fixture(scope="module")
def hosts_and_servers(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hosts")
    for name, seed in HOSTS.items():
        write(draw(seed), folder / "traces" / name)
    for name, seed in SERVERS.items():
        for engine in draw_server(seed):
            path = (
                folder
                / "traces"
                / name
                / "plugins"
                / "profile"
                / "s"
                / f"p{engine.number}.xplane.pb"
            )
            write_file(path, engine.written())
    traces = [str(folder / "traces" / name) for name in (*HOSTS, *SERVERS)]
    runs = ingest_paths(traces, str(folder / "warehouse"))
    assert len(runs) == len(traces)
    with Warehouse(folder / "warehouse") as warehouse:
        for run in warehouse.query(
            "select distinct run_id from phases where source = 'server'"
        ).rows:
            set_limits(warehouse, *run, LIMITS)
        for run in warehouse.query("select run_id from clocks where state = 'aligned'").rows:
            set_peaks(warehouse, *run, SHARED)
    with Warehouse(folder / "warehouse") as warehouse:
        yield Answers(spark, warehouse)


@pytest.fixture(scope="module")
def samples(spark, tmp_path_factory):
    traces = [str(sample(name)) for name in SAMPLES]
    root = str(tmp_path_factory.mktemp("samples") / "warehouse")
    ingest_paths(traces, root)
    with Warehouse(root) as warehouse:
        yield Answers(spark, warehouse)


@pytest.mark.parametrize("view", sampled(VIEWS, TRIED, "synthetic runs on Spark"))
def test_synthetic_runs(view, synthetic):
    assert differences(synthetic.duckdb(view), synthetic.spark(view)) == []


@pytest.mark.parametrize("view", sampled(VIEWS, TRIED, "samples on Spark"))
def test_sample_traces(view, samples):
    assert differences(samples.duckdb(view), samples.spark(view)) == []


@pytest.mark.parametrize("view", LATENCIES)
def test_hosts_and_servers(view, hosts_and_servers):
    ours = hosts_and_servers.duckdb(view)
    assert ours.num_rows > 1
    assert differences(ours, hosts_and_servers.spark(view)) == []


def test_hosts_and_servers_have_scores_and_latencies(hosts_and_servers):
    """Of numbers that are NULL on both engines, equality would prove little."""
    known = {
        "latency_v3": ("ttft_s", "tpot_s", "e2e_s"),
        "serving_step_v1": ("period_ps",),
        "serving_summary_v1": ("p50_ttft_s", "p50_tpot_s", "good_ratio", "wall_s"),
        "step_latency_v1": ("latency_s",),
        "straggler_v2": ("last_ratio", "mean_lag_ps"),
        "traffic_compatibility_v1": ("in_phase_score", "best_score", "shift_ratio"),
    }
    for view, columns in known.items():
        rows = hosts_and_servers.duckdb(view)
        for column in columns:
            assert rows[column].null_count < rows.num_rows, (view, column)


@pytest.mark.parametrize("view", ["device_time_v1", "traffic_matrix_v1"])
def test_runs_are_not_empty(view, synthetic):
    """Equal and empty would prove little."""
    assert len(set(synthetic.duckdb(view)["run_id"].to_pylist())) == len(SYNTHETIC)
