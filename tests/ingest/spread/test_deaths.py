"""A worker that dies costs the file that it was reading, which is tried once more, alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.ingest.spread.written import strays, written
from tests.ingest.traces import rows, tpu_trace, write
from xlahouse.ingest.run import ingest_paths

# Processes that are spawned import the script too, so that what it replaces is replaced in workers.
SCRIPT = """
import json, os, signal, sys
from functools import partial
from xlahouse.ingest import large_runs, read_files
from xlahouse.ingest.run import IngestError, each_in_workers, ingest_paths
from xlahouse.ingest.tables import run_tables

root, traces = sys.argv[1:]
read, finish = read_files.read_trace, run_tables.finish_planes
large_runs.LARGE_BYTES = 1

def die(path):
    if not os.path.exists(path + ".died"):
        if "once" in os.path.basename(path):
            open(path + ".died", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)

def read_or_die(raw, path, *rest):
    if os.path.basename(path).startswith("dies"):
        die(path)
    return read(raw, path, *rest)

def finish_and_die(*given):
    found = finish(*given)
    die(root + ".once")  # its files are there, and no process knows of them
    return found

read_files.read_trace, run_tables.finish_planes = read_or_die, finish_and_die
if __name__ == "__main__":
    said = []
    each = partial(each_in_workers, on_event=said.append)
    try:
        ingest_paths([traces], root, workers=2, on_event=said.append, each=each)
    except IngestError as error:
        names = [result.name for result in error.results]
        print(json.dumps({"problems": error.problems, "names": names, "said": said}))
"""
DIED = "the worker process that read it died"
KILLED = "(killed, as when memory runs out)"


@pytest.mark.verify  # ten processes start, one after the other
def test_a_worker_that_dies_costs_a_file_and_twice_its_run(tmp_path):
    traces = tmp_path / "traces"
    session = "plugins/profile/now"
    kept = [
        write(traces / "kept" / session / f"{name}.xplane.pb", tpu_trace(number))
        for number, name in enumerate(["a", "dies_once"])
    ]
    lost = [
        write(traces / "lost" / session / f"{name}.xplane.pb", tpu_trace(number + 2))
        for number, name in enumerate(["a", "dies"])
    ]
    script, root = write(tmp_path / "script.py", SCRIPT.encode()), tmp_path / "wh"
    command = [sys.executable, script, str(root), str(traces)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
    told = json.loads(ran.stdout)
    assert len(told["names"]) == 1
    assert told["problems"] == [
        f"{lost[1]}: {DIED} twice {KILLED}, the second time alone; nothing of this run is in the warehouse"
    ]
    assert [line for line in told["said"] if DIED in line] == [
        f"{name}: {DIED} {KILLED}; it is tried once more, alone, after all others"
        for name in (kept[1], ", ".join(kept), lost[1])
    ]
    assert sorted(rows(root, "ops")["device_id"]) == [0, 1]
    assert strays(root) == []
    assert list((root / "leases").iterdir()) == []
    ingest_paths([str(traces / "kept")], str(tmp_path / "here"))
    assert written(root).keys() == written(tmp_path / "here").keys()
    assert written(root)["ops"] == written(tmp_path / "here")["ops"]
