"""Ingests one run: reads, assembles and writes it, unless the warehouse has it already."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version

import msgspec
import polars as pl
from msgspec.structs import replace

from xlahouse.capture.commands import TRACES, all_of, filled
from xlahouse.capture.errors import WarehouseError
from xlahouse.capture.manifest import MeshAxis
from xlahouse.ingest.card import FoundCard, fill, read_beside, read_given
from xlahouse.ingest.discover import read_manifest, run_id_of
from xlahouse.ingest.events.cores import usable_cores
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.events.run_files import RunFiles
from xlahouse.ingest.hlo.dumps import Dump, complete, fingerprint_of, list_dumps
from xlahouse.ingest.hlo.file_events import FileEvents
from xlahouse.ingest.hlo.shared_programs import keep_launched
from xlahouse.ingest.missing_steps import missing_steps
from xlahouse.ingest.read_files import check_files, identified, read_files
from xlahouse.ingest.run_findings import (
    card_problem,
    distinct,
    missing_devices,
    missing_hosts,
    missing_ranks,
    others,
    refusals,
    replacements,
    stated_groups,
    unknown_kind,
    unknown_peaks,
    unstated,
)
from xlahouse.ingest.schema import INGEST_VERSION, TABLES
from xlahouse.ingest.spread.parts import Here, Spread
from xlahouse.ingest.store.settings import check_mesh, read_settings, write_settings
from xlahouse.ingest.store.store import Store
from xlahouse.ingest.table import FileEntry, RunRow
from xlahouse.ingest.tables.assemble import AssembledRun, assemble
from xlahouse.ingest.tables.pipeline import schedule_of
from xlahouse.ingest.tables.rows import issue_rows
from xlahouse.ingest.tables.run_row import run_row
from xlahouse.ingest.tables.run_tables import write_tables


@dataclass(frozen=True)
class IngestResult:
    """The outcome of one run."""

    run_id: str  # the run's id in the warehouse
    name: str  # the run's name
    status: str  # complete, partial or no_device_events
    rows: dict[str, int] = field(default_factory=dict)  # by table
    unchanged: bool = False  # the warehouse had it already
    issues: dict[str, int] = field(default_factory=dict)  # findings by severity


@dataclass(frozen=True)
class Options:
    """Options of an ingest that shape or describe the run."""

    mesh: tuple[MeshAxis, ...] | None = None  # major to minor; None: the mesh of the manifest
    name: str | None = None  # of the run; None: the name of its files
    device_kind: str | None = None  # such as TPU v6e; None: as the trace states it
    hlo_dump: str | None = None  # folder of the compiler's dumps
    card: str | None = None  # path of a workload card
    clocks: tuple[tuple[str, int], ...] = ()  # offsets in ps, by name of the clock
    # whether collectives whose group the trace does not state span all ranks
    all_in_one_group: bool = False
    # threads that may compute, which changes nothing that is written; None: one a core
    threads: int | None = None


def ingest_run(
    run: RunFiles, root: str, options: Options, spread: Spread | None = None
) -> IngestResult:
    """Read a run's files and write it, unless the warehouse has it already.

    Args:
        run: the files.
        root: the warehouse.
        options: of the ingest.
        spread: computes what concerns one file alone; None: this process, with the options' threads.

    Raises:
        XlahouseError: none of its files can be read, its manifest or options are wrong, or a newer
            xlahouse wrote the run.
    """
    manifest, raw_manifest = read_manifest(run)
    spread = spread or Here(options.threads or usable_cores())
    sources = identified(run.paths, spread)
    run_id = run_id_of(sources, raw_manifest)
    store = Store(root)
    known = store.run_row(run_id)
    if known is not None:
        store.check_version(known)
    own_name = run.own_name(manifest.name if manifest else None)
    name = options.name or (known["name"] if known else own_name)
    dumps = list_dumps(options.hlo_dump) if options.hlo_dump is not None else None
    card = _card(run, options)
    shaping = _shaping(dumps, card, options)
    if known is not None and _is_current(store, known) and _shaped_so(known, shaping):
        store.create(_version())
        rows = _rows_of(known["files"])
        _check_options(options, known["expected_device_count"] or 0)
        _apply_settings(root, run_id, options)
        if name != known["name"]:
            store.rename_run(known, name)
        return IngestResult(run_id, name, known["status"], rows, unchanged=True)
    once, copies = distinct(sources)
    if run.compiled_path is None:
        files, refused, parted = read_files(once, spread)
        said = None
    else:
        from xlahouse.ingest.compiled_files import read_compiled

        files, refused, said = read_compiled(run, sources)
        parted, copies = [], []  # two steps may have one program
    if (with_spares := run.instead_of(refused)) is not None:
        return ingest_run(with_spares, root, options, spread)
    if not files:
        raise refused[0]
    if manifest is not None and manifest.jobs_before:
        keep_launched(files)
    from_dumps = complete(files, dumps, run.name)
    named, coords = (manifest.mesh_device_ids, manifest.device_coords) if manifest else ([], [])
    if said is not None:
        coords = said.coords
    built = assemble(
        files,
        run.name,
        named,
        schedule_of(manifest),
        coords,
        dict(options.clocks),
        options.all_in_one_group,
        spread,
        manifest.device_slices if manifest else (),
    )
    if said is not None:
        from xlahouse.ingest.compiled_run import as_compiled  # no trace waits for it to load

        built = as_compiled(built, said)
    _check_options(options, _programmed(built))
    store.create(_version())
    writer = store.begin(run_id)
    try:
        tables = write_tables(built, writer, spread)
        check_coverage(tables.coverage)
        shown = [dataclasses.replace(each, path=run.shown(each.path)) for each in sources]
        row = run_row(run_id, name, shown, manifest, raw_manifest, tables, damaged=bool(refused))
        row |= {"source": _source_of(files), "options": msgspec.json.encode(shaping).decode()}
        if said is not None:
            row |= said.columns(damaged=bool(refused))
        filled, from_card = fill(row, card) if card is not None else ({}, [])
        row |= filled
        found = [
            *from_card,
            *card_problem(run),
            *refusals(refused),
            *copies,
            *replacements(run),
            *others(run),
            *from_dumps,
            *missing_ranks((rank for file in files for rank in file.ranks), run.name),
            *(missing_devices(row, files, run.name) if said is None else []),
            *unknown_kind(row, options.device_kind is not None, _on_tpu(built), run.name),
            *unknown_peaks(files, run.name),
            *(unstated(row, files, writer.stated(), run.name) if said is None else []),
            *stated_groups(options.all_in_one_group, run.name),
            *(missing_hosts(manifest, built.hosts, run.name) if said is None else []),
            *missing_steps(manifest, (world.launches for world in built.worlds), run.name),
        ]
        issues = issue_rows([_shown(each, run) for each in (*tables.issues, *found)])
        coverage = tables.coverage
        if run.unpacked:
            names = pl.col("source").map_elements(run.shown, pl.String)
            coverage = coverage.with_columns(names)
        writer.write("coverage", coverage)
        writer.write("issues", issues)
        check_files(parted, spread)
        writer.commit(row)
    except BaseException:
        writer.abandon()
        raise
    _apply_settings(root, run_id, options)
    return IngestResult(
        run_id, name, str(row["status"]), _all_rows(writer.rows()), issues=_severities(issues)
    )


@cache
def _version() -> str:
    """This xlahouse's, which the package's metadata says in a file of 100 lines."""
    return version("xlahouse")


def _shown(issue: Issue, run: RunFiles) -> Issue:
    """A finding in the user's words: it and its commands name the files as the user did."""
    archives = {run.shown(own.rstrip("/")) for _, own in run.unpacked}
    traces = all_of(sorted(archives or {run.shown(path) for path in run.paths}))
    message = filled(run.shown(issue.message), {TRACES: traces})
    return dataclasses.replace(issue, source=run.shown(issue.source), message=message)


