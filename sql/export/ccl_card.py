"""Fills a workload card of CCL-Bench from a run's row, mesh and manifest, and from nothing else."""

from __future__ import annotations

import re

import msgspec

from xlahouse.capture.card import WorkloadCard
from xlahouse.sql.types import NamedRow, Value

_Part = dict[str, Value]  # of a card or a manifest, as JSON
# Axes of our meshes -> where a card has them.
_PLAN = {
    "dp": "dp_replicate",
    "fsdp": "dp_shard",
    "tp": "tp",
    "sp": "tp",  # sequences are split over the devices of the tensor axis
    "pp": "pp",
    "cp": "cp",
    "ep": "ep",
}
_ALWAYS = ("dp_replicate", "dp_shard", "tp", "pp", "cp")  # 1 where a known mesh lacks them
_PRECISIONS = {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16", "int8": "int8"}
_PRECISIONS |= {"float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "fp8": "fp8"}
_FRAMEWORKS = {"torch_xla": "torchxla"}
_LITE = {"5lite": "5e", "5litepod": "5e", "6lite": "6e", "5": "5p"}
_GENERATION = re.compile(r"^(?:tpu)?_?v?(\d+\w*)$")


def card_of_run(row: NamedRow, mesh: dict[str, int], kind: str | None) -> WorkloadCard:
    """A card for a run.

    Args:
        row: of the table `runs`; its `card`, where the run was ingested with one, says the rest.
        mesh: axis -> size as the views use it; {} where none is known.
        kind: of its devices, as the views use it.
    """
    facts = _merged(msgspec.json.decode(row["card"] or "{}"), _of_run(row, mesh, kind))
    return msgspec.convert(_without_places(facts), WorkloadCard)


def _of_run(row: NamedRow, mesh: dict[str, int], kind: str | None) -> _Part:
    manifest = msgspec.json.decode(row["manifest"] or "{}")
    framework = row["framework"]
    versions = msgspec.json.decode(row["framework_versions"] or "{}")
    chip = chip_name(kind)
    return {
        "version": 1,
        "description": None if row["card"] else _description(row),
        "hf_url": _hub_address(manifest.get("weights")),
        "workload": {
            "model": _model(row, manifest),
            "data": _data(row),
            "hardware": {
                "xpu_spec": {
                    "type": "TPU" if chip else None,
                    "model": chip,
                    "total_count": row["expected_device_count"] if chip else None,
                    "count_per_node": _per_host(row) if chip else None,
                },
            },
        },
        "Model-executor": {
            "framework": {
                "name": _FRAMEWORKS.get(framework, framework),
                "compiler_tool_selection": "xla",
                "version": versions.get(framework),
            },
            "model_plan_parallelization": _plan(row, mesh),
            "communication_library": {"name": "xla", "env": manifest.get("flags") or None},
            "protocol_selection": ["xla_collectives", "ici"] if chip else ["xla_collectives"],
        },
        "metric_source": {
            "traces": ["json_tpu"],
            "metrics_specific_trace": ["communication_trace", "kernel_trace"],
        },
    }


def chip_name(kind: str | None) -> str | None:
    """`TPU v6 lite` -> `tpu_v6e`; None for other devices, or an unknown generation."""
    plain = (kind or "").lower().replace(" ", "").replace("-", "")
    match = _GENERATION.match(plain) if plain.startswith(("tpu", "v")) else None
    return f"tpu_v{_LITE.get(match[1], match[1])}" if match else None


def _description(row: NamedRow) -> str:
    parts = [row["framework"], row["workload"], "of" if row["model"] else None, row["model"]]
    words = " ".join(part for part in parts if part) or "A run"
    where = f" as {row['parallelism']}" if row["parallelism"] else ""
    return f"{words}{where}: {row['name']}; its trace by XLA's profiler, exported by xlahouse."


def _hub_address(weights: object) -> str | None:
    """Weights from the hub are named OWNER/MODEL."""
    if isinstance(weights, str) and re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+", weights):
        return f"https://huggingface.co/{weights}"
    return None


def _model(row: NamedRow, manifest: _Part) -> _Part:
    config = manifest.get("model_config") or {}
    heads, moe = config.get("num_attention_heads"), row["expert_layers"]
    width = config.get("head_dim") or (
        row["hidden_size"] // heads if heads and row["hidden_size"] else None
    )
    embedding = (
        row["vocab_size"] * row["hidden_size"] if row["vocab_size"] and row["hidden_size"] else None
    )
    return {
        "phase": row["workload"],
        "moe": None if moe is None else moe > 0,
        "granularity": "model_fwd" if manifest else None,
        "model_family": row["model_family"],
        "precision": _PRECISIONS.get(row["dtype"] or ""),
        "iteration": row["iterations"],
        "model_arch": {
            "num_params": row["parameters"],
            "num_params_embedding": embedding,
            "num_layers": row["layers"],
            "num_heads": heads,
            "head_dim": width,
            "num_params_active": row["active_parameters"] if moe else None,
        },
    }


def _data(row: NamedRow) -> _Part:
    prompt, output = row["prompt_tokens"], row["output_tokens"]
    return {
        "batch_size": row["batch_size"],
        "seq_len": prompt + output if prompt is not None and output is not None else None,
        "input_len": prompt,
        "output_len": output,
    }


def _per_host(row: NamedRow) -> int | None:
    """Chips of a host, where all hosts of the run were traced."""
    devices, hosts = row["expected_device_count"], row["host_count"]
    if not devices or not hosts or row["device_count"] != devices or devices % hosts:
        return None
    return int(devices // hosts)


def _plan(row: NamedRow, mesh: dict[str, int]) -> dict[str, int | None]:
    if not mesh or not set(mesh) <= set(_PLAN):
        return {}
    plan: dict[str, int | None] = dict.fromkeys(_ALWAYS, 1)
    for axis, size in mesh.items():
        plan[_PLAN[axis]] = (plan.get(_PLAN[axis]) or 1) * size
    if (plan["pp"] or 1) > 1:
        plan["pp_mb"] = row["microbatches"]
    return plan


def _merged(under: Value, over: Value) -> Value:
    """Merge the run's facts over its card's; None is not a fact."""
    if isinstance(under, dict) and isinstance(over, dict):
        names = dict.fromkeys([*over, *under])
        merged = {name: _merged(under.get(name), over.get(name)) for name in names}
        return {name: value for name, value in merged.items() if value not in (None, {})}
    if isinstance(over, dict) and under is None:
        return _merged({}, over)
    return under if over in (None, {}) else over


def _without_places(facts: _Part) -> _Part:
    """N/A in the list of bandwidths is None in the struct."""
    topo = facts.get("workload", {}).get("hardware", {}).get("network_topo", {})
    if isinstance(topo.get("bandwidth_gbps"), list):
        topo["bandwidth_gbps"] = [None if v == "N/A" else v for v in topo["bandwidth_gbps"]]
    return facts
