"""Several processes ingest, query, drop and compact one warehouse at once, some killed: it stays whole."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.ingest.traces import tpu_trace, write
from tests.leases import run_out
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.store.store import Store
from xlahouse.sql.warehouse import Warehouse

TRACES = 4
OPERATIONS = 30
KILLS = 6

# Says each operation before it begins, and what a reader found.
WRITER = """
import json, random, sys
from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.store.compact import compact_run
from xlahouse.ingest.store.drop import drop_run
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.store.run_index import write_index
from xlahouse.ingest.store.store import Store

root, seed, count, *traces = sys.argv[1:]
draw, store = random.Random(int(seed)), Store(root)
for _ in range(int(count)):
    verb = draw.choice(["ingest", "ingest", "compact", "drop", "index"])
    print(verb, flush=True)
    runs = store.run_ids()
    if verb == "ingest":
        ingest_paths(draw.sample(traces, 2), root)
    elif verb == "index":
        write_index(root, always=True)
    elif runs and verb == "drop":
        drop_run(store, draw.choice(runs))
    elif runs:
        try:
            compact_run(store, draw.choice(runs))
        except WarehouseError as error:
            if "no such run" not in str(error) and "while it was compacted" not in str(error):
                raise
print("done", flush=True)
"""
READER = """
import json, sys
from xlahouse.sql.warehouse import Warehouse
root, count = sys.argv[1:]
said = []
for _ in range(int(count)):
    with Warehouse(root, said.append) as warehouse:
        runs = warehouse.query("select run_id from runs").rows
        ops = warehouse.query("select run_id, count(*) from ops group by run_id").rows
        axes = warehouse.query("select count(*) from traffic_volume").rows
    assert sorted(ops) == sorted((run, 1) for (run,) in runs), (runs, ops)
    assert axes == [(len(runs),)], (runs, axes)
print(json.dumps(said))
"""


@contextmanager
def running(code: str, *words: object) -> Iterator[subprocess.Popen[str]]:
    """A process that goes on beside; it is gone at the end, however that comes."""
    path = (os.environ.get("PYTHONPATH"), str(Path(__file__).parents[1]))
    with subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def kill_some(root: str, traces: list[Path]) -> None:
    """A writer is killed in the midst of what it does, again and again."""
    draw = random.Random(3)
    for kill in range(KILLS):
        with running(WRITER, root, 10 + kill, OPERATIONS, *traces) as victim:
            assert victim.stdout is not None
            for _ in range(draw.randint(1, 8)):
                victim.stdout.readline()
            victim.kill()
            victim.communicate()
            assert victim.returncode == -signal.SIGKILL


@pytest.mark.verify
def test_a_warehouse_stays_whole_under_everything_at_once(tmp_path: Path) -> None:
    """Two writers and a reader go on, while a third writer is killed again and again."""
    traces = [write(tmp_path / f"{n}.xplane.pb", tpu_trace(n)) for n in range(TRACES)]
    root = str(tmp_path / "wh")
    ingest_paths(traces, root)
    with ExitStack() as others:
        writers = [
            others.enter_context(running(WRITER, root, seed, OPERATIONS, *traces))
            for seed in (1, 2)
        ]
        reader = others.enter_context(running(READER, root, OPERATIONS))
        kill_some(root, traces)
        for writer in writers:
            assert finish(writer).splitlines()[-1] == "done"
        assert json.loads(finish(reader)) == []  # no run ever looked damaged

    run_out(root)
    ingest_paths(traces, root)  # clears what the killed ones left
    store = Store(root)
    rows = [store.run_row(run_id) for run_id in store.run_ids()]
    assert len(rows) == TRACES
    assert all(row is not None and store.is_whole(row) for row in rows)
    listed = {file["path"] for row in rows if row for file in row["files"]}
    there = {str(path.relative_to(root)) for path in Path(root).glob("tables/*/run_id=*/*.parquet")}
    assert there == listed
    assert store.leases() == {}
    with Warehouse(root) as warehouse:
        counted = warehouse.query("select run_id, count(*) from ops group by run_id").rows
    assert sorted(counted) == sorted((row["run_id"], 1) for row in rows if row)
