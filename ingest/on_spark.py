"""Spreads runs over the executors of a Spark cluster: each is ingested there as it would be here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xlahouse.ingest.discover import RunFiles
from xlahouse.ingest.one_run import IngestResult, Options
from xlahouse.ingest.run import Each, ingest_one


def each_on(session: Any) -> Each:
    """How `ingest_paths` gets through its runs on a SparkSession: one task a run.

    Every executor needs this version of xlahouse, and reaches traces and warehouse by the same path or
    URL. A run is written whole or not at all there as here, so Spark may try a task again.
    """

    def each(
        runs: list[RunFiles], root: str, options: Options, workers: int
    ) -> Iterator[IngestResult | str]:
        tasks = session.sparkContext.parallelize(runs, max(len(runs), 1))
        yield from tasks.map(lambda run: ingest_one(run, root, options)).collect()

    return each
