"""The verb `ingest`: from paths of traces to runs in a warehouse."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from shlex import quote

from xlahouse.capture.errors import XlahouseError
from xlahouse.capture.manifest import MeshAxis
from xlahouse.capture.words import plural
from xlahouse.ingest.archives import Given, unpacked
from xlahouse.ingest.card import read_given
from xlahouse.ingest.discover import NoTraceError, find_runs
from xlahouse.ingest.events.files import reaching
from xlahouse.ingest.events.run_files import RunFiles
from xlahouse.ingest.large_runs import large_runs
from xlahouse.ingest.one_run import IngestResult, Options, ingest_run
from xlahouse.ingest.run_names import told_apart
from xlahouse.ingest.spread.parts import Spread
from xlahouse.ingest.store.packs import runs_to_pack
from xlahouse.ingest.store.run_index import names_of_runs, write_index
from xlahouse.ingest.store.store import Store

OnEvent = Callable[[str], None]
# Ingests runs into a warehouse with options and workers; the outcome of each, in order except where workers
# died.
Each = Callable[[list[RunFiles], str, Options, int], Iterable[IngestResult | str]]


class IngestError(XlahouseError):
    """Some files were refused; the runs of all other files were ingested.

    Args:
        problems: one line for each refusal.
        results: of the runs that were ingested.
    """

    def __init__(self, problems: list[str], results: list[IngestResult]) -> None:
        super().__init__("\n".join(problems))
        self.problems, self.results = problems, results


def ingest_paths(
    paths: Sequence[str],
    root: str,
    *,
    workers: int = 1,
    mesh: list[MeshAxis] | None = None,
    name: str | None = None,
    device_kind: str | None = None,
    hlo_dump: str | None = None,
    card: str | None = None,
    clocks: Mapping[str, int] | None = None,
    all_in_one_group: bool = False,
    strict: bool = False,
    on_event: OnEvent = lambda message: None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    each: Each | None = None,
) -> list[IngestResult]:
    """Ingest every run found under the paths.

    Args:
        paths: files, folders or fsspec URLs.
        root: the warehouse's folder or URL; made if needed.
        workers: processes, one a run, or all of them for the files of a large run; 1 is this process,
            which a fault in native code or a lack of memory ends. With more than one, such an end costs
            its run alone, and a script that calls this needs Python's `if __name__ == "__main__":` guard.
        mesh: mesh axes, major to minor, written as a setting of each run.
        name: name of the run. Files of several folders without a manifest are then one run.
        device_kind: overrides the kind of device, as a setting.
        hlo_dump: folder with the compiler's dumps of HLO, for programs whose HLO the traces lack.
        card: workload card that fills what the traces lack, in place of cards beside them.
        clocks: offsets of clocks, ps, by name: how much later each is than its reference.
        all_in_one_group: collectives whose group the traces do not state span all ranks.
        strict: a warning or error among the findings is an error.
        on_event: called with a line for each run that is done.
        on_progress: called with (runs done, runs in all).
        each: ingests the runs; None: as `workers` says.

    Raises:
        IngestError: files were refused, or `strict` found something; all other runs are ingested.
        ManifestError: the card cannot be read, or a value in it is wrong; nothing is ingested.
    """
    if card is not None:
        with reaching(card):
            read_given(card)
    options = Options(
        tuple(mesh) if mesh else None,
        name,
        device_kind,
        hlo_dump,
        card,
        tuple((clocks or {}).items()),
        all_in_one_group,
    )
    if each is None:
        each = each_here if workers == 1 else partial(each_in_workers, on_event=on_event)
    results: list[IngestResult] = []
    problems: list[str] = []
    with unpacked(map(str, paths), problems) as given:
        runs = _as_one(_find_all(given, problems), name, problems)
        if runs:
            _clear_leftovers(root, on_event)
            if name is None:
                runs = told_apart(runs, _taken_names(root))
            on_progress(0, len(runs))
        for number, outcome in enumerate(each(runs, root, options, workers), start=1):
            if isinstance(outcome, IngestResult):
                results.append(outcome)
                on_event(_describe(outcome))
            else:
                problems.append(outcome)
            on_progress(number, len(runs))
    if results:
        _write_index(root, on_event)
        _advise_packing(root, on_event)
    if strict:
        problems += [
            f"{result.name}: {_counted(result.issues)}, and --strict was given"
            for result in results
            if result.issues.get("error") or result.issues.get("warning")
        ]
    if problems:
        raise IngestError(problems, results)
    return results


def _clear_leftovers(root: str, on_event: OnEvent) -> None:
    """Remove the files that killed ingests left; a file that cannot be removed does no harm."""
    with reaching(root):
        try:
            Store(root).clear_leftovers()
        except OSError as error:
            on_event(f"{root}: leftovers of an earlier ingest stay: {error.strerror or error}")


def _taken_names(root: str) -> set[str]:
    """Names of the warehouse's runs; where they cannot be read, none."""
    try:
        return names_of_runs(root)
    except OSError:
        return set()


