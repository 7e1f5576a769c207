"""Writes runs as rows of CCL-Bench: a folder each that its tools accept, and its website's data."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from xlahouse.capture.card import WorkloadCard, missing, stated
from xlahouse.capture.card_file import card_text
from xlahouse.capture.errors import ReportError, WarehouseError
from xlahouse.sql.export.ccl_card import card_of_run
from xlahouse.sql.export.ccl_trace import write_trace
from xlahouse.sql.outputs import file_stems
from xlahouse.sql.types import NamedRow
from xlahouse.sql.warehouse import Warehouse

TOOLS_REVISION = "1d257f0"  # of the tools whose definitions ccl_legacy_v1 has
ROWS_FILE = "benchmark_data.json"
# Where a row's flat metadata has a field of the card; other fields keep their names.
_FLAT_NAMES = {
    "xpu_spec.type": "hardware_type",
    "xpu_spec.model": "hardware_model",
    "network_topo.topology": "network_topology",
    "framework.name": "framework",
    "framework.compiler_tool_selection": "compiler",
    "framework.version": "framework_ver",
    "communication_library.name": "comm_library",
    "communication_library.version": "comm_library_ver",
    "communication_library.env": "comm_env",
    "metric_source.traces": "trace_types",
    "metric_source.metrics_specific_trace": "metric_traces",
}


@dataclass(frozen=True)
class WrittenRow:
    """A run that was written."""

    folder: Path  # that holds the row
    remarks: list[str]  # to know before publishing the row


def write_rows(
    warehouse: Warehouse,
    runs: Sequence[str],
    output: Path,
    on_progress: Callable[[str], None] = lambda line: None,
) -> list[WrittenRow]:
    """Write each run as `<output>/<its name>/` with a card and a trace, and `benchmark_data.json`.

    A folder's name has `tpu` in it, as CCL-Bench's tools want it; that of a run on virtual devices
    `virtual-tpu`. Each file is there whole, or not at all.

    Args:
        warehouse: that has the runs.
        runs: ids, prefixes or names.
        output: a folder, made if needed.
        on_progress: called with the name of each part when it begins.

    Raises:
        WarehouseError: there is no such run.
        ReportError: a run is on GPUs, or has no traced device.
    """
    ids = list(dict.fromkeys(warehouse.resolve_run(run) for run in runs))
    rows = {row["run_id"]: row for row in warehouse.runs() if row["run_id"] in ids}
    virtual = {run_id: _check_devices(warehouse, rows[run_id]) for run_id in ids}
    stems = file_stems({run_id: rows[run_id]["name"] for run_id in ids})
    written: list[WrittenRow] = []
    entries = []
    for run_id in ids:
        folder = output / _folder_name(stems[run_id], virtual[run_id])
        card = _card(warehouse, rows[run_id])
        on_progress(folder.name)
        try:
            _write_folder(warehouse, run_id, folder, card, on_progress)
        except OSError as error:
            raise WarehouseError(
                f"{folder} cannot be written: {error.strerror or error}; written: "
                f"{', '.join(row.folder.name for row in written) or 'no folder'}; {ROWS_FILE} stays as "
                "it was; free some space and export again"
            ) from error
        entries.append(_entry(warehouse, rows[run_id], folder.name, card))
        written.append(WrittenRow(folder, _remarks(card, virtual[run_id])))
    _write_text(
        output / ROWS_FILE, msgspec.json.format(msgspec.json.encode({"rows": entries}), indent=1)
    )
    return written


def _check_devices(warehouse: Warehouse, row: NamedRow) -> bool:
    """Whether a run is on virtual devices.

    Raises:
        ReportError: it is on devices that no row for TPUs can be of.
    """
    cores: dict[str | None, bool] = dict(
        warehouse.query(
            "select core, bool_or(coalesce(inferred, false)) from devices "
            "where run_id = $run and traced group by core",
            {"run": row["run_id"]},
        ).rows
    )
    name = row["name"] or row["run_id"]
    if not cores:
        raise ReportError(f"{name}: no device was traced, so there is nothing to export")
    if "gpu" in cores:
        raise ReportError(
            f"{name}: it is on GPUs; CCL-Bench's tools read the trace of PyTorch's profiler itself, so "
            "contribute that file"
        )
    return any(cores.values())


def _folder_name(stem: str, virtual: bool) -> str:
    if virtual:
        return f"{stem}-virtual-tpu"
    return stem if "tpu" in stem.lower() else f"{stem}-tpu"


def _card(warehouse: Warehouse, row: NamedRow) -> WorkloadCard:
    given = {"run": row["run_id"]}
    mesh = warehouse.query(
        "select axis, min(size) from run_mesh_v1 where run_id = $run group by axis, axis_index "
        "order by axis_index",
        given,
    ).rows
    kinds = warehouse.query(
        "select coalesce(s.device_kind, r.device_kind) from runs as r "
        "left join run_settings as s on s.run_id = r.run_id where r.run_id = $run",
        given,
    ).rows
    return card_of_run(row, dict(mesh), kinds[0][0])


def _write_folder(
    warehouse: Warehouse,
    run_id: str,
    folder: Path,
    card: WorkloadCard,
    on_progress: Callable[[str], None],
) -> None:
    """The folder with its two files and no other: another trace or card in it would be taken for them."""
    draft = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        hosts = warehouse.query(
            "select distinct host from devices where run_id = $run and traced and host is not null",
            {"run": run_id},
        ).rows
        host = file_stems({"host": hosts[0][0] if len(hosts) == 1 else "host"})["host"]
        write_trace(warehouse, run_id, draft / f"{host}.trace.json", on_progress)
        _write_text(draft / f"{folder.name}.yaml", card_text(card).encode())
        if folder.exists():
            _remove_earlier(folder)
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _remove_earlier(folder: Path) -> None:
    """Remove an earlier export, and nothing else.

    Raises:
        ReportError: the folder has other files.
    """
    strange = [
        path.name
        for path in folder.iterdir()
        if path.name != f"{folder.name}.yaml" and not path.name.endswith(".trace.json")
    ]
    if strange:
        raise ReportError(
            f"{folder}: holds {', '.join(sorted(strange))}, which no export wrote; name another folder"
        )
    shutil.rmtree(folder)


def _entry(warehouse: Warehouse, row: NamedRow, name: str, card: WorkloadCard) -> dict[str, object]:
    """A row as CCL-Bench's website has it; facts that only we have are in `xlahouse`."""
    given = {"run": row["run_id"]}
    columns = "metric, value, note from {} where run_id = $run order by metric"
    theirs = warehouse.query("select " + columns.format("ccl_legacy_v1"), given).rows
    ours = warehouse.query("select " + columns.format("ccl_bench_v2"), given).rows
    metrics = {metric: value for metric, value, _ in theirs}
    metrics |= {f"xlahouse_{metric}": value for metric, value, _ in ours}
    notes = {metric: note for metric, _, note in theirs}
    notes |= {f"xlahouse_{metric}": note for metric, _, note in ours}
    return {
        "trace": name,
        "metadata": {"workload_name": name, **_flat(stated(card))},
        "metrics": metrics,
        "xlahouse": {
            "run_id": row["run_id"],
            "ingest_version": row["ingest_version"],
            "source": row["source"],
            "status": row["status"],
            "views": ["ccl_legacy_v1", "ccl_bench_v2"],
            "tools_revision": TOOLS_REVISION,
            "source_files": row["source_files"],
            "notes": notes,
        },
    }


