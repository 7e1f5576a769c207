"""A standalone cluster of two workers, started with spark-class: ingest and query run on it, by the verbs."""

from __future__ import annotations

import os

import fsspec
import polars
import pyarrow.parquet as pq
import pytest

from tests.ingest.spread.written import strays, written
from tests.object_store import s3_bucket
from tests.spark.cluster import on_cluster, standalone
from tests.spark.engines import require_spark
from tests.synth.cases import CASES
from tests.synth.describe import Run
from tests.synth.write import write_run
from xlahouse.capture.errors import XlahouseError
from xlahouse.ingest import large_runs, on_spark
from xlahouse.ingest.on_spark import each_on
from xlahouse.ingest.one_run import Options
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.spread.parts import RunPart
from xlahouse.ingest.spread.spark import Tasks
from xlahouse.sql import Warehouse

pytestmark = [pytest.mark.verify(together=True), pytest.mark.xdist_group("spark_cluster")]
RUNS = ("tp4", "dp_tp", "unmarked")


@pytest.fixture(scope="module")
def store():
    """The URL of an empty bucket, which the cluster's workers reach."""
    with s3_bucket() as url:
        yield url


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, store):
    """The master's URL; each worker has one core, so two tasks at once need both."""
    require_spark()
    with standalone(tmp_path_factory.mktemp("cluster"), 2) as master:
        yield master


def xlahouse(master: str, *arguments: str) -> str:
    done = on_cluster(master, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name in RUNS:
        write_run(CASES[name], folder / "traces" / name)
    ingest_paths([str(folder / "traces")], str(folder / "local"))
    return folder


def rows_of(table, warehouse):
    """Rows in one order: what an ingest writes of equal rank has none of its own.

    Commands in findings name the warehouse, which is another one on each side.
    """
    return sorted(repr(row).replace(str(warehouse.root), "WAREHOUSE") for row in table.to_pylist())


def test_executors_write_the_parquet_that_is_written_here(cluster, folder):
    printed = xlahouse(
        cluster, "ingest", str(folder / "traces"), "-w", str(folder / "spread")
    ).split()
    with Warehouse(folder / "local") as here, Warehouse(folder / "spread") as there:
        ids = [run["run_id"] for run in here.runs()]
        assert sorted(printed) == sorted(ids) == sorted(run["run_id"] for run in there.runs())
        tables = {table for run in here.runs() for table in (f["table"] for f in run["files"])}
        assert {"ops", "collectives", "phases"} <= tables
        for table in tables:
            ours, theirs = (
                [pq.ParquetFile(file).read() for file in warehouse.files(table)]
                for warehouse in (here, there)
            )
            assert sorted(t.num_rows for t in ours) == sorted(t.num_rows for t in theirs)
            by_run = {t["run_id"][0].as_py(): t for t in theirs}
            for found in ours:
                other = by_run[found["run_id"][0].as_py()]
                assert found.schema.equals(other.schema), table
                assert rows_of(found, here) == rows_of(other, there), table


def test_a_task_computes_with_its_own_cores_alone(spark):
    list(each_on(spark)([], "w", Options(), 1))
    tasks = spark.sparkContext.parallelize([0, 1], 2)
    assert tasks.map(lambda _: polars.thread_pool_size()).collect() == [1, 1]


def test_a_large_run_is_a_task_a_file_and_the_same_to_the_byte(spark, tmp_path, monkeypatch):
    write_run(Run(mesh=(("ep", 3), ("tp", 2)), hosts=3, layers=1), tmp_path / "traces" / "large")
    write_run(CASES["tp4"], tmp_path / "traces" / "small")
    ingest_paths([str(tmp_path / "traces")], str(tmp_path / "here"))
    asked: list[str] = []

    class Seen(Tasks):
        def each(self, do, shared, parts, in_turn=False):
            asked.extend(part.name for part in parts)
            return super().each(do, shared, parts, in_turn)

    monkeypatch.setattr(on_spark, "Tasks", Seen)
    monkeypatch.setattr(large_runs, "LARGE_BYTES", 1)
    ingest_paths([str(tmp_path / "traces")], str(tmp_path / "spread"), each=each_on(spark))
    # Each file was hashed, read, looked at for its clock, and compared with its hash; then all are written.
    assert len(asked) == 4 * 3 + 1
    assert len(set(asked)) == 3 + 1
    assert written(tmp_path / "spread") == written(tmp_path / "here")
    assert strays(tmp_path / "spread") == []


def given_back(shared, value):
    return shared, value


def dies(shared, value):
    os._exit(1)


def test_a_task_that_dies_names_its_file(spark):
    tasks = Tasks(spark.sparkContext)
    parts = [RunPart(f"file {number}", (number,)) for number in range(5)]
    assert list(tasks.each(given_back, "shared", parts)) == [("shared", n) for n in range(5)]
    with pytest.raises(XlahouseError, match=r"^file 0: the Spark task that read it failed: .*Job"):
        list(tasks.each(dies, None, parts[:1]))


def test_executors_read_from_an_object_store_and_write_to_it(cluster, folder, store):
    fs = fsspec.filesystem("s3")
    fs.put(str(folder / "traces"), f"{store}/traces", recursive=True)
    xlahouse(cluster, "ingest", f"{store}/traces", "-w", f"{store}/warehouse")
    sql = "select run_id, count(*), sum(self_ps) from ops group by all order by all"
    with Warehouse(folder / "local") as here, Warehouse(f"{store}/warehouse") as there:
        assert here.query(sql).rows == there.query(sql).rows
        assert len(there.runs()) == len(RUNS)


def test_a_view_on_the_cluster_gives_what_it_gives_here(cluster, folder):
    sql = (
        "select run_id, phase, axis, kind, sum(wire_bytes) as b from traffic_volume "
        "group by all order by all"
    )
    printed = xlahouse(cluster, "query", sql, "-w", str(folder / "local"), "--format", "csv")
    with Warehouse(folder / "local") as warehouse:
        expected = [
            ["" if value is None else str(value) for value in row]
            for row in warehouse.query(sql).rows
        ]
    assert [line.split(",") for line in printed.splitlines()[1:]] == expected
    assert len(expected) > 3