def _all_rows(rows: dict[str, int]) -> dict[str, int]:
    """Rows of every table, 0 for one without."""
    return {table.name: rows.get(table.name, 0) for table in TABLES if table.name != "runs"}


def _rows_of(files: list[FileEntry]) -> dict[str, int]:
    """Rows by table, which may have several files."""
    rows: dict[str, int] = {}
    for file in files:
        rows[file["table"]] = rows.get(file["table"], 0) + file["rows"]
    return _all_rows(rows)


def _card(run: RunFiles, options: Options) -> FoundCard | None:
    """The workload card that the user names, else the one beside the trace."""
    if options.card is not None:
        return read_given(options.card)
    return read_beside(run.card_path) if run.card_path is not None else None


def _shaping(dumps: list[Dump] | None, card: FoundCard | None, options: Options) -> dict[str, str]:
    """The options that shape a run's tables: a run is written again when they change."""
    shaping = {} if dumps is None else {"hlo_dump": fingerprint_of(dumps)}
    if options.clocks:
        offsets = sorted(options.clocks)
        shaping["clocks"] = ",".join(f"{name}={offset}" for name, offset in offsets)
    if options.all_in_one_group:
        shaping["group"] = "all"
    return shaping if card is None else shaping | {"card": card.sha256}


def _shaped_so(known: RunRow, shaping: dict[str, str]) -> bool:
    """Whether a run was written with these options; leaving one out does not change them."""
    options: dict[str, str] = msgspec.json.decode(known["options"] or "{}")
    return shaping.items() <= options.items()


