"""Runs a plan on a TPU VM, and fetches the traces of each experiment when it is finished."""

from __future__ import annotations

import shlex
import shutil
import tarfile
import tempfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.plan import Experiment
from xlahouse.capture.run.process import PROGRAMS, new_stamp
from xlahouse.capture.run.runner import by_placing, choose_experiments, find_capture
from xlahouse.capture.slices import parse_slice
from xlahouse.capture.tpu.gcloud import GONE, Gcloud
from xlahouse.capture.tpu.vm import Announce, Pause, as_it_was, create, delete, state_of, workers_of

SENT = ".sent"  # in the folder of programs on a host
HOME = ".xlahouse"  # under the VM's home folder: venv/, plan.yaml, traces/
_PYTHON = f"$HOME/{HOME}/venv/bin/python"
# TPU VMs come with Python 3.10, so uv installs a newer one. torch comes for CPUs: that for GPUs brings
# gigabytes of libraries that no TPU VM uses.
_INSTALL = f"""set -eu
mkdir -p "$HOME/{HOME}/traces/{PROGRAMS}"
touch "$HOME/{HOME}/traces/{PROGRAMS}/{SENT}"
test -x "{_PYTHON}" || {{
  python3 -m pip install --quiet --user uv
  python3 -m uv --quiet venv --python 3.12 "$HOME/{HOME}/venv"
}}
python3 -m uv --quiet pip install --torch-backend=cpu --python "{_PYTHON}" """
# Programs that were compiled since the last look; the file SENT has its time.
_NEW_PROGRAMS = f"""cd {HOME}/traces
find {PROGRAMS} -type f -newer {PROGRAMS}/{SENT} -print0 | tar --null -czf - -T -
touch {PROGRAMS}/{SENT}"""


@dataclass(frozen=True)
class Errand:
    """A plan to run on a TPU VM."""

    name: str  # of the TPU VM
    plan: Path  # the plan file
    experiments: tuple[str, ...]  # names or patterns; (): all
    traces: Path  # folder on this machine for captures
    install: str  # requirement for pip on the VM, or a wheel on this machine
    recreate: int = 0  # how often a preempted spot VM is created again


def run(gcloud: Gcloud, errand: Errand, say: Announce, pause: Pause) -> list[Path]:
    """Capture a plan on a TPU VM; each experiment's traces are fetched to errand.traces.

    Experiments with captures there are skipped. A spot TPU VM that is preempted is created again up
    to errand.recreate times, and the run continues.

    Raises:
        ManifestError: the plan is not valid.
        CaptureError: the TPU VM is missing or was preempted, or experiments failed.
    """
    chosen = choose_experiments(errand.plan, errand.experiments)
    left = errand.recreate
    while True:
        try:
            return _run_all(gcloud, errand, chosen, say)
        except CaptureError as error:
            if gcloud.dry or state_of(gcloud, errand.name) not in GONE:
                raise
            todo = len(
                [each for each in chosen if find_capture(each, errand.traces, "tpu") is None]
            )
            text = f"{errand.name} was preempted with {todo} of {len(chosen)} experiments to go"
            if not left:
                raise CaptureError(
                    f"{text}; finished ones are in {errand.traces}: run the same command with "
                    "--recreate 5, or delete and create the VM, then run again"
                ) from error
        left -= 1
        say(f"{text}; creating it again")
        wanted = as_it_was(gcloud, errand.name)
        delete(gcloud, errand.name)
        create(gcloud, wanted, None, True, 1.0, say, pause)


