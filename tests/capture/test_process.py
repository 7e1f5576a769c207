"""A capture's child process: its notes arrive, its failures are told in one line and leave no trace."""

from __future__ import annotations

import os
import select
import sys

import msgspec
import pytest

from tests.conftest import DEMO_PLAN
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.plan import read_plan
from xlahouse.capture.run.job import Job, Note, partial_dir, without_jax
from xlahouse.capture.run.process import CaptureProcess

EXPERIMENT = read_plan(DEMO_PLAN).experiments[0]
# Each stand-in reads the job as the real child does, then grows a partial capture.
START = """
import json, os, pathlib, signal, sys
job = json.loads(sys.stdin.readline())
trace = pathlib.Path(job["trace_dir"])
growing = trace.with_name("." + trace.name + ".partial")
growing.mkdir()
done = lambda: print('{"kind":"done","message":""}', flush=True)
"""


def run(tmp_path, script, notes=None):
    command = (sys.executable, "-c", START + script)
    listen = (lambda note: None) if notes is None else notes.append
    with CaptureProcess("cpu", command) as process:
        return process.run(EXPERIMENT, tmp_path, listen)


def test_notes_are_passed_on_and_other_output_is_not(tmp_path):
    notes = []
    script = """
print('{"kind":"progress","message":"half"}')
print("a library says hello")
print('{"kind":"warning","message":"odd"}')
growing.rename(trace)
done()
"""
    trace = run(tmp_path, script, notes)
    assert notes == [Note("progress", "half"), Note("warning", "odd")]
    assert trace.parent == tmp_path / "qwen3-demo/tp4/batch_4_seq_64"
    assert list(trace.parent.iterdir()) == [trace]  # neither log nor partial capture


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("""print('{"kind":"error","message":"no trace"}'); sys.exit(1)""", "no trace"),
        ("raise RuntimeError('no chips')", "ended with code 1: RuntimeError: no chips"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "ended by SIGKILL: .*; probably out of memory on"),
        ("sys.exit('XlaRuntimeError: RESOURCE_EXHAUSTED: 32.0G')", "; out of memory on the device"),
        ("print('No space left on device', file=sys.stderr); sys.exit('x')", "the disk is full"),
        (
            """print('{"kind":"error","message":"the profiler found no free port"}'); sys.exit(1)""",
            "is in use",
        ),
        ("sys.exit('The TPU is already in use by process 7')", "another process uses the TPU"),
        ("sys.exit('UNAVAILABLE: Socket closed')", "a host of the slice does not answer"),
        ("sys.exit(7)", "ended with code 7: it printed nothing"),
    ],
)
def test_a_failure_is_one_line_and_leaves_only_a_log(tmp_path, script, message):
    with pytest.raises(CaptureError, match=f"experiment tp4: .*{message}") as caught:
        run(tmp_path, script)
    assert "\n" not in str(caught.value)
    (log,) = (tmp_path / EXPERIMENT.cell).iterdir()
    assert log.suffix == ".log"
    assert str(log) in str(caught.value)


def test_a_child_that_hangs_where_it_should_not_is_ended(tmp_path):
    script = """
print('{"kind":"progress","message":"stopping the profiler","limit_s":0.01}', flush=True)
signal.pause()
"""
    with pytest.raises(CaptureError, match=r"stopping the profiler: no result in 0.01 s"):
        run(tmp_path, script)


def test_a_limit_ends_with_the_next_note(tmp_path):
    script = """
print('{"kind":"progress","message":"stopping","limit_s":1e6}', flush=True)
print('{"kind":"progress","message":"stopped"}', flush=True)
growing.rename(trace)
done()
"""
    notes = []
    assert run(tmp_path, script, notes).is_dir()
    assert [note.limit_s for note in notes] == [1e6, None]


def test_an_interrupt_ends_the_child_and_clears_up(tmp_path):
    def interrupt(note):
        raise KeyboardInterrupt

    script = """
print('{"kind":"progress","message":"half"}', flush=True)
signal.pause()
"""
    with pytest.raises(KeyboardInterrupt):
        CaptureProcess("cpu", (sys.executable, "-c", START + script)).run(
            EXPERIMENT, tmp_path, interrupt
        )
    assert {path.suffix for path in (tmp_path / EXPERIMENT.cell).iterdir()} == {".log"}


