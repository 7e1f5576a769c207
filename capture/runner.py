"""Runs a plan's experiments one after the other, each in a process of its own, and says how they went."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec

from xlahouse.capture.errors import CaptureError, ManifestError
from xlahouse.capture.experiment import Job, Note
from xlahouse.capture.manifest import Manifest, decode_manifest, manifest_path
from xlahouse.capture.plan import Experiment, read_plan

NEEDED = ("torch", "torch_xla", "transformers")
DEVICES = ("auto", "cpu", "tpu")
STDERR_TAIL = 20  # lines of a crashed process that its error shows


class CaptureEvent(msgspec.Struct, frozen=True):
    """How an experiment goes: `started`, `progress`, `warning`, `captured`, `skipped` or `failed`.

    `message` is a line of text: for `captured` and `skipped` the trace's folder.
    """

    experiment: str
    kind: str
    message: str


def run_plan(
    plan_path: Path,
    traces_dir: Path,
    experiments: tuple[str, ...] = (),
    device: str = "auto",
    devices: int | None = None,
    fresh: bool = False,
    on_event: Callable[[CaptureEvent], None] = lambda event: None,
) -> list[Path]:
    """Capture the experiments of a plan and return their trace folders, in the plan's order.

    An experiment that was captured before, from the same plan entry on the same kind of device,
    is skipped and its newest trace returned. After one fails the next still runs.

    Args:
        plan_path: the plan file.
        traces_dir: captures go to <model>/<parallelism>/batch_<b>_seq_<s>/ under it.
        experiments: names of those to run; none: all.
        device: `cpu` (virtual devices), `tpu`, or `auto`: a TPU where there is one.
        devices: how many devices the meshes must have; None: as the plan says.
        fresh: capture again what was captured before.
        on_event: told how each experiment goes.

    Raises:
        ManifestError: the plan is not valid, or has no such experiment.
        CaptureError: torch_xla is not installed, or an experiment failed.
    """
    chosen = choose_experiments(plan_path, experiments, devices)
    platform = resolve_device(device)
    traces, failures = [], []
    for experiment in chosen:
        done = None if fresh else find_capture(experiment, traces_dir, platform)
        if done is not None:
            on_event(CaptureEvent(experiment.name, "skipped", str(done)))
            traces.append(done)
            continue
        on_event(CaptureEvent(experiment.name, "started", experiment.parallelism))
        try:
            traces.append(run_experiment(experiment, traces_dir, platform, on_event))
            on_event(CaptureEvent(experiment.name, "captured", str(traces[-1])))
        except CaptureError as error:
            on_event(CaptureEvent(experiment.name, "failed", str(error)))
            failures.append(str(error))
    if failures:
        summary = f"{len(failures)} of {len(chosen)} experiments failed"
        raise CaptureError("\n".join(failures if len(chosen) == 1 else [summary, *failures]))
    return traces


def choose_experiments(
    plan_path: Path, names: tuple[str, ...], devices: int | None
) -> list[Experiment]:
    """The plan's experiments of those names, or all; also what `--dry-run` lists.

    Raises:
        ManifestError: the plan is not valid, has no such experiment, or a mesh does not have
            `devices` devices.
    """
    plan = read_plan(plan_path)
    known = [experiment.name for experiment in plan.experiments]
    for name in names:
        if name not in known:
            raise ManifestError(f"{plan_path}: no experiment {name!r}; it has {', '.join(known)}")
    chosen = [entry for entry in plan.experiments if not names or entry.name in names]
    for experiment in chosen:
        if devices is not None and experiment.device_count != devices:
            raise ManifestError(
                f"{plan_path}: experiment {experiment.name}: its mesh has "
                f"{experiment.device_count} devices, not {devices}; change one of the two"
            )
    return chosen


def resolve_device(device: str) -> str:
    """`cpu` or `tpu`.

    Raises:
        CaptureError: another name, or the packages of the capture extra are not installed.
    """
    if device not in DEVICES:
        raise CaptureError(f"device {device!r}: write {', '.join(DEVICES)}")
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise CaptureError(
            f"capture needs {', '.join(missing)}: pip install 'xlahouse[capture]'"
            " (on a TPU VM also xlahouse[tpu])"
        )
    if device != "auto":
        return device
    asked = os.environ.get("PJRT_DEVICE", "").lower()
    if asked in DEVICES:
        return asked
    # TPU chips appear as /dev/accel* up to v4 and under /dev/vfio from v5 on.
    chips = [*Path("/dev").glob("accel[0-9]*"), *Path("/dev/vfio").glob("[0-9]*")]
    has_libtpu = importlib.util.find_spec("libtpu") is not None
    return "tpu" if chips and has_libtpu else "cpu"


def find_capture(experiment: Experiment, traces_dir: Path, platform: str) -> Path | None:
    """The newest finished capture of the same plan entry on the same kind of device."""
    entry = msgspec.json.decode(msgspec.json.encode(experiment))
    for folder in sorted((traces_dir / experiment.cell).glob("trace_*.trace"), reverse=True):
        manifest = _read_finished(folder)
        if (
            manifest is not None
            and manifest.plan_entry == entry
            and manifest.flags.get("PJRT_DEVICE", "").lower() == platform
        ):
            return folder
    return None


def _read_finished(folder: Path) -> Manifest | None:
    """A capture's manifest; None where the capture is not finished or not readable."""
    path = manifest_path(folder)
    planes = list(folder.glob("plugins/profile/*/*.xplane.pb"))
    if not path.exists() or not planes or not all(plane.stat().st_size for plane in planes):
        return None
    try:
        return decode_manifest(path.read_bytes(), str(path))
    except ManifestError:
        return None


