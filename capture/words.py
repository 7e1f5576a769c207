"""Words of messages that more than one room writes."""

from __future__ import annotations

# Part of a step that is not an op -> its name.
NO_OPS = {
    "circuits": "waits for circuits",
    "idle": "idle in the step",
    "between": "between steps",
    "outside": "ops of no step",
}
# Modules of launches that are steps of many kernels, as PyTorch's profiler and engines mark them on the
# host; as SQL has a list.
HOST_STEPS = "('ProfilerStep', 'execute')"


def plural(count: int, noun: str) -> str:
    """`1 run`, `2 runs`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