def _run_all(
    gcloud: Gcloud, errand: Errand, chosen: Sequence[Experiment], say: Announce
) -> list[Path]:
    found = {each.name: find_capture(each, errand.traces, "tpu") for each in chosen}
    for name, folder in found.items():
        if folder is not None:
            say(f"{name}: skipped: {folder}")
    todo = [each for each in chosen if found[each.name] is None]
    if todo and not gcloud.dry:
        _require_active(gcloud, errand.name)
    if todo:
        _prepare(gcloud, errand, todo, say)
    failures = []
    for group in by_placing(todo):
        say(f"{', '.join(each.name for each in group)}: started on {errand.name}")
        errors = _capture(gcloud, errand, group, say)
        if errors and not gcloud.dry and state_of(gcloud, errand.name) in GONE:
            raise CaptureError(next(iter(errors.values())))
        for each in group:
            if each.name in errors:
                say(f"{each.name}: failed: {errors[each.name]}")
                failures.append(f"experiment {each.name}: {errors[each.name]}")
            elif not gcloud.dry:
                found[each.name] = find_capture(each, errand.traces, "tpu")
                say(f"{each.name}: captured: {found[each.name]}")
    if failures:
        raise CaptureError("\n".join(failures))
    return [folder for folder in found.values() if folder is not None]


def _require_active(gcloud: Gcloud, name: str) -> None:
    state = state_of(gcloud, name)
    if state in GONE:
        raise CaptureError(f"{name} is {state}: it was preempted")
    if state != "ACTIVE":
        raise CaptureError(f"{name} is {state}; wait until it is ACTIVE, then run again")


def _prepare(gcloud: Gcloud, errand: Errand, todo: Sequence[Experiment], say: Announce) -> None:
    """Install xlahouse and copy the plan to every host, with the files of arrivals beside it."""
    say(f"{errand.name}: installing xlahouse")
    on_all = ("tpu-vm", "ssh", errand.name, "--worker=all")
    gcloud.run(*on_all, f"--command=mkdir -p {HOME}/traces")
    local = Path(errand.install)
    loads = {each.serving.file for each in todo if each.serving is not None and each.serving.file}
    files = [str(errand.plan), *(str(errand.plan.with_name(name)) for name in sorted(loads))]
    files += [str(local)] if local.is_file() else []
    gcloud.run("tpu-vm", "scp", *files, f"{errand.name}:{HOME}/", "--worker=all")
    programs = errand.traces / PROGRAMS
    if programs.is_dir():
        place = f"{errand.name}:{HOME}/traces/"
        gcloud.run("tpu-vm", "scp", "--recurse", str(programs), place, "--worker=all")
    wanted = f'"$HOME/{HOME}/{local.name}[capture,tpu]"' if local.is_file() else None
    gcloud.run(*on_all, f"--command={_INSTALL}{wanted or shlex.quote(errand.install)}")


def _capture(
    gcloud: Gcloud, errand: Errand, group: Sequence[Experiment], say: Announce
) -> dict[str, str]:
    """Capture experiments in one process on each host, under one timestamp, and fetch each when it is there.

    Returns:
        Why experiments have no complete trace here, by name; {}: all have one.
    """
    names = " ".join(f"--experiment {shlex.quote(each.name)}" for each in group)
    script = (
        f"cd {HOME} && PJRT_DEVICE=TPU venv/bin/xlahouse capture {shlex.quote(errand.plan.name)}"
        f" {names} --traces traces --device tpu --stamp {new_stamp()}"
        " --fresh"  # all hosts must run: a host that skips blocks the rest
    )
    hosts = parse_slice(group[0].slice).hosts if group[0].slice else 1
    errors = {each.name: "" for each in group}  # of those that are not here
    captured: Counter[str] = Counter()  # hosts that have captured an experiment, by its name

    def bring(experiment: Experiment) -> None:
        try:
            _bring(gcloud, errand, experiment, hosts)
            del errors[experiment.name]
        except CaptureError as error:
            errors[experiment.name] = str(error)

    def hear(line: str) -> None:
        say(f"  {line}")
        for each in group:
            if line.startswith(f"{each.name}: captured: "):
                captured[each.name] += 1
                if captured[each.name] == hosts:
                    bring(each)

    problem = ""
    try:
        words = ("tpu-vm", "ssh", errand.name, "--worker=all", f"--command={script}")
        gcloud.follow(hear, *words)
    except CaptureError as error:
        problem = str(error)
    for each in group:
        if each.name in errors and (captured[each.name] or not problem):
            bring(each)
    return {name: error or problem for name, error in errors.items()}


