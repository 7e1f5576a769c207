"""Kills a verb at its nth write to a warehouse, by SIGKILL, again and again from one start of Python.

A process that has imported all forks a child for each kill; the child counts what it makes, renames and
removes in the warehouse, and dies before the one that it is told.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

RUNNER = """
import json, os, signal, sys, threading, time
import duckdb, s3fs
from xlahouse.ingest import one_run
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.store import packs, parquet_sink, run_writer
from xlahouse.ingest.store.compact import compact_run
from xlahouse.ingest.store.drop import drop_run
from xlahouse.ingest.store.run_index import write_index
from xlahouse.ingest.store.store import Store
from xlahouse.ingest.chrome import read as _read

MAKING = os.O_WRONLY | os.O_RDWR | os.O_CREAT

def again(trace, root):
    one_run.INGEST_VERSION += 1000
    ingest_paths([trace], root)

def pack(run, root):
    packs.LEAST_NEW = 1
    packs.pack_runs(Store(root))

VERBS = {
    "ingest": lambda trace, root: ingest_paths([trace], root),
    "ingest again": again,
    "compact": lambda run, root: compact_run(Store(root), run),
    "drop": lambda run, root: drop_run(Store(root), run),
    "drop at once": lambda run, root: drop_run(Store(root), run, at_once=True),
    "clear": lambda run, root: Store(root).clear_leftovers(),
    "drop packed": lambda run, root: drop_run(Store(root), run, at_once=True),
    "pack": pack,
    "pack again": pack,
    "index": lambda run, root: write_index(root, always=True),
}

def child(verb, given, root, at, ahead, after, told):
    now, count = time.time, 0
    time.time = lambda: now() + ahead

    def step():
        nonlocal count
        count += 1
        if count == at:
            die()

    def watch(event, args):
        if event in ("os.rename", "os.remove", "os.mkdir") and str(args[0]).startswith(root):
            step()
        if event == "open" and str(args[0]).startswith(root) and args[2] & MAKING:
            step()

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    if after:
        threading.Timer(after, die).start()
    if "://" in root:
        call = s3fs.S3FileSystem._call_s3
        async def counted(self, method, *given, **named):
            if not method.startswith(("list", "head", "get")):
                step()
            return await call(self, method, *given, **named)
        s3fs.S3FileSystem._call_s3 = counted
    else:
        sys.addaudithook(watch)
        opened, written = run_writer.open_sink, run_writer.open_writer
        def open_sink(*given):
            step()
            return opened(*given)
        def open_writer(*given, **named):
            step()  # the file is there, and empty
            return written(*given, **named)
        for module in (parquet_sink, run_writer):  # packs takes them from the first
            module.open_sink, module.open_writer = open_sink, open_writer
    VERBS[verb](given, root)
    os.write(told, str(count).encode())
    os._exit(0)

for line in sys.stdin:
    here, there = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(here)
        try:
            child(*json.loads(line), there)
        finally:
            os._exit(1)
    os.close(there)
    with os.fdopen(here) as file:
        count = file.read()
    _, status = os.waitpid(pid, 0)
    print(json.dumps([os.waitstatus_to_exitcode(status), int(count or 0)]), flush=True)
"""


@dataclass(frozen=True)
class Killer:
    """Runs verbs, and kills them."""

    process: subprocess.Popen[str]

    def run(
        self, verb: str, given: str, root: str, at: int = 0, ahead: int = 0, after: float = 0
    ) -> tuple[int, int]:
        """(exit code, or minus the signal; writes of a verb that came to its end).

        Args:
            verb: one of VERBS.
            given: the trace, or the run's id.
            root: the warehouse.
            at: number of the write before which it is killed, from 1; 0: it is not killed.
            ahead: seconds by which the clock of its machine is ahead.
            after: seconds after which it is killed, wherever it is; 0: it is not.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([verb, given, root, at, ahead, after]) + "\n")
        self.process.stdin.flush()
        code, writes = json.loads(self.process.stdout.readline())
        return code, writes


@contextmanager
def killer() -> Iterator[Killer]:
    """A process that kills as it is told; it is gone at the end."""
    path = (os.environ.get("PYTHONPATH"), str(Path(__file__).parents[3]))
    with subprocess.Popen(
        [sys.executable, "-c", RUNNER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))},
    ) as process:
        try:
            yield Killer(process)
        finally:
            process.kill()