def _is_current(store: Store, known: RunRow) -> bool:
    """Whether a run is in the warehouse whole, and was written by this version."""
    return known["ingest_version"] == INGEST_VERSION and store.is_whole(known)


def _on_tpu(built: AssembledRun) -> bool:
    return any(device.core == "tensorcore" for device in built.devices)


def _source_of(files: list[FileEvents]) -> str:
    """xplane, chrome or compiled: a Chrome trace holds fewer facts, so one among the files decides."""
    formats = {file.format for file in files}
    return next((name for name in ("compiled", "chrome") if name in formats), "xplane")


def check_coverage(coverage: pl.DataFrame) -> None:
    """Every event that was read is written or rejected.

    Raises:
        WarehouseError: a reader lost events; that is a fault of xlahouse, never of the trace.
    """
    lost = coverage["events_read"] != coverage["rows_written"] + coverage["events_rejected"]
    if lost.any():
        line = coverage.filter(lost).row(0, named=True)
        raise WarehouseError(
            f"{line['source']} {line['plane']} {line['line']}: read {line['events_read']} events but "
            f"wrote {line['rows_written']} and rejected {line['events_rejected']}; please report this"
        )


def _programmed(built: AssembledRun) -> int:
    """Devices that a mesh consists of: all but SparseCores."""
    return built.devices_named - sum(d.core == "sparsecore" for d in built.devices)


def _check_options(options: Options, devices: int | None) -> None:
    """Refuse options that do not fit the run before anything is written."""
    if options.mesh is not None and devices is not None:
        check_mesh(list(options.mesh), devices)


def _apply_settings(root: str, run_id: str, options: Options) -> None:
    if options.mesh is None and options.device_kind is None:
        return
    old = read_settings(root, run_id)
    new = replace(
        old,
        mesh=list(options.mesh) if options.mesh else old.mesh,
        device_kind=options.device_kind or old.device_kind,
    )
    try:
        write_settings(root, run_id, new)
    except OSError as error:
        raise WarehouseError(
            f"{run_id}: the run is in the warehouse, but its settings are not: "
            f"{error.strerror or error}: {error.filename or root}; correct that and ingest again"
        ) from error


def _severities(issues: pl.DataFrame) -> dict[str, int]:
    return dict(sorted(Counter(issues["severity"].to_list()).items()))
