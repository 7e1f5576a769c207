"""Names of the lines of a TPU's plane, or process, in a trace of XLA's profiler."""

from __future__ import annotations

import polars as pl

from xlahouse.ingest.events.codes_of_names import UNKNOWN_LINE, WAIT_UNKNOWN
from xlahouse.ingest.events.issues import Issue, issues_found

MEGASCALE_PLANE = "/device:CUSTOM:Megascale Trace"  # what a host sends between slices: no device
MODULES_LINE = "XLA Modules"
OPS_LINE = "XLA Ops"
ASYNC_OPS_LINE = "Async XLA Ops"
TRACE_ME_LINE = "XLA TraceMe"
STEPS_LINE = "Steps"
COUNTERS_LINE = "_counters_"
# Lines that are kept in host_events: derived from others, or of no use to any table.
OTHER_LINES = (
    "Tensor Core",
    "TC Overlay",
    "Overlay",
    "Framework Ops",
    "Framework Name Scope",
    "TensorFlow Ops",
    "TensorFlow Name Scope",
    "Source code",
    "Launch Stats",
    "Host Offload Ops",
)
_DERIVED = r" - from #\d+$"  # added to the name of a line by what derives lines from it
# Events of TRACE_ME_LINE that are waiting; its other events are scopes (METRICS, Category of an op).
WAITS = ["barrier-cores", "dependency-wait"]
_KNOWN = (
    MODULES_LINE,
    OPS_LINE,
    ASYNC_OPS_LINE,
    TRACE_ME_LINE,
    STEPS_LINE,
    COUNTERS_LINE,
    *OTHER_LINES,
)
_MOST_NAMES = 3  # that a finding lists


def unknown_names(plane: str, kept: pl.DataFrame, source: str) -> list[Issue]:
    """Findings about events of a TPU that no reader knows by the name of their line, or on the line of waits
    by their own.

    Args:
        plane: the TPU's plane or process.
        kept: thread and name of its events that go to host_events.
        source: the file.
    """
    found = set(kept["thread"].unique())
    if TRACE_ME_LINE not in found and found <= {*_KNOWN}:
        return []
    line = pl.col("thread").fill_null("")
    lines = kept.filter(~line.str.replace(_DERIVED, "").is_in(_KNOWN))
    scopes = kept.filter(line == TRACE_ME_LINE)
    return issues_found(
        source,
        (
            UNKNOWN_LINE,
            lines.height,
            f"{plane}: {UNKNOWN_LINE.meaning}: {_listed(lines['thread'])}",
        ),
        (
            WAIT_UNKNOWN,
            scopes.height,
            f"{plane}: {WAIT_UNKNOWN.meaning}: {_listed(scopes['name'])}",
        ),
    )


def _listed(names: pl.Series) -> str:
    """The first different names."""
    found = names.drop_nulls().unique(maintain_order=True).to_list()
    return ", ".join(found[:_MOST_NAMES]) + ", …" * (len(found) > _MOST_NAMES)
