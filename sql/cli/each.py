"""Does something to one run after the other, and says how far it came where a disk is full."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from xlahouse.capture.errors import WarehouseError


def do_each(runs: Mapping[str, str], done: str, do: Callable[[str], None]) -> None:
    """Call `do` with each run_id.

    Args:
        runs: run_id -> how the user knows the run.
        done: what has been done to a run then, such as `dropped`.
        do: raises OSError where it left its run as it was.

    Raises:
        WarehouseError: a file could not be written; states which runs are done and which are not.
    """
    left = dict(runs)
    for run_id in runs:
        try:
            do(run_id)
        except OSError as error:
            before = ", ".join(name for other, name in runs.items() if other not in left)
            raise WarehouseError(
                f"{runs[run_id]}: {error.strerror or error}; {done}: {before or 'no run'}; "
                f"not {done}: {', '.join(left.values())}; free some space and do these again"
            ) from error
        del left[run_id]


def keep_index(root: str) -> int | None:
    """Write the index of runs where it is out of date; None, after a line, where it cannot be written."""
    from xlahouse.ingest.store.run_index import write_index

    try:
        return write_index(root, always=True)
    except OSError as error:
        print(
            f"xlahouse: the index of runs is not written again: {error.strerror or error}; queries "
            "work without it, and `xlahouse compact` writes it",
            file=sys.stderr,
        )
        return None
