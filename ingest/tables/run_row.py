"""The row of the `runs` table: facts of the manifest and of the trace."""

from __future__ import annotations

import datetime
import hashlib
from typing import Any

import msgspec

from xlahouse.capture.errors import ManifestError
from xlahouse.capture.manifest import Manifest
from xlahouse.ingest.events.trace_bytes import SourceFile
from xlahouse.ingest.schema import INGEST_VERSION
from xlahouse.ingest.tables.model_facts import model_facts
from xlahouse.ingest.tables.run_tables import RunTables

# Facts of the manifest that are columns under the same name.
_SAME = (
    "framework",
    "model",
    "model_family",
    "layers",
    "hidden_size",
    "dtype",
    "batch_size",
    "microbatches",
    "prompt_tokens",
    "output_tokens",
    "parallelism",
    "mesh_device_ids",
    "measured_ttft_s",
    "measured_tpot_s",
)
# Fields of the manifest that were chosen (METRICS, Comparison). What is measured, or numbers a repeat, is
# not among them: two captures of one cell are one setup.
_CHOSEN = (
    "framework",
    "framework_versions",
    "model",
    "model_family",
    "model_config",
    "weights",
    "layers",
    "hidden_size",
    "dtype",
    "batch_size",
    "microbatches",
    "prompt_tokens",
    "output_tokens",
    "mesh",
    "device_kind",
    "device_count",
    "flags",
    "stage_layers",
)
# Of these, the ones that grow or shrink with the mesh; microbatches are compared by themselves.
_OF_MESH = ("mesh", "device_count", "microbatches", "stage_layers")
_FLAG_OF_MESH = "CPU_NUM_DEVICES"
# The same of the plan's entry for the experiment, which also holds its name and repeat.
_CHOSEN_IN_PLAN = ("capacity_factor", "scopes")
# And of a server's.
_CHOSEN_OF_SERVER = ("serving", "requests", "prompt_tokens", "output_tokens", "seed")


def run_row(
    run_id: str,
    name: str,
    sources: list[SourceFile],
    manifest: Manifest | None,
    raw_manifest: bytes,
    built: RunTables,
    damaged: bool,
) -> dict[str, object]:
    """The row without `files`; facts that neither manifest nor trace states are NULL.

    damaged: whether some of the run's files could not be read at all.

    Raises:
        ManifestError: a fact that follows from its sizes does not fit.
    """
    programmed = [device for device in built.devices if device.core != "sparsecore"]
    traced = len(programmed)
    named = built.devices_named - (len(built.devices) - traced)
    named = max(named, manifest.device_count if manifest else 0)
    kinds = sorted({device.kind for device in programmed})
    row: dict[str, object] = {
        "run_id": run_id,
        "name": name,
        "captured_at": _captured_at(manifest, built.epoch_ns),
        "device_kind": kinds[0] if kinds else (manifest.device_kind if manifest else None),
        "device_count": traced,
        "expected_device_count": named or None,
        "host_count": len(built.hosts),
        "source": "xplane",
        "source_files": [
            {"path": source.path, "bytes": source.bytes, "sha256": source.sha256}
            for source in sources
        ],
        "epoch_ns": built.epoch_ns,
        "duration_ps": built.duration_ps,
        "status": _status(traced, named, damaged or _has_errors(built)),
        "ingest_version": INGEST_VERSION,
        "ingested_at": datetime.datetime.now(datetime.UTC),
        "options": "{}",
    }
    if manifest is None:
        return row
    facts = (
        row
        | {column: getattr(manifest, column) for column in _SAME}
        | model_facts(manifest)
        | {
            "framework_versions": msgspec.json.encode(manifest.framework_versions).decode(),
            "mesh": [{"axis": axis.axis, "size": axis.size} for axis in manifest.mesh],
            "setup": setup_of(manifest),
            "setup_besides_mesh": setup_besides_mesh_of(manifest),
            "workload": "inference",
            "iterations": _passes(manifest) or None,
            "manifest": raw_manifest.decode(),
        }
    )
    for column, value in facts.items():
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise ManifestError(f"{name}: {column} is beyond 64 bits; correct the manifest")
    return facts


def setup_of(manifest: Manifest) -> str:
    """12 hex digits that repeats of the same setup share."""
    return digest_of(_choices(manifest))


def setup_besides_mesh_of(manifest: Manifest) -> str:
    """12 hex digits that setups share which differ in the mesh and what follows from it alone."""
    facts = _choices(manifest)
    flags = {name: text for name, text in facts["flags"].items() if name != _FLAG_OF_MESH}
    return digest_of(
        {name: facts[name] for name in facts if name not in _OF_MESH} | {"flags": flags}
    )


def digest_of(facts: dict[str, Any]) -> str:
    """12 hex digits that equal facts share, in whatever order."""
    return hashlib.sha256(msgspec.json.encode(facts, order="deterministic")).hexdigest()[:12]


def _choices(manifest: Manifest) -> dict[str, Any]:
    facts = {name: msgspec.to_builtins(getattr(manifest, name)) for name in _CHOSEN}
    facts |= {name: manifest.plan_entry.get(name) for name in _CHOSEN_IN_PLAN}
    if manifest.plan_entry.get("serving") is not None:
        facts |= {f"plan_{name}": manifest.plan_entry.get(name) for name in _CHOSEN_OF_SERVER}
    # torch_xla writes blanks around the flags that it adds
    facts["flags"] = {name: " ".join(text.split()) for name, text in manifest.flags.items()}
    # Older manifests lack these, and keep their setup.
    if manifest.dispatch_depth is not None:
        facts["dispatch_depth"] = manifest.dispatch_depth
    if manifest.plan_entry.get("key_block") is not None:
        facts["key_block"] = manifest.plan_entry["key_block"]
    return facts


def _passes(manifest: Manifest) -> int:
    """Forward passes that were profiled; a server's step may have two."""
    if manifest.server is not None:
        return sum(bool(step.decodes) + bool(step.prefills) for step in manifest.server.steps)
    return len(manifest.requests) * (manifest.output_tokens or 0)


def _captured_at(manifest: Manifest | None, epoch_ns: int | None) -> datetime.datetime | None:
    if epoch_ns is not None:
        return datetime.datetime.fromtimestamp(epoch_ns / 1e9, datetime.UTC)
    return datetime.datetime.fromisoformat(manifest.captured_at) if manifest else None


def _has_errors(built: RunTables) -> bool:
    return any(issue.severity == "error" for issue in built.issues)


def _status(traced: int, named: int, damaged: bool) -> str:
    if not traced:
        return "no_device_events"
    return "partial" if traced < named or damaged else "complete"
