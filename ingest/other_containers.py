"""Recognizes traces of other profilers, which are not read here, by their names, to report them."""

from __future__ import annotations

from xlahouse.capture.errors import XlahouseError

# Containers that other profilers write, by the ends of their names; then those that others write too.
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


def other_container(path: str, perhaps: bool = False) -> str | None:
    """What a file is by its name, where that is a trace that is not read here; else None.

    perhaps: name also kinds of file that may be anything.
    """
    kinds = _OTHERS | _PERHAPS if perhaps else _OTHERS
    return next((what for ends, what in kinds.items() if path.endswith(ends)), None)


def not_read(path: str, what: str) -> str:
    """The line that says so of a file, and what to do."""
    return (
        f"{path}: {what}, which is not read; export an xplane or a Chrome trace (JSON) from the "
        "profiler that wrote it"
    )


def refuse_others(files: list[str]) -> None:
    """Name the first trace of a kind that is not read, where nothing else was found."""
    for file in files:
        what = other_container(file, perhaps=True)
        if what is not None:
            raise XlahouseError(not_read(file, what))