def _write_index(root: str, on_event: OnEvent) -> None:
    """Update the index of runs; where that fails, opening the warehouse is only slower."""
    try:
        write_index(root)
    except OSError as error:
        on_event(f"{root}: the index of runs is not written again: {error.strerror or error}")


def _advise_packing(root: str, on_event: OnEvent) -> None:
    """Say so where many small runs each have files of their own, which every query then opens."""
    try:
        many = runs_to_pack(Store(root))
    except OSError:  # whoever reads that file next gives the reason
        return
    if many:
        on_event(
            f"{plural(many, 'small run')} not packed: `xlahouse compact -w {quote(root)}` makes queries "
            "over all runs several times as fast"
        )


def _find_all(given: list[Given], problems: list[str]) -> list[RunFiles]:
    """Runs under all paths, each once. problems: receives a line for each path that cannot be read."""
    runs: dict[tuple[str, ...], RunFiles] = {}
    without_trace: list[str] = []
    for each in given:
        try:
            with reaching(each.path):
                found = find_runs(each.path)
        except NoTraceError as error:
            (problems if each.alone else without_trace).append(each.own(str(error)))
            continue
        except XlahouseError as error:
            problems.append(each.own(str(error)))
            continue
        own = map(each.shown, found.runs)
        runs |= {run.paths: run for run in own}
        problems += [each.own(problem) for problem in found.problems]
    if not runs and not problems:
        problems += without_trace
    return list(runs.values())


def _as_one(runs: list[RunFiles], name: str | None, problems: list[str]) -> list[RunFiles]:
    """With a name, the files of one call are one run, whatever their folders; captures stay separate."""
    if name is None or len(runs) < 2:
        return runs
    if any(run.manifest_path for run in runs):
        problems.append(
            f"--run {name} names one run, but {len(runs)} were found, and each capture is a run of its "
            "own; ingest them without --run"
        )
        return []
    paths = tuple(path for run in runs for path in run.paths)
    spares = tuple(spare for run in runs for spare in run.spares)
    others = dict(other for run in runs for other in run.others)
    archives = tuple(dict.fromkeys(pair for run in runs for pair in run.unpacked))
    return [RunFiles(name, paths, spares=spares, others=tuple(others.items()), unpacked=archives)]


def each_here(
    runs: list[RunFiles], root: str, options: Options, workers: int
) -> Iterator[IngestResult | str]:
    """Outcomes in the order of the runs, ingested by this process."""
    yield from (ingest_one(run, root, options) for run in runs)


def each_in_workers(
    runs: list[RunFiles],
    root: str,
    options: Options,
    workers: int,
    on_event: OnEvent = lambda message: None,
) -> Iterator[IngestResult | str]:
    """Outcomes of runs that worker processes ingest; of a single run that is not large, by this process."""
    large = large_runs(runs, workers)
    if len(runs) <= 1 and not large:
        return each_here(runs, root, options, workers)
    from xlahouse.ingest.workers import ingest_apart  # a single run does not wait for it to load

    processes = workers if large else min(workers, len(runs))
    return ingest_apart(ingest_one, runs, root, options, processes, on_event, large)


def ingest_one(
    run: RunFiles, root: str, options: Options, spread: Spread | None = None
) -> IngestResult | str:
    """Ingest one run; an error ends this run alone. spread: as ingest_run takes it."""
    try:
        return ingest_run(run, root, options, spread)
    except XlahouseError as error:
        return run.shown(str(error))
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error  # Arrow adds its own words
        return f"{run.name}: {reason}: {error.filename or root}; {_advice(error)}"
    except Exception as error:  # last resort: one run's damage must not stop other runs
        return (
            f"{run.name}: {type(error).__name__}: {error}; its files are "
            f"{run.shown(', '.join(run.paths))}"
        )


def _advice(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "free some space and ingest again: this run is not part of the warehouse"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "check the permissions"
    return "nothing of this run was written"


def _counted(issues: dict[str, int]) -> str:
    counts = [(name, issues[name]) for name in ("error", "warning", "info") if issues.get(name)]
    several = {"error": "errors", "warning": "warnings"}
    found = (f"{n} {name if n == 1 else several.get(name, name)}" for name, n in counts)
    return ", ".join(found) or "no findings"


def _describe(result: IngestResult) -> str:
    if result.unchanged:
        return f"{result.run_id}  {result.name}: already ingested, unchanged"
    rows = result.rows
    if rows["program_collectives"]:
        return (
            f"{result.run_id}  {result.name}: compiled, {plural(rows['programs'], 'program')}, "
            f"{rows['program_collectives']:,} collectives, {result.status}; {_counted(result.issues)}"
        )
    return (
        f"{result.run_id}  {result.name}: {rows['ops']:,} ops, {rows['collectives']:,} collectives, "
        f"{rows['host_events']:,} host events, {result.status}; {_counted(result.issues)}"
    )
