"""Fills facts that a trace lacks from its workload card, and reports contradictions between the two."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from xlahouse.capture.card import NetworkTopo, Parallelization, WorkloadCard, stated
from xlahouse.capture.card_file import checked_card, read_card
from xlahouse.capture.errors import ManifestError
from xlahouse.capture.manifest import MeshAxis, check_mesh_size
from xlahouse.ingest.events.codes_of_files import (
    CARD_CONTRADICTS,
    CARD_FIELD,
    CARD_FILLED,
    CARD_UNREADABLE,
)
from xlahouse.ingest.events.files import read_small
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.tables.run_row import digest_of

# Major to minor, as frameworks nest their meshes: a card does not state the order.
_CARD_AXES = {
    "pp": "pp",
    "dp_replicate": "dp",
    "dp_shard": "fsdp",
    "cp": "cp",
    "ep": "ep",
    "tp": "tp",
}
_CARD_DTYPES = {
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp16": "float16",
    "int8": "int8",
    "fp8": "fp8",
}
_CARD_FRAMEWORKS = {"torchxla": "torch_xla", "torch-xla": "torch_xla"}
_NO_SETUP = ("description", "hf_url", "trace_url", "contributor", "contact", "collection_notes")
# Kinds that state no model.
_BARE_KINDS = ("TPU", "GPU")


@dataclass(frozen=True)
class FoundCard:
    """A workload card that was found."""

    path: str  # of its file
    card: WorkloadCard  # its contents
    sha256: str  # of its bytes
    issues: list[Issue] = field(default_factory=list)  # findings about it


def read_given(path: str) -> FoundCard:
    """The card that a user names.

    Raises:
        ManifestError: there is no card, or a value in it is wrong.
    """
    raw = _bytes(path)
    return FoundCard(path, checked_card(_text(raw, path), path), hashlib.sha256(raw).hexdigest())


def read_beside(path: str) -> FoundCard:
    """The card that lies beside a trace: a wrong field is left out; an unreadable card is empty."""
    raw = _bytes(path)
    digest = hashlib.sha256(raw).hexdigest()
    try:
        card, problems = read_card(_text(raw, path), path)
    except ManifestError as error:
        return FoundCard(
            path, WorkloadCard(), digest, [CARD_UNREADABLE.found(path, detail=str(error))]
        )
    issues = [
        CARD_FIELD.found(path, detail=str(problem), info=problem.foreign) for problem in problems
    ]
    return FoundCard(path, card, digest, issues)


def _bytes(path: str) -> bytes:
    try:
        return read_small(path)
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}; name a workload card") from error


def _text(raw: bytes, path: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path}: not UTF-8 text; name a workload card") from error


def fill(row: dict[str, object], found: FoundCard) -> tuple[dict[str, object], list[Issue]]:
    """(the columns of `runs` that the card gives, findings). Facts of trace and manifest stay.

    Args:
        row: of the run, without the card.
        found: its card.
    """
    stated_facts, issues = _facts(found.card), list(found.issues)
    kind = stated_facts.pop("device_kind", None)
    if kind and (row.get("device_kind") in (None, *_BARE_KINDS)):
        stated_facts["device_kind"], row = kind, row | {"device_kind": None}
    mesh, problem = _mesh(found.card.executor.model_plan_parallelization, row)
    filled = {
        name: value
        for name, value in (stated_facts | mesh).items()
        if value is not None and row.get(name) is None
    }
    contradicting = [
        f"{name}: {row[name]} in the trace or manifest, {value} in the card"
        for name, value in stated_facts.items()
        if value is not None and row.get(name) is not None and not _agree(row[name], value)
    ]
    if problem:
        contradicting.append(problem)
    text = ", ".join(filled) or "nothing"
    issues.append(CARD_FILLED.found(found.path, detail=f"from the workload card: {text}"))
    issues += [CARD_CONTRADICTS.found(found.path, detail=line) for line in contradicting]
    card = msgspec.json.encode(stated(found.card)).decode()
    return filled | {"card": card} | _setup(row, found.card), issues


def _facts(card: WorkloadCard) -> dict[str, object]:
    """Columns of `runs` from the fields of a card; None where it states nothing."""
    model, data = card.workload.model, card.workload.data
    framework, xpu = card.executor.framework, card.workload.hardware.xpu_spec
    arch = model.model_arch
    name = (framework.name or "").lower() or None
    known = _CARD_FRAMEWORKS.get(name, name) if name else None
    return {
        "model": _model_name(card),
        "model_family": model.model_family,
        "framework": known,
        "framework_versions": (
            msgspec.json.encode({known: framework.version}).decode()
            if known and framework.version
            else None
        ),
        "dtype": _CARD_DTYPES.get(model.precision or ""),
        "batch_size": data.batch_size,
        "prompt_tokens": data.input_len,
        "output_tokens": data.output_len,
        "layers": arch.num_layers,
        "parameters": arch.num_params,
        "active_parameters": arch.num_params_active
        or (arch.num_params if model.moe is False else None),
        "expert_layers": 0 if model.moe is False else None,
        "device_kind": _device_kind(xpu.model),
        "expected_device_count": xpu.total_count,
        "workload": model.phase,
        "iterations": model.iteration,
    }


def _model_name(card: WorkloadCard) -> str | None:
    """The model's name on the hub, else its family."""
    url = (card.hf_url or "").rstrip("/")
    name = url.rpartition("/")[2] if "huggingface.co/" in url else ""
    return name or card.workload.model.model_family