def _bring(gcloud: Gcloud, errand: Errand, experiment: Experiment, hosts: int) -> None:
    """Fetch an experiment's traces, and what was compiled for them.

    Raises:
        CaptureError: gcloud failed, or a host has no trace.
    """
    fetch(gcloud, errand.name, errand.traces, experiment.cell, hosts)
    _fetch_programs(gcloud, errand)
    if not gcloud.dry and find_capture(experiment, errand.traces, "tpu") is None:
        raise CaptureError(f"it ran, but {errand.traces / experiment.cell} has no complete trace")


def _fetch_programs(gcloud: Gcloud, errand: Errand) -> None:
    """Fetch what the experiment compiled, for a VM that is created again: hosts compile the same."""
    words = ("tpu-vm", "ssh", errand.name, "--worker=0", f"--command={_NEW_PROGRAMS}")
    errand.traces.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=errand.traces) as draft:
        _unpack(gcloud, words, Path(draft))
        if not gcloud.dry:
            _move(Path(draft), errand.traces)


def fetch(
    gcloud: Gcloud, name: str, traces: Path, cell: Path = Path(), hosts: int = 1
) -> list[Path]:
    """Fetch finished traces from every host; hosts of one capture share one folder.

    Args:
        gcloud: runs the commands.
        name: the TPU VM.
        traces: folder for captures, with the same subfolders as on the VM.
        cell: fetch only this subfolder of the traces.
        hosts: in a dry run, which cannot ask for their number.

    Returns:
        The fetched manifests: one a capture.

    Raises:
        CaptureError: gcloud failed, or an archive is incomplete; finished files are kept.
    """
    where = shlex.quote(f"{HOME}/traces")
    what = shlex.quote(cell.as_posix())
    programs = "" if cell.parts else f" --exclude=./{PROGRAMS}"
    script = f"tar -C {where} --exclude='.*.partial' --exclude='*.log'{programs} -czf - {what}"
    traces.mkdir(parents=True, exist_ok=True)
    fetched: set[Path] = set()
    for worker in range(hosts if gcloud.dry else workers_of(gcloud, name)):
        words = ("tpu-vm", "ssh", name, f"--worker={worker}", f"--command={script}")
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=traces) as draft:
            _unpack(gcloud, words, Path(draft))
            fetched.update(_move(Path(draft), traces))
    return sorted(fetched)


def _unpack(gcloud: Gcloud, words: tuple[str, ...], draft: Path) -> None:
    """Run a command that prints a gzipped tar archive, and unpack it."""
    with tempfile.TemporaryFile(dir=draft.parent) as packed:
        gcloud.save(packed, *words)
        if gcloud.dry:
            return
        packed.seek(0)
        try:
            with tarfile.open(fileobj=packed, mode="r:gz") as archive:
                archive.extractall(draft, filter="data")
        except (tarfile.TarError, EOFError, zlib.error) as error:
            raise CaptureError(
                f"the archive of traces from gcloud is incomplete ({error}); fetch again"
            ) from error


def _move(draft: Path, traces: Path) -> list[Path]:
    """Move fetched files to their place, manifests last: a manifest marks a complete capture."""
    files = sorted(path for path in draft.rglob("*") if path.is_file())
    manifests = [path for path in files if path.name.startswith("metadata_")]
    for path in [*(path for path in files if path not in set(manifests)), *manifests]:
        place = traces / path.relative_to(draft)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not (path.name.startswith("metadata_") and place.exists()):
            shutil.move(path, place)
    return [traces / path.relative_to(draft) for path in manifests]
