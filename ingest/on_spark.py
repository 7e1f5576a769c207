"""Spreads runs over the executors of a Spark cluster: each is ingested there as on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from xlahouse.capture.limits import VARIABLE
from xlahouse.ingest.events.run_files import RunFiles
from xlahouse.ingest.one_run import IngestResult, Options
from xlahouse.ingest.run import Each, ingest_one

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORES = "spark.task.cpus"  # cores of a task, hence of a run: 1 unless the user sets more
# Read by Polars at import; Spark sets OMP_NUM_THREADS for other libraries. Without it every
# task would compute with all cores of its machine, which other tasks use too.
POOL = "POLARS_MAX_THREADS"


def each_on(session: SparkSession) -> Each:
    """An `each` for `ingest_paths` on a SparkSession: one task a run, on its own cores.

    Every executor needs this version of xlahouse, and reaches traces and warehouse by the same path or
    URL. A run is written whole or not at all, so Spark may try a task again.
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
        tasks = context.parallelize(runs, max(len(runs), 1))
        yield from tasks.map(lambda run: ingest_one(run, root, own)).collect()

    return each
