"""A capture's child process: its notes arrive, its failures are told in one line and leave no trace."""

from __future__ import annotations

import sys

import msgspec
import pytest

from tests.conftest import DEMO_PLAN
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.plan import read_plan
from xlahouse.capture.run.job import Job, Note, partial_dir, without_jax
from xlahouse.capture.run.process import run_experiment

EXPERIMENT = read_plan(DEMO_PLAN).experiments[0]
# Each stand-in reads the job as the real child does, then grows a partial capture.
START = """
import json, os, pathlib, signal, sys
job = json.loads(sys.stdin.readline())
trace = pathlib.Path(job["trace_dir"])
growing = trace.with_name("." + trace.name + ".partial")
growing.mkdir()
"""


def run(tmp_path, script, notes=None):
    command = (sys.executable, "-c", START + script)
    listen = (lambda note: None) if notes is None else notes.append
    return run_experiment(EXPERIMENT, tmp_path, "cpu", listen, command)


def test_notes_are_passed_on_and_other_output_is_not(tmp_path):
    notes = []
    script = """
print('{"kind":"progress","message":"half"}')
print("a library says hello")
print('{"kind":"warning","message":"odd"}')
growing.rename(trace)
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
        run_experiment(
            EXPERIMENT, tmp_path, "cpu", interrupt, (sys.executable, "-c", START + script)
        )
    assert {path.suffix for path in (tmp_path / EXPERIMENT.cell).iterdir()} == {".log"}


def test_a_traces_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CaptureError, match="Not a directory"):
        run(tmp_path / "file", "")


def test_a_job_survives_the_pipe(tmp_path):
    job = Job(experiment=EXPERIMENT, trace_dir="x", device="cpu")
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
