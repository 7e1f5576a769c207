"""Compiles the experiments of a plan, some at a time; each that fails costs only itself."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from xlahouse.capture.compile.cell import (
    Compiling,
    cell_key,
    compile_cell,
    needed_bytes,
    no_space,
    refused_before,
    write_refused,
)
from xlahouse.capture.compile.child import DEFAULT_LIMITS, ChildLimits, Children
from xlahouse.capture.compile.program import Compiler
from xlahouse.capture.compile.refusal import DoesNotFitError
from xlahouse.capture.compile.search import advice_on
from xlahouse.capture.compile.target import Target, target_of
from xlahouse.capture.compiled_facts import PROGRAMS, RefusedRun
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.plan import Experiment
from xlahouse.capture.run.runner import CAPTURE_PACKAGES, choose_experiments
from xlahouse.capture.scratch import scratch_folder

WAKE_S = 0.2  # between looks for an interrupt
FAILED = "failed: "  # begins the last line of an experiment that was not compiled


@dataclass(frozen=True)
class CompileEvent:
    """One line on the progress of an experiment."""

    experiment: str  # its name
    message: str  # one line
    place: int  # of the experiment among those that are compiled, from 1, in the plan's order
    ended: bool = False  # compiled or failed; no other line follows
    folder: Path | None = None  # of what was compiled, at its end


@dataclass(frozen=True)
class Alike:
    """Experiments whose programs are the same; the first stands for all."""

    first: Experiment  # the experiment that is compiled
    target: Target  # chips to compile for
    names: tuple[str, ...]  # of all

    @property
    def shared_by(self) -> str:
        """A note on the experiments that share the programs; empty for one."""
        others = len(self.names) - 1
        return (
            f"; {others} more experiment{'s' * (others > 1)} have the same programs"
            if others
            else ""
        )


def compile_plan(
    plan: Path,
    traces: Path,
    names: Sequence[str] = (),
    slice_name: str | None = None,
    python: str | None = None,
    limits: ChildLimits = DEFAULT_LIMITS,
    on_event: Callable[[CompileEvent], None] = lambda event: None,
    programs: tuple[str, ...] = PROGRAMS,
    search: bool = True,
    workers: int = 1,
) -> list[Path]:
    """Compile the experiments of a plan and return their folders, in the plan's order.

    Args:
        plan: the plan file.
        traces: a folder goes to <model>/<parallelism>/batch_<b>_seq_<s>/compiled_<timestamp> under it.
        names: experiments, `*` matches any letters; (): all.
        slice_name: chips to compile for, such as v6e-8; None: those that the plan names.
        python: a Python with jax and libtpu; None: this one.
        limits: of every child process.
        on_event: called with the progress of each experiment, by one thread at a time.
        programs: of each experiment.
        search: of an experiment that needs too much memory, find the largest batch that compiles, else
            the smallest mesh.
        workers: experiments compiled at once, each in child processes of its own.

    Raises:
        ManifestError: the plan is not valid, or has no such experiment.
        CaptureError: a package is missing, or experiments failed; one line for each.
    """
    missing = [name for name in CAPTURE_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise CaptureError(
            f"compile traces with {', '.join(missing)}: pip install 'xlahouse[capture,compile]'"
        )
    chosen = choose_experiments(plan, tuple(names))
    targets = [target_of(experiment, slice_name) for experiment in chosen]
    with tempfile.TemporaryDirectory(dir=scratch_folder()) as scratch:
        compiler = Compiler.of(python, Path(scratch))
    compiling = Compiling(compiler, traces, Children(limits), programs)
    cells = group(chosen, targets, compiler)
    outcomes = _compile_cells(cells, compiling, on_event, search, workers)
    failures = [outcome for outcome in outcomes if isinstance(outcome, str)]
    if failures:
        raise CaptureError("\n".join(failures))
    return [outcome for outcome in outcomes if isinstance(outcome, Path)]


def _compile_cells(
    cells: Sequence[Alike],
    compiling: Compiling,
    on_event: Callable[[CompileEvent], None],
    search: bool,
    workers: int,
) -> list[Path | str]:
    """The folder of each cell, or why it failed, in the order of `cells`."""
    lock = Lock()  # one event at a time
    children = compiling.children

    def compile_one(place: int, alike: Alike) -> Path | str:
        name = alike.first.name

        def say(message: str, folder: Path | None = None) -> None:
            ended = folder is not None or message.startswith(FAILED)
            line = f"{message} ({place} of {len(cells)})"
            with lock:
                if not children.ended:
                    on_event(CompileEvent(name, line, place, ended, folder))

        try:
            folder = _compiled(alike.first, alike.target, compiling, say, search)
            say(f"compiled{alike.shared_by}", folder)
            return folder
        except CaptureError as error:
            say(f"{FAILED}{error}")
            return f"experiment {name}: {error}"

    with ThreadPoolExecutor(workers) as pool:
        futures = [pool.submit(compile_one, place, alike) for place, alike in enumerate(cells, 1)]
        try:
            waiting = set(futures)
            while (
                waiting
            ):  # a wait without end misses interrupts: the handler of polars restarts it
                ended, waiting = wait(waiting, WAKE_S, FIRST_EXCEPTION)
                for future in ended:
                    future.result()
            return [future.result() for future in futures]
        except BaseException:  # an interrupt too: no child outlives it
            pool.shutdown(wait=False, cancel_futures=True)
            children.end()
            raise


def _compiled(
    experiment: Experiment,
    target: Target,
    compiling: Compiling,
    say: Callable[[str], None],
    search: bool,
) -> Path:
    """The folder of one experiment's programs; what the compiler refuses is searched for once."""
    versions, programs = compiling.compiler.versions, compiling.programs
    key = cell_key(experiment, target, versions, programs)
    cell = compiling.traces / experiment.cell
    known = refused_before(cell, key)
    if known is not None:
        raise CaptureError(known.reason)
    try:
        return compile_cell(experiment, target, compiling, say)
    except DoesNotFitError as error:
        if not search:
            raise
        say(f"{error}; searching for a batch or mesh that compiles")
        refused = error.program  # first: the likeliest to be refused again
        ordered = tuple(sorted(programs, key=lambda name: name != refused))
        in_order = replace(compiling, programs=ordered)

        def compile_all(variant: Experiment) -> float:
            say(f"trying batch_size {variant.batch_size} on {variant.parallelism}")
            return needed_bytes(variant, target_of(variant), in_order)

        try:
            reason = f"{error}; {advice_on(experiment, target, error.refusal, compile_all)}"
            found = RefusedRun(key=key, compiler=versions, programs=programs, reason=reason)
            write_refused(cell, found)
        except OSError as full:
            raise CaptureError(f"{error}; {no_space(full)}") from full
        raise CaptureError(reason) from error


def group(
    chosen: Sequence[Experiment], targets: Sequence[Target], compiler: Compiler
) -> list[Alike]:
    """Experiments with the same programs together, in the plan's order."""
    found: dict[str, list[tuple[Experiment, Target]]] = {}
    for experiment, target in zip(chosen, targets, strict=True):
        found.setdefault(cell_key(experiment, target, compiler.versions), []).append(
            (experiment, target)
        )
    return [
        Alike(same[0][0], same[0][1], tuple(experiment.name for experiment, _ in same))
        for same in found.values()
    ]
