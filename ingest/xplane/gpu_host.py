"""Finds the execution that launched a GPU kernel: on the host, by correlation id and thread."""

from __future__ import annotations

import numpy as np
import polars as pl

from xlahouse.ingest.events.gpu_calls import EXECUTION, HostCalls, calls_of
from xlahouse.ingest.xplane.chosen_events import ChosenEvents, Found
from xlahouse.ingest.xplane.event_chunks import chunks, kinds_where
from xlahouse.ingest.xplane.xspace import Plane


def host_calls(plane: Plane) -> HostCalls:
    """The calls on a host plane that launched something on a GPU."""
    if "correlation_id" not in plane.stat_names["name"]:
        return HostCalls()
    made = ChosenEvents(plane, {"correlation_id": pl.Int64, "module": pl.String})
    ran = ChosenEvents(plane, {})
    is_execution = kinds_where(plane, pl.col("name").str.contains(EXECUTION))
    for chunk in chunks(plane):
        correlated = chunk.integers("correlation_id")
        chosen = np.zeros(len(chunk.core.line), bool)
        chosen[correlated[0]] = True
        found: dict[str, Found] = {
            "correlation_id": correlated,
            "module": chunk.texts("hlo_module"),
        }
        made.add(chunk, chosen & chunk.in_time, found)
        ran.add(chunk, chunk.of_kinds(is_execution), {})
    of_program = pl.when(pl.col("module").is_not_null()).then(True)
    calls = made.frame().select(
        "event", "thread", "start_ps", "correlation_id", call="name", of_program=of_program
    )
    return calls_of(calls.sort("start_ps"), ran.frame())