def _flat(card: Mapping[str, object]) -> dict[str, object]:
    """A card's fields by the names that the website's metadata has; parts of the model stay together."""
    flat: dict[str, object] = {}

    def descend(part: Mapping[str, object], holder: str) -> None:
        for name, value in part.items():
            known = _FLAT_NAMES.get(f"{holder}.{name}")
            if name == "bandwidth_gbps" and isinstance(value, Sequence):
                flat.update(zip(("bandwidth_scaleout", "bandwidth_scaleup"), value, strict=False))
            elif known is not None:
                flat[known] = value
            elif isinstance(value, dict) and name != "collection_notes":
                descend(value, name)
            elif name != "version" or holder:
                flat[name] = value

    descend(card, "")
    return flat


def _remarks(card: WorkloadCard, virtual: bool) -> list[str]:
    remarks = []
    if virtual:
        remarks.append("virtual devices: its times are not a TPU's; keep it to yourself")
    absent = missing(card)
    if absent:
        remarks.append(f"the card lacks fields without a source: {', '.join(absent)}")
    return remarks


def _write_text(path: Path, raw: bytes) -> None:
    draft = path.with_name(f".{path.name}.partial")
    draft.write_bytes(raw + b"" if raw.endswith(b"\n") else raw + b"\n")
    draft.replace(path)
