"""A run of the demo plan whose child process stands in for a capture: what a test can kill.

`python -m tests.capture.killed_run TRACES STOP` captures the plan. While the file STOP is there, the second
experiment gets no further than the middle: `parent` in it waits there (the test kills the parent), `child` in
it ends itself by SIGKILL. The child opens the FIFO beside STOP, which tells the test when it ended.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import msgspec

from tests.capture.test_manifest import MANIFEST
from tests.conftest import DEMO_PLAN
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.manifest import manifest_path, write_manifest
from xlahouse.capture.run import process, runner
from xlahouse.capture.run.job import Job, partial_dir, receive, say

NAME = "tests.capture.killed_run"


def run(traces: Path, stop: Path) -> int:
    command = (sys.executable, "-m", NAME, "child", str(stop))

    def children(device, warm):
        return process.CaptureProcess(device, command)

    def tell(event):
        print(event.kind, event.experiment, event.message, flush=True)

    runner.CAPTURE_PACKAGES = ()
    runner.CaptureProcess = children
    try:
        runner.run_plan(DEMO_PLAN, traces, device="cpu", on_event=tell)
    except CaptureError:
        return 1
    return 0


def child(stop: Path) -> None:
    for job in receive():
        capture(job, stop)


def capture(job: Job, stop: Path) -> None:
    trace = Path(job.trace_dir)
    session = partial_dir(trace) / "plugins/profile/s"
    session.mkdir(parents=True)
    if stop.exists() and job.experiment.name == "dp2.tp2":
        with stop.with_name("fifo").open("w"):
            if stop.read_text() == "child":
                os.kill(os.getpid(), signal.SIGKILL)
            say("progress", "in the middle")
            signal.pause()
    (session / "h.xplane.pb").write_bytes(b"x")
    partial_dir(trace).rename(trace)
    entry = msgspec.to_builtins(job.experiment)
    manifest = msgspec.structs.replace(MANIFEST, plan_entry=entry, flags={"PJRT_DEVICE": "CPU"})
    write_manifest(manifest, manifest_path(trace))


if __name__ == "__main__":
    if sys.argv[1] == "child":
        child(Path(sys.argv[2]))
    else:
        sys.exit(run(Path(sys.argv[1]), Path(sys.argv[2])))
