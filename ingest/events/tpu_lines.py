"""Names of the lines of a TPU's plane, or process, in a trace of XLA's profiler."""

from __future__ import annotations

MODULES_LINE = "XLA Modules"
OPS_LINE = "XLA Ops"
ASYNC_OPS_LINE = "Async XLA Ops"
TRACE_ME_LINE = "XLA TraceMe"
STEPS_LINE = "Steps"
COUNTERS_LINE = "_counters_"
# Events of TRACE_ME_LINE that are waiting; its other events are scopes (METRICS, Category of an op).
WAITS = ["barrier-cores", "dependency-wait"]