def run_experiment(
    experiment: Experiment,
    traces_dir: Path,
    platform: str,
    on_event: Callable[[CaptureEvent], None],
) -> Path:
    """Capture one experiment in a child process and return its trace folder.

    Raises:
        CaptureError: the child says why, or the end of its stderr does.
    """
    cell = traces_dir / experiment.cell
    try:
        cell.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CaptureError(f"{cell}: cannot be made ({error.strerror})") from error
    trace_dir = cell / f"trace_{datetime.now(UTC):%Y%m%dT%H%M%S.%f}.trace"
    job = Job(experiment=experiment, trace_dir=str(trace_dir.absolute()), device=platform)
    with tempfile.TemporaryFile() as stderr:
        error, code = _run_child(job, stderr, on_event)
        if code:
            # A child that was killed could not clean up after itself.
            shutil.rmtree(cell / f".{trace_dir.name}.partial", ignore_errors=True)
            reason = error or f"exit code {code}; the end of its output:\n{_tail(stderr)}"
            raise CaptureError(f"experiment {experiment.name}: {reason}")
    return trace_dir


def _run_child(
    job: Job, stderr: IO[bytes], on_event: Callable[[CaptureEvent], None]
) -> tuple[str | None, int]:
    """Run the job, passing its notes on; returns the error it named, if any, and its exit code."""
    error = None
    child = subprocess.Popen(
        [sys.executable, "-m", "xlahouse.capture.experiment"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
    )
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(msgspec.json.encode(job))
        child.stdin.close()
        for line in child.stdout:
            note = _decode_note(line)
            if note is None:
                continue
            if note.kind == "error":
                error = note.message
            else:
                on_event(CaptureEvent(job.experiment.name, note.kind, note.message))
        return error, child.wait()
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        child.stdout.close()


def _decode_note(line: bytes) -> Note | None:
    """A line of the child's stdout; None for what libraries print there."""
    try:
        return msgspec.json.decode(line, type=Note)
    except msgspec.DecodeError:
        return None


def _tail(stderr: IO[bytes]) -> str:
    stderr.seek(0)
    lines = stderr.read().decode(errors="replace").splitlines()
    return "\n".join(lines[-STDERR_TAIL:])
