"""The verb `ingest`: from what a user points at to runs in a warehouse."""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from importlib.metadata import version
from multiprocessing import get_context
from typing import Any

import fsspec
import polars as pl

from xlahouse.capture.errors import TraceFormatError, WarehouseError, XlahouseError
from xlahouse.capture.manifest import MeshAxis
from xlahouse.ingest.assemble import assemble
from xlahouse.ingest.discover import (
    RunFiles,
    Source,
    find_runs,
    identify,
    read_manifest,
    run_id_of,
)
from xlahouse.ingest.frames import Issue
from xlahouse.ingest.read import FileEvents, read_xplane
from xlahouse.ingest.rows import issue_rows
from xlahouse.ingest.run_row import run_row
from xlahouse.ingest.schema import INGEST_VERSION
from xlahouse.ingest.settings import RunSettings, check_mesh, read_settings, write_settings
from xlahouse.ingest.store import Store

OnEvent = Callable[[str], None]


@dataclass(frozen=True)
class IngestResult:
    """What became of one run. rows: per table. issues: count of findings per severity."""

    run_id: str
    name: str
    status: str
    rows: dict[str, int] = field(default_factory=dict)
    unchanged: bool = False
    issues: dict[str, int] = field(default_factory=dict)


class IngestError(XlahouseError):
    """Some of the files were refused; the runs of the others were ingested.

    Args:
        problems: one line for each refusal.
        results: what was ingested all the same.
    """

    def __init__(self, problems: list[str], results: list[IngestResult]) -> None:
        super().__init__("\n".join(problems))
        self.problems, self.results = problems, results


@dataclass(frozen=True)
class Options:
    """Options of an ingest that shape or describe the run."""

    mesh: tuple[MeshAxis, ...] | None = None
    name: str | None = None
    device_kind: str | None = None


def ingest_paths(
    paths: Sequence[str],
    root: str,
    *,
    workers: int = 1,
    mesh: list[MeshAxis] | None = None,
    name: str | None = None,
    device_kind: str | None = None,
    strict: bool = False,
    on_event: OnEvent = lambda message: None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[IngestResult]:
    """Ingest every run found under the paths.

    Args:
        paths: files, folders or fsspec URLs.
        root: the warehouse's folder or URL; made if needed.
        workers: processes, at most one a run. With more than one, a script that calls this needs
            Python's `if __name__ == "__main__":` guard.
        mesh: mesh axes, major to minor, written as a setting of each run.
        name: what to call the run. Files that lie apart and have no manifest are then one run.
        device_kind: overrides the kind of device, as a setting.
        strict: a warning or error among the findings is an error.
        on_event: called with a line for each run that is done.
        on_progress: called with (runs done, runs in all).

    Raises:
        IngestError: files were refused, or `strict` found something; all other runs are ingested.
    """
    runs, problems = _find_all(paths)
    runs = _as_one(runs, name, problems)
    options = Options(tuple(mesh) if mesh else None, name, device_kind)
    results: list[IngestResult] = []
    if runs:
        Store(root).clear_leftovers()
        on_progress(0, len(runs))
    for number, outcome in enumerate(_each(runs, root, options, workers), start=1):
        if isinstance(outcome, IngestResult):
            results.append(outcome)
            on_event(_describe(outcome))
        else:
            problems.append(outcome)
        on_progress(number, len(runs))
    if strict:
        problems += [
            f"{result.name}: {_counted(result.issues)}, and --strict was given"
            for result in results
            if result.issues.get("error") or result.issues.get("warning")
        ]
    if problems:
        raise IngestError(problems, results)
    return results


def _find_all(paths: Sequence[str]) -> tuple[list[RunFiles], list[str]]:
    """Runs under all paths, each once; and what is wrong with the other paths."""
    runs: dict[tuple[str, ...], RunFiles] = {}
    problems = []
    for path in paths:
        try:
            found = find_runs(str(path))
        except XlahouseError as error:
            problems.append(str(error))
            continue
        runs |= {run.paths: run for run in found.runs}
        problems += found.problems
    return list(runs.values()), problems


def _as_one(runs: list[RunFiles], name: str | None, problems: list[str]) -> list[RunFiles]:
    """With a name, the files of one call are one run, wherever they lie; captures stay their own."""
    if name is None or len(runs) < 2:
        return runs
    if any(run.manifest_path for run in runs):
        problems.append(
            f"--run {name} names one run, but {len(runs)} were found, and captures are runs of their "
            "own; ingest them without --run"
        )
        return []
    return [RunFiles(name, tuple(path for run in runs for path in run.paths))]


def _each(
    runs: list[RunFiles], root: str, options: Options, workers: int
) -> Iterator[IngestResult | str]:
    """Outcomes in the order of the runs: a result, or the line that says what is wrong."""
    processes = min(workers, len(runs))
    if processes <= 1:
        yield from (_ingest_run(run, root, options) for run in runs)
        return
    spawn = get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawn, initializer=_ignore_interrupt) as pool:
        futures = [pool.submit(_ingest_run, run, root, options) for run in runs]
        for run, future in zip(runs, futures, strict=True):
            try:
                yield future.result()
            except BrokenProcessPool:
                yield (
                    f"{run.name}: a worker process died, perhaps for lack of memory; what it had "
                    "begun left no trace. Try again with --workers 1"
                )