def test_a_traces_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CaptureError, match="Not a directory"):
        run(tmp_path / "file", "")


# Does what the names of its experiments say, one after the other.
MANY = """
import os, signal
from pathlib import Path
from xlahouse.capture.run.job import partial_dir, receive, say
for job in receive():
    growing = partial_dir(Path(job.trace_dir))
    growing.mkdir()
    say("progress", str(os.getpid()))
    print("a library warns", file=sys.stderr, flush=True)
    if job.experiment.name == "crashes":
        os.kill(os.getpid(), signal.SIGKILL)
    if job.experiment.name == "hangs":
        say("progress", "stopping", 0.01)
        signal.pause()
    if job.experiment.name == "raises":
        say("error", "tokens differ")
        sys.exit(1)
    growing.rename(job.trace_dir)
    if job.experiment.name == "leaves":
        say("done", "")
        os._exit(0)
"""


@pytest.fixture
def run_named(tmp_path):
    """Run an experiment of some name and other fields; the number of its process."""
    with CaptureProcess("cpu", (sys.executable, "-c", "import sys" + MANY)) as process:

        def run(name, **fields):
            notes = []
            experiment = msgspec.structs.replace(EXPERIMENT, name=name, **fields)
            trace = process.run(experiment, tmp_path, notes.append)
            assert trace.is_dir()
            assert not trace.with_suffix(".log").exists()
            return int(notes[0].message)

        yield run


def test_experiments_with_the_same_weights_on_the_same_mesh_share_a_process(run_named):
    first = run_named("one")
    assert run_named("two", batch_size=8, prompt_tokens=32, repeat=1, requests=3) == first
    other = run_named("three", mesh={"dp": 4})
    assert other != first
    assert run_named("four", mesh={"dp": 4}, seed=1) != other  # other weights


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("crashes", "ended by SIGKILL: a library warns"),
        ("hangs", "stopping: no result in 0.01 s"),
        ("raises", "tokens differ"),
    ],
)
def test_a_failure_costs_its_experiment_and_not_those_before_and_after_it(run_named, name, message):
    first = run_named("one")
    with pytest.raises(CaptureError, match=f"experiment {name}: .*{message}.*; its log is .*log"):
        run_named(name)
    next_one = run_named("two")
    assert next_one != first
    assert run_named("three") == next_one


def test_a_process_that_ended_between_experiments_is_replaced(run_named):
    left = os.pidfd_open(run_named("leaves"))
    assert select.select([left], [], [], 60)[0]  # it is gone when the next job is written
    os.close(left)
    with pytest.raises(CaptureError, match="experiment two: its process ended with code 0"):
        run_named("two")
    run_named("two")


def test_the_process_ends_with_its_block(tmp_path):
    notes = []
    with CaptureProcess("cpu", (sys.executable, "-c", "import sys" + MANY)) as process:
        process.run(EXPERIMENT, tmp_path, notes.append)
        os.kill(int(notes[0].message), 0)
    with pytest.raises(ProcessLookupError):
        os.kill(int(notes[0].message), 0)


def test_a_job_survives_the_pipe(tmp_path):
    job = Job(experiment=EXPERIMENT, trace_dir="x", log="y", device="cpu")
    assert msgspec.json.decode(msgspec.json.encode(job), type=Job) == job


def test_a_partial_capture_is_not_named_as_captures_are(tmp_path):
    growing = partial_dir(tmp_path / "trace_1.trace")
    growing.mkdir()
    assert list(tmp_path.glob("trace_*.trace")) == []


def test_a_capture_does_not_import_jax(monkeypatch):
    """torch_xla's scopes would trace with jax, which the compile extra installs."""
    monkeypatch.setitem(sys.modules, "jax", None)
    monkeypatch.delitem(sys.modules, "jax")
    without_jax()
    with pytest.raises(ImportError):
        import jax  # noqa: F401
