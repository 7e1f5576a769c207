"""Captures that are forked from one process: as isolated as those that start on their own."""

from __future__ import annotations

import os
import signal
import sys

import msgspec
import pytest

from tests.conftest import DEMO_PLAN
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.plan import read_plan
from xlahouse.capture.run import warm
from xlahouse.capture.run.process import CaptureProcess

EXPERIMENT = read_plan(DEMO_PLAN).experiments[0]
# Stands in for the process that imports torch: its children do what the experiment's name says.
STAND_IN = """
import json, os, pathlib, signal, socket, sys
from xlahouse.capture.run import experiment, warm

def main():
    job = json.loads(sys.stdin.readline())
    trace = pathlib.Path(job["trace_dir"])
    print(json.dumps({"kind": "progress", "message": f"{os.getpid()} {os.getppid()}"}), flush=True)
    what = job["experiment"]["name"]
    if what == "crashes":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "raises":
        raise RuntimeError("no chips")
    if what == "hangs":
        print('{"kind":"progress","message":"stopping","limit_s":0.01}', flush=True)
        signal.pause()
    if what == "orphans":
        os.kill(os.getppid(), signal.SIGKILL)
        return 0
    trace.mkdir()
    print('{"kind":"done","message":""}', flush=True)
    return 0

experiment.main = main
warm.serve(socket.socket(fileno=int(sys.argv[1])))
"""


@pytest.fixture
def process(monkeypatch):
    monkeypatch.setattr(warm, "COMMAND", (sys.executable, "-c", STAND_IN))
    with warm.WarmProcess() as process:
        yield process


@pytest.fixture
def run(process, tmp_path):
    """Run an experiment of some name; (child, its parent) as it says."""

    def run_named(name):
        notes = []
        experiment = msgspec.structs.replace(EXPERIMENT, name=name)
        with CaptureProcess("cpu", warm=process) as child:
            trace = child.run(experiment, tmp_path, notes.append)
        assert trace.is_dir()
        return tuple(map(int, notes[0].message.split()))

    return run_named


def test_each_experiment_has_a_child_of_one_process(run):
    (first, parent), (second, same) = run("one"), run("two")
    assert first != second
    assert parent == same != os.getpid()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("crashes", "ended by SIGKILL"),
        ("raises", "ended with code 1: RuntimeError: no chips"),
        ("hangs", r"stopping: no result in 0.01 s"),
    ],
)
def test_a_child_that_fails_does_not_fail_the_next(run, name, message):
    _, parent = run("one")
    with pytest.raises(CaptureError, match=f"experiment {name}: .*{message}"):
        run(name)
    assert run("two")[1] == parent


def test_a_process_that_was_ended_is_started_again(run):
    with pytest.raises(
        CaptureError, match=r"experiment orphans: .*has ended; run the command again"
    ):
        run("orphans")
    run("two")


def test_the_process_ends_with_its_block(process, run):
    _, parent = run("one")
    process.__exit__(None, None, None)
    with pytest.raises(ProcessLookupError):
        os.kill(parent, signal.SIG_DFL)
