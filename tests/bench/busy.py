"""The cost of the tables of busy and idle time: the target is under 15 % of an ingest."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any
from unittest.mock import patch

from tests.bench.ingest import TENTH, folder, grown
from tests.bench.registry import Benchmark, register
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.tables import device_tables

MAKERS = ("busy_intervals", "launch_spans", "split_steps", "attributed_times", "busy_stretches")
Given = tuple[Path, list[tuple[Any, tuple[Any, ...]]]]


def _whole(given: Given) -> None:
    """Ingest the trace into a new warehouse, in this process."""
    root = mkdtemp(dir=folder())
    try:
        ingest_paths([str(given[0])], root)
    finally:
        shutil.rmtree(root)


def _busy_alone(given: Given) -> None:
    """Make these tables, and the parts of steps that belong to ops, from the arguments of the ingest."""
    for make, arguments in given[1]:
        make(*arguments)


def _recorded() -> Given | str:
    """(the trace, each call of a maker of these tables with its arguments)."""
    path = grown(TENTH)
    if isinstance(path, str):
        return path
    calls: list[tuple[Any, tuple[Any, ...]]] = []

    def record(make: Any, *arguments: Any) -> Any:
        calls.append((make, arguments))
        return make(*arguments)

    originals = {name: getattr(device_tables, name) for name in MAKERS}
    replaced = {name: partial(record, make) for name, make in originals.items()}
    with patch.multiple(device_tables, **replaced):
        _whole((path, calls))
    return path, calls


register(
    Benchmark(
        name="ingest TPU xplane, 7.5 MB: busy tables of it",
        prepare=_recorded,
        ours=_whole,
        peers={"busy tables alone": _busy_alone},
    )
)
