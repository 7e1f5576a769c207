"""Captures a plan, one experiment after the other; skips experiments captured before."""

from __future__ import annotations

import difflib
import fnmatch
import importlib.util
import os
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path

import msgspec

from xlahouse.capture.errors import CaptureError, ManifestError
from xlahouse.capture.manifest import Manifest, decode_manifest, manifest_path
from xlahouse.capture.opening import read_regular
from xlahouse.capture.plan import Experiment, read_plan
from xlahouse.capture.run.job import Note
from xlahouse.capture.run.process import CaptureProcess
from xlahouse.capture.run.warm import WarmProcess

CAPTURE_PACKAGES = ("torch", "torch_xla", "transformers")
PLATFORMS = ("cpu", "tpu")


class CaptureEvent(msgspec.Struct, frozen=True):
    """One line on the progress of an experiment."""

    experiment: str  # its name
    kind: str  # `started`, `progress`, `warning`, `captured`, `skipped` or `failed`
    message: str  # one line; the trace's folder for `captured` and `skipped`


def run_plan(
    plan_path: Path,
    traces_dir: Path,
    experiments: tuple[str, ...] = (),
    device: str = "auto",
    devices: int | None = None,
    fresh: bool = False,
    on_event: Callable[[CaptureEvent], None] = lambda event: None,
    stamp: str | None = None,
) -> list[Path]:
    """Capture the experiments of a plan and return their trace folders, in the plan's order.

    Experiments with the same weights on the same mesh run one after the other, in one process. An
    experiment that was captured before, with the same fields on the same kind of device, is skipped and
    its newest trace returned. After a failure the next experiment still runs.

    Args:
        plan_path: the plan file.
        traces_dir: captures go to <model>/<parallelism>/batch_<b>_seq_<s>/ under it.
        experiments: names to run, `*` matches any letters; (): all.
        device: `cpu` (virtual devices), `tpu`, or `auto`: a TPU if there is one.
        devices: available devices; a mesh may be smaller. None: as many as the mesh needs.
        fresh: also capture experiments that were captured before.
        on_event: called with the progress of each experiment.
        stamp: part of the captures' names, which hosts of one run must share; None: the time now.

    Raises:
        ManifestError: the plan is not valid, or has no such experiment.
        CaptureError: torch_xla is not installed, or experiments failed; one line for each.
    """
    chosen = choose_experiments(plan_path, experiments, devices)
    resolved = resolve_device(device)
    found = {
        each.name: None if fresh else find_capture(each, traces_dir, resolved) for each in chosen
    }
    traces: dict[str, Path] = {}  # by experiment
    cells: Counter[Path] = Counter()  # captures so far: those of one cell need names of their own
    failures = []
    with (
        _warm_process(resolved, list(found.values()).count(None)) as warm,
        CaptureProcess(resolved, warm=warm) as process,
    ):
        for experiment in chain.from_iterable(by_placing(chosen)):

            def tell(kind: str, message: str, name: str = experiment.name) -> None:
                on_event(CaptureEvent(name, kind, message))

            done = found[experiment.name]
            if done is not None:
                tell("skipped", str(done))
                traces[experiment.name] = done
                continue
            tell("started", f"{experiment.model.name} on {experiment.parallelism}")
            notes = _passing_on(tell)
            try:
                own = _own_stamp(stamp, cells[experiment.cell])
                cells[experiment.cell] += 1
                trace = process.run(experiment, traces_dir, notes, own)
                traces[experiment.name] = trace
                tell("captured", str(trace))
            except CaptureError as error:
                tell("failed", str(error))
                failures.append(str(error))
    if failures:
        raise CaptureError("\n".join(failures))
    return [traces[each.name] for each in chosen]


def by_placing(experiments: Iterable[Experiment]) -> list[list[Experiment]]:
    """Experiments with the same weights on the same mesh together, in the order of the first of each.

    Those with fewer tokens in the cache come first: an allocator's peak, which a trace has, is its process'.
    """
    together: dict[bytes, list[Experiment]] = {}
    for each in experiments:
        together.setdefault(each.placing, []).append(each)
    return [
        sorted(same, key=lambda each: each.batch_size * (each.prompt_tokens + each.output_tokens))
        for same in together.values()
    ]


