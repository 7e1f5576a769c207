"""Compiles the two programs of one experiment, and writes them beside its captures."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from xlahouse.capture.compile.child import Children
from xlahouse.capture.compile.describe import describe
from xlahouse.capture.compile.lower import Lowered, LowerJob
from xlahouse.capture.compile.program import CACHE, Compiler, compile_program
from xlahouse.capture.compile.target import Target, target_of
from xlahouse.capture.compiled_facts import (
    FACTS,
    PROGRAMS,
    REFUSED,
    Compiled,
    CompiledRun,
    RefusedRun,
)
from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.manifest import metadata_path, write_manifest
from xlahouse.capture.plan import Experiment
from xlahouse.capture.run.process import new_stamp
from xlahouse.capture.scratch import scratch_folder

CHILD = (sys.executable, "-m", "xlahouse.capture.compile.lower")
# Fields that change no program.
_SAME = {"name": "x", "seed": 0, "repeat": 0, "requests": 1, "warmup_requests": 0, "compare": False}


@dataclass(frozen=True)
class Compiling:
    """What all experiments of a plan are compiled with."""

    compiler: Compiler  # the Python that has it
    traces: Path  # folder of captures, and of the cache
    children: Children  # that trace and compile, within limits
    programs: tuple[str, ...] = PROGRAMS  # of each experiment


def compile_cell(
    experiment: Experiment, target: Target, compiling: Compiling, say: Callable[[str], None]
) -> Path:
    """Compile an experiment's programs for `target` and return their folder, compiled_<timestamp>.

    Raises:
        CaptureError: the reason, in one line; other cells are not affected.
    """
    versions = compiling.compiler.versions
    key = cell_key(experiment, target, versions, compiling.programs)
    cell = compiling.traces / experiment.cell
    done = find_compiled(cell, key)
    if done is not None:
        say("compiled before")
        return done
    stamp = new_stamp()
    growing, folder = cell / f".compiled_{stamp}.partial", cell / f"compiled_{stamp}"
    log = cell / f"compiled_{stamp}.log"
    growing.mkdir(parents=True)
    try:
        lowered, compiled = _compile_programs(experiment, target, compiling, say, growing, log)
        run = CompiledRun(
            key=key,
            topology=target.topology,
            chip_config=target.chip_config,
            flags=target.flags,
            compiler=versions,
            programs=compiled,
        )
        (growing / FACTS).write_bytes(msgspec.json.format(msgspec.json.encode(run), indent=1))
        write_manifest(describe(experiment, target, lowered, run), metadata_path(folder))
        growing.rename(folder)
    except OSError as error:
        raise CaptureError(no_space(error)) from error
    finally:
        shutil.rmtree(growing, ignore_errors=True)
    return folder


def no_space(error: OSError) -> str:
    """What a file that could not be written asks for."""
    return f"{error}; free some space, or choose another --traces"


def _compile_programs(
    experiment: Experiment,
    target: Target,
    compiling: Compiling,
    say: Callable[[str], None],
    folder: Path,
    log: Path,
) -> tuple[Lowered, dict[str, Compiled]]:
    """Trace and compile the programs into `folder`: the model's sizes, and the compiler's statements.

    Raises:
        DoesNotFitError: the compiler refused a program, since it needs more HBM than a chip has.
        CaptureError: another reason, in one line.
    """
    programs, children = compiling.programs, compiling.children
    cache = compiling.traces / CACHE
    say("tracing")
    job = LowerJob(experiment=experiment, folder=str(folder.absolute()), programs=programs)
    answer = children.run(CHILD, msgspec.json.encode(job), log, {})
    lowered = msgspec.json.decode(answer.splitlines()[-1], type=Lowered)
    compiled = {}
    for name in programs:
        say(f"compiling the {name}")
        program = folder / f"{name}.pb"
        compiled[name] = compile_program(program, log, target, compiling.compiler, cache, children)
        program.unlink()
    return lowered, compiled


def needed_bytes(experiment: Experiment, target: Target, compiling: Compiling) -> int:
    """HBM of the largest of the programs, in bytes of one device; no folder is made of them.

    Raises:
        DoesNotFitError: the compiler refused one, since it needs more HBM than a chip has.
        CaptureError: another reason, in one line.
    """
    with tempfile.TemporaryDirectory(dir=scratch_folder()) as scratch:
        folder = Path(scratch)
        _, compiled = _compile_programs(
            experiment, target, compiling, lambda message: None, folder, folder / "log"
        )
    return max(program.needed_bytes for program in compiled.values())


def cell_key(
    experiment: Experiment,
    target: Target,
    versions: Mapping[str, str],
    programs: tuple[str, ...] = PROGRAMS,
) -> str:
    """Equal for experiments with the same programs, made by the same code.

    Args:
        experiment: the experiment.
        target: its chips.
        versions: of the compiler, package -> version.
        programs: of the experiment.
    """
    alike = msgspec.structs.replace(experiment, **_SAME)
    facts = (target.topology, target.chip_config, target.device_count, target.flags)
    named = sorted(versions.items())
    said = msgspec.json.encode(alike) + repr((facts, named, programs, _code())).encode()
    return hashlib.sha256(said).hexdigest()


@cache
def _code() -> str:
    """Names the version of capture's code that traces and compiles; read once for all cells."""
    root = Path(__file__).parent.parent
    files = sorted([*root.glob("models/*"), *root.glob("compile/*.py")])
    digest = hashlib.sha256()
    for file in files:
        if file.is_file():
            digest.update(file.read_bytes())
    return digest.hexdigest()


def find_compiled(cell: Path, key: str) -> Path | None:
    """The newest folder of `cell` with the programs that `key` names."""
    return next((folder for folder, run in _compiled(cell) if run.key == key), None)


def compiled_before(experiment: Experiment, traces: Path) -> CompiledRun | RefusedRun | None:
    """The newest of an experiment's compiled runs, with any version of the compiler, else its refusal;
    None without either.

    Runs that other code, another plan or other chips gave do not count.
    """
    if not experiment.slice:
        return None
    target = target_of(experiment)
    cell = traces / experiment.cell
    for _, run in _compiled(cell):
        if run.key == cell_key(experiment, target, run.compiler, tuple(run.programs)):
            return run
    for refused in _read_refused(cell, "*"):
        key = cell_key(experiment, target, refused.compiler, refused.programs)
        if refused.key == key:
            return refused
    return None


def refused_before(cell: Path, key: str) -> RefusedRun | None:
    """The refusal of the programs that `key` names; None without one."""
    return next((found for found in _read_refused(cell, key) if found.key == key), None)


def write_refused(cell: Path, refused: RefusedRun) -> None:
    """Keep a refusal.

    Raises:
        OSError: there is no space.
    """
    (cell / REFUSED.format(key=refused.key)).write_bytes(msgspec.json.encode(refused))


def _read_refused(cell: Path, key: str) -> Iterator[RefusedRun]:
    for path in sorted(cell.glob(REFUSED.format(key=key))):
        try:
            yield msgspec.json.decode(path.read_bytes(), type=RefusedRun)
        except (OSError, *JSON_FAULTS):
            continue


def _compiled(cell: Path) -> Iterator[tuple[Path, CompiledRun]]:
    """Folders of what was compiled, the newest first."""
    for folder in sorted(cell.glob("compiled_*"), reverse=True):
        try:
            yield folder, msgspec.json.decode((folder / FACTS).read_bytes(), type=CompiledRun)
        except (OSError, *JSON_FAULTS):
            continue
