"""The site of runs of a million ops each, as `xlahouse report` writes it, and again with nothing changed."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench.ingest import child, folder
from tests.bench.large import RUN
from tests.bench.registry import Benchmark, Cost, register
from tests.bench.views import warehouse_of

OPS = 1_000_000


@cache
def warehouse(runs: int) -> Path:
    """A warehouse of that many runs; their files are hard links to those of one run."""
    one, root = warehouse_of(OPS), Path(mkdtemp(dir=folder()))
    shutil.copy(one / "warehouse.json", root)
    (root / "tables" / "runs").mkdir(parents=True)
    known = pq.read_table(one / "tables" / "runs" / f"{RUN}.parquet")
    for number in range(runs):
        (row,), name = known.to_pylist(), f"{RUN}{number}"
        files = []
        for file in row["files"]:
            path = file["path"].replace(f"run_id={RUN}", f"run_id={name}")
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            os.link(one / file["path"], root / path)
            files.append({**file, "path": path})
        row |= {"run_id": name, "name": name, "files": files}
        path = root / "tables" / "runs" / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist([row], known.schema), path)
    return root


def report(root: object, output: Path | None = None) -> Cost:
    """`xlahouse report` of all runs, into a new folder unless one is given."""
    made = output or Path(mkdtemp(dir=folder()))
    command = str(Path(sys.executable).with_name("xlahouse"))
    try:
        return child([command, "report", "-w", str(root), "-o", str(made)])
    finally:
        if output is None:
            shutil.rmtree(made)


@cache
def written(runs: int) -> Path:
    """A site of that many runs, written once."""
    made = Path(mkdtemp(dir=folder()))
    report(warehouse(runs), made)
    return made


def again(root: object) -> Cost:
    """The same site over the one that was written: nothing changed."""
    return report(root, written(10))


def prepare() -> Path:
    """The warehouse, after its site was written once."""
    written(10)
    return warehouse(10)


register(Benchmark("site of 10 runs of 1 M ops", prepare, report, {"unchanged": again}, 1))
