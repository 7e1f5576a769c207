"""Recognizes traces of other profilers, which are not read here, by their names, to report them."""

from __future__ import annotations

import shlex

from xlahouse.capture.errors import XlahouseError

# File types that only other profilers write, by the end of the name; then ambiguous types.
_OTHERS = {
    (".riegeli",): "a Riegeli file",
    (".perfetto-trace", ".pftrace"): "a Perfetto trace",
    (".nsys-rep", ".qdrep"): "an Nsight Systems report",
    (".ncu-rep",): "an Nsight Compute report",
}
_PERHAPS = {
    (".sqlite", ".sqlite3", ".db"): "an SQLite database, as Nsight Systems and rocprof export",
    (".tfrecord",): "a TFRecord file",
}

_HLO = (".hlo_proto.pb", ".hlo.pb", ".hlo", ".hlo.txt", "after_optimizations.txt")


def other_container(path: str, perhaps: bool = False) -> str | None:
    """The type of a trace that is not read here, by its name; None for any other file.

    perhaps: include ambiguous types.
    """
    kinds = _OTHERS | _PERHAPS if perhaps else _OTHERS
    return next((what for ends, what in kinds.items() if path.endswith(ends)), None)


def not_read(path: str, what: str) -> str:
    """The error for such a file, and what to do."""
    return (
        f"{path}: {what}, which is not read; export an xplane or a Chrome trace (JSON) from the "
        "profiler that wrote it"
    )


def refuse_others(files: list[str]) -> None:
    """Raise the error for the first trace that is not read, where no other trace was found."""
    for file in files:
        if file.endswith(_HLO):
            folder = file.rpartition("/")[0] or "."
            raise XlahouseError(
                f"{file}: a compiled program, not a trace; ingest the trace that it belongs to, with "
                f"--hlo-dump {shlex.quote(folder)}"
            )
        what = other_container(file, perhaps=True)
        if what is not None:
            raise XlahouseError(not_read(file, what))