def _own_stamp(stamp: str | None, earlier: int) -> str | None:
    """The stamp of a capture whose folder has `earlier` captures with the same one."""
    return f"{stamp}.{earlier}" if stamp and earlier else stamp


def _warm_process(device: str, captures: int) -> AbstractContextManager[WarmProcess | None]:
    """A process to start several captures from; None where each imports for itself.

    On a TPU minutes of a capture hide seconds of imports, and libtpu need not bear a fork.
    """
    return WarmProcess() if device == "cpu" and captures > 1 else nullcontext()


def _passing_on(tell: Callable[[str, str], None]) -> Callable[[Note], None]:
    return lambda note: tell(note.kind, note.message)


def choose_experiments(
    plan_path: Path, names: tuple[str, ...] = (), devices: int | None = None
) -> list[Experiment]:
    """The plan's experiments with these names (`*` matches any letters), or all.

    Raises:
        ManifestError: the plan is not valid, has no such experiment, or a mesh has more than
            `devices` devices.
    """
    plan = read_plan(plan_path)
    known = [experiment.name for experiment in plan.experiments]
    for name in names:
        if not fnmatch.filter(known, name):
            raise ManifestError(f"{plan_path}: no experiment {name!r}; {_some_of(known, name)}")
    chosen = [
        entry
        for entry in plan.experiments
        if not names or any(fnmatch.fnmatchcase(entry.name, name) for name in names)
    ]
    for experiment in chosen:
        if devices is not None and experiment.device_count > devices:
            raise ManifestError(
                f"{plan_path}: experiment {experiment.name}: its mesh has "
                f"{experiment.device_count} devices, more than {devices}; change one of the two"
            )
    return chosen


def _some_of(known: list[str], name: str) -> str:
    """All names if there are few, else the nearest."""
    if len(known) <= 10:
        return f"it has {', '.join(known)}"
    near = difflib.get_close_matches(name, known, n=5, cutoff=0)
    return f"of its {len(known)} the nearest are {', '.join(near)}"


def resolve_device(device: str) -> str:
    """`cpu` or `tpu`.

    Raises:
        CaptureError: another name, or the packages of the capture extra are not installed.
    """
    if device not in (*PLATFORMS, "auto"):
        raise CaptureError(f"no device {device!r}; choose auto, {' or '.join(PLATFORMS)}")
    missing = [name for name in CAPTURE_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise CaptureError(
            f"capture needs {', '.join(missing)}: pip install 'xlahouse[capture]'"
            " (on a TPU VM: 'xlahouse[capture,tpu]')"
        )
    if device != "auto":
        return device
    asked = os.environ.get("PJRT_DEVICE", "").lower()
    if asked in PLATFORMS:
        return asked
    # TPU chips are /dev/accel<n> up to v4 and /dev/vfio/<n> from v5e on.
    chips = [*Path("/dev").glob("accel[0-9]*"), *Path("/dev/vfio").glob("[0-9]*")]
    return "tpu" if chips and importlib.util.find_spec("libtpu") is not None else "cpu"


def find_capture(experiment: Experiment, traces_dir: Path, device: str) -> Path | None:
    """The newest finished capture with the same fields on the same kind of device."""
    entry = msgspec.json.decode(msgspec.json.encode(experiment))
    for folder in sorted((traces_dir / experiment.cell).glob("trace_*.trace"), reverse=True):
        manifest = read_finished(folder)
        if manifest is None or manifest.plan_entry != entry:
            continue
        if manifest.flags.get("PJRT_DEVICE", "").lower() == device:
            return folder
    return None


def read_finished(folder: Path) -> Manifest | None:
    """The manifest of a capture; None if it is unfinished or unreadable."""
    path = manifest_path(folder)
    planes = list(folder.glob("plugins/profile/*/*.xplane.pb"))
    if not path.exists() or not planes or not all(plane.stat().st_size for plane in planes):
        return None
    try:
        return decode_manifest(read_regular(path), str(path))
    except ManifestError:
        return None