def _device_kind(model: str | None) -> str | None:
    """`tpu_v6e` -> `TPU v6e`; other names unchanged."""
    if model is None or not model.lower().startswith("tpu"):
        return model
    return f"TPU {model[3:].strip('_- ')}".strip()


def _mesh(plan: Parallelization, row: dict[str, object]) -> tuple[dict[str, object], str | None]:
    """(mesh and parallelism, None); ({}, the problem).

    Many frameworks place experts on devices of the other axes: `ep` is left out where the product is
    too large with it.
    """
    sizes = {axis: getattr(plan, name) for name, axis in _CARD_AXES.items() if getattr(plan, name)}
    if not sizes or row.get("mesh"):
        return {}, None
    devices = row.get("expected_device_count")
    several = {axis: size for axis, size in sizes.items() if size > 1}
    if devices and math.prod(several.values()) != devices:
        without = {axis: size for axis, size in several.items() if axis != "ep"}
        if math.prod(without.values()) != devices:
            text = " x ".join(f"{axis}={size}" for axis, size in several.items()) or "1"
            return {}, f"mesh: {text} in the card, but the run names {devices} devices"
        several = without
    try:
        check_mesh_size(several.values())
    except ManifestError as error:
        return {}, str(error)
    axes = [MeshAxis(axis, size) for axis, size in (several or {"tp": 1}).items()]
    return {
        "mesh": [{"axis": axis.axis, "size": axis.size} for axis in axes],
        "parallelism": ".".join(f"{axis.axis}{axis.size}" for axis in axes),
    }, None


def _setup(row: dict[str, object], card: WorkloadCard) -> dict[str, str]:
    """Runs whose cards make the same choices are repeats of one setup."""
    if row.get("setup") is not None:
        return {}
    return {
        "setup": _digest_of(card),
        "setup_besides_mesh": _digest_of(_besides_mesh(card)),
    }


def _besides_mesh(card: WorkloadCard) -> WorkloadCard:
    """The card without its mesh, its number of devices and their network."""
    executor = replace(card.executor, model_plan_parallelization=Parallelization())
    spec = replace(card.workload.hardware.xpu_spec, total_count=None, count_per_node=None)
    hardware = replace(card.workload.hardware, network_topo=NetworkTopo(), xpu_spec=spec)
    return replace(card, executor=executor, workload=replace(card.workload, hardware=hardware))


def _digest_of(card: WorkloadCard) -> str:
    return digest_of({name: value for name, value in stated(card).items() if name not in _NO_SETUP})


def _agree(known: object, value: object) -> bool:
    """Whether two words or numbers mean the same."""
    if isinstance(known, str) and isinstance(value, str):
        return known.lower().replace("-", "_") == value.lower().replace("-", "_")
    return bool(known == value)
