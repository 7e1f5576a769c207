"""Views over whole runs, synthetic and real: Spark gives the very rows that DuckDB gives."""

from __future__ import annotations

import pytest

from tests.layers import sampled
from tests.samples import sample
from tests.spark.engines import Answers, differences
from tests.synth.cases import CASES
from tests.synth.write import write_run
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql import Warehouse
from xlahouse.sql.library import shipped

pytestmark = [pytest.mark.verify(together=True), pytest.mark.xdist_group("spark_runs")]
VIEWS = sorted(shipped().views)
TRIED = 20  # views that a commit tries on each warehouse, with the views below them
# One run of each way to shard, with what else is special about it.
SYNTHETIC = ("dp_tp", "sp_fused", "pp_tp_stacked", "ep_tp", "fsdp_exposed", "unmarked")
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


@pytest.mark.parametrize("view", ["device_time_v1", "traffic_matrix_v1"])
def test_runs_are_not_empty(view, synthetic):
    """Equal and empty would prove little."""
    assert len(set(synthetic.duckdb(view)["run_id"].to_pylist())) == len(SYNTHETIC)