def _ingest_run(run: RunFiles, root: str, options: Options) -> IngestResult | str:
    """Ingest one run; what is wrong with it costs it alone."""
    try:
        return ingest_run(run, root, options)
    except XlahouseError as error:
        return str(error)
    except OSError as error:
        return f"{run.name}: {error.strerror or error}: {error.filename or root}; {_advice(error)}"
    except Exception as error:  # the last net: one run's damage must not cost the others
        return f"{run.name}: {type(error).__name__}: {error}; its files are {', '.join(run.paths)}"


def _advice(error: OSError) -> str:
    if error.errno == errno.ENOSPC:
        return "make room and ingest again: what was begun is not part of the warehouse"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "check the permissions"
    return "nothing of this run was written"


def _ignore_interrupt() -> None:
    """Ctrl-C is the parent's to handle; workers end with their pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def ingest_run(run: RunFiles, root: str, options: Options) -> IngestResult:
    """Read a run's files and write it, unless the warehouse has it already.

    Raises:
        XlahouseError: none of its files can be read, or its manifest or options are wrong.
    """
    manifest, raw_manifest = read_manifest(run)
    sources = identify(run.paths)
    run_id = run_id_of(sources, raw_manifest)
    store = Store(root)
    known = store.run_row(run_id)
    own_name = manifest.name if manifest else run.name
    name = options.name or (known["name"] if known else own_name)
    if known is not None and _is_current(store, known):
        store.create(version("xlahouse"))
        rows = {file["table"]: file["rows"] for file in known["files"]}
        _check_options(options, rows.get("devices", 0))
        _apply_settings(root, run_id, options)
        if name != known["name"]:
            store.rename_run(known, name)
        return IngestResult(run_id, name, known["status"], rows, unchanged=True)
    files, refused = _read_files(sources)
    named = manifest.mesh_device_ids if manifest else []
    built = assemble(files, run.name, named)
    row = run_row(run_id, name, sources, manifest, raw_manifest, built, damaged=bool(refused))
    found = [*_refusals(refused), *_missing_devices(row, run.name)]
    issues = pl.concat([built.tables["issues"], issue_rows(found)])
    tables = built.tables | {"issues": issues}
    check_coverage(tables["coverage"])
    _check_options(options, built.tables["devices"].height)
    store.create(version("xlahouse"))
    store.write_run(row, tables)
    _apply_settings(root, run_id, options)
    counts = {table: frame.height for table, frame in tables.items()}
    return IngestResult(run_id, name, row["status"], counts, issues=_severities(issues))


def _is_current(store: Store, known: dict[str, Any]) -> bool:
    """Whether a run is there as this version would write it, and whole."""
    return known["ingest_version"] == INGEST_VERSION and store.is_whole(known)


def _read_files(sources: list[Source]) -> tuple[list[FileEvents], list[TraceFormatError]]:
    """(files that could be read, errors of the others); raises the first where none could."""
    files, refused = [], []
    for source in sources:
        with fsspec.open(source.path, "rb") as file:
            raw = file.read()
        try:
            files.append(read_xplane(raw, source.path))
        except TraceFormatError as error:
            refused.append(error)
    if not files:
        raise refused[0]
    return files, refused


def _refusals(errors: list[TraceFormatError]) -> list[Issue]:
    return [Issue("error", "unreadable_file", error.reason, error.path) for error in errors]


def _missing_devices(row: dict[str, Any], source: str) -> list[Issue]:
    """Devices that take part but have no events: their side of each transfer is unknown."""
    traced, expected = row["device_count"], row["expected_device_count"] or 0
    if not traced or traced >= expected:
        return []
    message = (
        f"{traced} of {expected} devices are traced; ingest the files of all hosts in one call, "
        "with --run NAME, to see the whole run"
    )
    return [Issue("warning", "devices_missing", message, source, expected - traced)]


def check_coverage(coverage: pl.DataFrame) -> None:
    """Every event that was read is written or rejected.

    Raises:
        WarehouseError: a reader lost events; that is a fault of xlahouse, never of the trace.
    """
    lost = coverage.filter(
        pl.col("events_read") != pl.col("rows_written") + pl.col("events_rejected")
    )
    if not lost.is_empty():
        line = lost.row(0, named=True)
        raise WarehouseError(
            f"{line['source']} {line['plane']} {line['line']}: read {line['events_read']} events but "
            f"wrote {line['rows_written']} and rejected {line['events_rejected']}; please report this"
        )


def _check_options(options: Options, devices: int | None) -> None:
    """Refuse what does not fit the run before anything is written."""
    if options.mesh is not None and devices is not None:
        check_mesh(list(options.mesh), devices)


def _apply_settings(root: str, run_id: str, options: Options) -> None:
    if options.mesh is None and options.device_kind is None:
        return
    old = read_settings(root, run_id)
    write_settings(
        root,
        run_id,
        RunSettings(
            mesh=list(options.mesh) if options.mesh else old.mesh,
            device_kind=options.device_kind or old.device_kind,
        ),
    )


def _severities(issues: pl.DataFrame) -> dict[str, int]:
    return dict(issues.group_by("severity").len().sort("severity").rows())


def _counted(issues: dict[str, int]) -> str:
    names = [name for name in ("error", "warning", "info") if issues.get(name)]
    return ", ".join(f"{issues[name]} {name}" for name in names) or "no findings"


def _describe(result: IngestResult) -> str:
    if result.unchanged:
        return f"{result.run_id}  {result.name}: already ingested, unchanged"
    rows = result.rows
    return (
        f"{result.run_id}  {result.name}: {rows['ops']:,} ops, {rows['collectives']:,} collectives, "
        f"{rows['host_events']:,} host events, {result.status}; {_counted(result.issues)}"
    )
