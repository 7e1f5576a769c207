"""Spreads runs over the executors of a Spark cluster: each is ingested there as on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from xlahouse.capture.limits import VARIABLE
from xlahouse.ingest.events.run_files import RunFiles
from xlahouse.ingest.large_runs import large_runs
from xlahouse.ingest.one_run import IngestResult, Options
from xlahouse.ingest.run import Each, ingest_one
from xlahouse.ingest.spread.spark import Tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = "spark.task.cpus"  # cores of a task, hence of a run: 1 unless the user sets more
# Read by Polars at import; Spark sets OMP_NUM_THREADS for other libraries. Without it every
# task would compute with all cores of its machine, which other tasks use too.
POOL = "POLARS_MAX_THREADS"


def each_on(session: SparkSession) -> Each:
    """An `each` for `ingest_paths` on a SparkSession: one task per run, on its own cores; of a large run, one
    a file, and the driver puts the files together.

    Every executor needs this version of xlahouse, and reaches traces and warehouse by the same path or
    URL, as does the driver. A run is written whole or not at all, so Spark may try a task again.
    """

    def each(
        runs: list[RunFiles], root: str, options: Options, workers: int
    ) -> Iterator[IngestResult | str]:
        context = session.sparkContext
        cores = int(context.getConf().get(CORES, "1"))
        context.environment.setdefault(POOL, str(cores))
        if VARIABLE in os.environ:
            context.environment[VARIABLE] = os.environ[VARIABLE]
        own = replace(options, threads=cores)
        large = large_runs(runs, context.defaultParallelism // cores)
        whole = [run for run in runs if run not in large]
        if whole:
            tasks = context.parallelize(whole, len(whole))
            yield from tasks.map(lambda run: ingest_one(run, root, own)).collect()
        for run in runs:
            if run in large:
                yield ingest_one(run, root, own, Tasks(context))

    return each
