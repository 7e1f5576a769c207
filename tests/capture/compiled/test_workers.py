"""Cells compiled some at a time: their order, and the end of their children."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.capture.compiled.test_compile import cell
from xlahouse.capture.compile import plan as plans
from xlahouse.capture.compile.cell import Compiling
from xlahouse.capture.compile.child import Children
from xlahouse.capture.compile.plan import Alike, _compile_cells
from xlahouse.capture.compile.program import Compiler
from xlahouse.capture.compile.target import target_of
from xlahouse.capture.errors import CaptureError

SLEEPER = (sys.executable, "-c", "import time; time.sleep(60)")


def alike(*names):
    """A cell of each name; what compiles them is faked."""
    return [Alike(cell(name=name), target_of(cell()), (name,)) for name in names]


def compiling(folder):
    """Without a compiler."""
    return Compiling(Compiler("python", {}), folder, Children())


def test_outcomes_are_in_the_plans_order(tmp_path, monkeypatch):
    """The first cell ends last, and the second fails: two were at work at once."""
    later = threading.Event()

    def compiled(experiment, *_):
        if experiment.name == "first":
            assert later.wait(60)
        elif experiment.name == "second":
            raise CaptureError("refused")
        else:
            later.set()
        return tmp_path / experiment.name

    monkeypatch.setattr(plans, "_compiled", compiled)
    events = []
    cells = alike("first", "second", "third")
    outcomes = _compile_cells(cells, compiling(tmp_path), events.append, True, 2)
    assert outcomes == [tmp_path / "first", "experiment second: refused", tmp_path / "third"]
    assert {event.experiment: event.place for event in events} == {
        "first": 1,
        "second": 2,
        "third": 3,
    }
    assert all(event.ended for event in events)
    assert {event.message for event in events if event.experiment == "second"} == {
        "failed: refused (2 of 3)"
    }


def test_one_worker_compiles_one_cell_at_a_time(tmp_path, monkeypatch):
    """Each starts after the one before it ended."""
    steps = []

    def compiled(experiment, *_):
        steps.append(f"{experiment.name} starts")
        time.sleep(0.01)
        steps.append(f"{experiment.name} ends")
        return tmp_path

    monkeypatch.setattr(plans, "_compiled", compiled)
    _compile_cells(alike("a", "b"), compiling(tmp_path), lambda event: None, True, 1)
    assert steps == ["a starts", "a ends", "b starts", "b ends"]


def test_an_interrupt_ends_the_children(tmp_path, monkeypatch):
    """A child of the other worker is killed, none starts after it, and no line follows."""
    started = []
    events = []

    def compiled(experiment, target, work, *_):
        started.append(experiment.name)
        if experiment.name == "interrupted":
            while not work.children._running:
                time.sleep(0.01)
            raise KeyboardInterrupt
        work.children.run(SLEEPER, b"", tmp_path / "log", {})

    monkeypatch.setattr(plans, "_compiled", compiled)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        _compile_cells(
            alike("interrupted", "long", "waits"), compiling(tmp_path), events.append, True, 2
        )
    assert time.monotonic() - begin < 30
    assert "long" in started
    assert events == []


# Writes its number and the place for temporary files, then waits for ever, as a compiler that hangs.
CHILD = """
import os, signal, sys, tempfile
from xlahouse.capture.compile.compiler import end_with_parent
end_with_parent()
with open(sys.argv[1], "w") as fifo:
    fifo.write(f"{os.getpid()} {tempfile.gettempdir()}")
signal.pause()
"""
PARENT = """
import sys
from pathlib import Path
from tests.capture.compiled.test_workers import CHILD
from xlahouse.capture.compile.child import Children
folder = Path(sys.argv[1])
Children().run((sys.executable, "-c", CHILD, str(folder / "fifo")), b"", folder / "log", {})
"""


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
def test_a_child_ends_with_a_parent_that_is_killed(tmp_path, by):
    os.mkfifo(tmp_path / "fifo")
    with subprocess.Popen((sys.executable, "-c", PARENT, str(tmp_path))) as parent:
        number, place = (tmp_path / "fifo").read_text().split()
        child = os.pidfd_open(int(number))
        assert "xlahouse-" in place  # which the next process removes
        parent.send_signal(by)
        ended, _, _ = select.select([child], [], [], 60)
        os.close(child)
    assert ended


CTRL_C = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
import polars
from pathlib import Path
from tests.capture.compiled import test_workers as made
from xlahouse.capture.compile import plan as plans

folder = Path(sys.argv[1])

def compiled(experiment, target, work, *_):
    (folder / "begun").touch()
    work.children.run(made.SLEEPER, b"", folder / "log", {})

plans._compiled = compiled
made._compile_cells(made.alike("a"), made.compiling(folder), print, True, 2)
"""


def test_ctrl_c_ends_a_process_that_has_polars(tmp_path):
    """Its handler of the signal restarts system calls, so that a wait without end would go on."""
    process = subprocess.Popen(
        (sys.executable, "-c", CTRL_C, str(tmp_path)), stderr=subprocess.PIPE
    )
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    try:
        _, said = process.communicate(timeout=40)
    finally:
        process.kill()
    assert said.rstrip().endswith(b"KeyboardInterrupt"), said


def test_no_child_starts_after_the_end(tmp_path):
    """A worker between two programs stops there; one within a program loses it."""
    children = Children()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(children.run, SLEEPER, b"", tmp_path / "log", {})
        while not children._running:
            time.sleep(0.01)
        children.end()
        with pytest.raises(CaptureError):
            running.result(30)
    with pytest.raises(CaptureError, match="interrupted"):
        children.run((sys.executable, "-c", ""), b"", tmp_path / "log", {})
