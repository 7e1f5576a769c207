"""What a workload card of CCL-Bench holds: the fields, their allowed values, their units."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Text = Annotated[str, msgspec.Meta(min_length=1)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**62)]
Gbps = Annotated[float, msgspec.Meta(gt=0, le=1e9)]  # gigabits a second


class ModelArch(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of the model; num_params_active are the ones that a token passes through."""

    num_params: Positive | None = None
    num_params_embedding: Positive | None = None
    num_layers: Positive | None = None
    num_heads: Positive | None = None
    head_dim: Positive | None = None
    num_params_active: Positive | None = None


class CardModel(msgspec.Struct, frozen=True, kw_only=True):
    """What is run. iteration: what the tools divide by where a trace has no steps."""

    phase: Literal["training", "inference", "serving"] | None = None
    moe: bool | None = None
    granularity: Literal["model_fwd_bwd_pass", "model_fwd", "layer", "kernel"] | None = None
    model_family: Text | None = None
    precision: Literal["bf16", "fp32", "fp16", "int8", "fp8"] | None = None
    epochs: Positive | None = None
    iteration: Positive | None = None
    model_arch: ModelArch = ModelArch()


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """What it is run on. batch_size: sequences over all devices; lengths in tokens."""

    batch_size: Positive | None = None
    seq_len: Positive | None = None
    input_len: Positive | None = None
    output_len: Positive | None = None
    dataset: Text | None = None


class NetworkTopo(msgspec.Struct, frozen=True, kw_only=True):
    """bandwidth_gbps: [scale-out, scale-up], gigaBITS a second; None where it does not apply."""

    topology: Text | None = None
    bandwidth_gbps: Annotated[list[Gbps | None], msgspec.Meta(max_length=2)] | None = None


class XpuSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The accelerators; model such as tpu_v6e."""

    type: Literal["GPU", "TPU"] | None = None
    model: Text | None = None
    total_count: Positive | None = None
    count_per_node: Positive | None = None


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """What it runs on."""

    network_topo: NetworkTopo = NetworkTopo()
    xpu_spec: XpuSpec = XpuSpec()
    driver_version: Text | None = None


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Model, data and hardware."""

    model: CardModel = CardModel()
    data: Data = Data()
    hardware: Hardware = Hardware()


class Framework(msgspec.Struct, frozen=True, kw_only=True):
    """name: such as torchxla, vllm, maxtext."""

    name: Text | None = None
    compiler_tool_selection: Text | None = None
    version: Text | None = None


class Parallelization(msgspec.Struct, frozen=True, kw_only=True):
    """Devices along each kind of parallelism."""

    dp_replicate: Positive | None = None
    dp_shard: Positive | None = None
    tp: Positive | None = None
    pp: Positive | None = None
    cp: Positive | None = None
    ep: Positive | None = None
    pp_mb: Positive | None = None


class CommunicationLibrary(msgspec.Struct, frozen=True, kw_only=True):
    """env: variables that shape it."""

    name: Text | None = None
    version: Text | None = None
    env: dict[str, str] | None = None


class ModelExecutor(msgspec.Struct, frozen=True, kw_only=True):
    """How it is run."""

    framework: Framework = Framework()
    model_plan_parallelization: Parallelization = Parallelization()
    communication_library: CommunicationLibrary = CommunicationLibrary()
    protocol_selection: list[Text] | None = None


class MetricSource(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured with; `json_tpu` alone for a row on TPUs."""

    traces: list[Text] | None = None
    metrics_specific_trace: list[Text] | None = None


class WorkloadCard(msgspec.Struct, frozen=True, kw_only=True):
    """A workload card; None is what it does not say."""

    version: Literal[1] | None = None
    description: Text | None = None
    hf_url: Text | None = None
    trace_url: Text | None = None
    contributor: Text | None = None
    contact: Text | None = None
    workload: Workload = Workload()
    executor: ModelExecutor = msgspec.field(name="Model-executor", default=ModelExecutor())
    metric_source: MetricSource = MetricSource()
    collection_notes: object = None


# Fields that a card may lack; CCL-Bench asks for all others.
_OPTIONAL = {
    "contributor",
    "contact",
    "workload.model.model_arch.num_params_active",
    "Model-executor.framework.version",
    "Model-executor.model_plan_parallelization.ep",
    "Model-executor.model_plan_parallelization.pp_mb",
    "collection_notes",
}


def missing(card: WorkloadCard) -> list[str]:
    """Fields that CCL-Bench asks for and the card does not have, as paths with points.

    The sizes of the model (model_arch) are asked for only where one of them is given.
    """
    bare = card.workload.model.model_arch == ModelArch()
    return [
        path
        for path in _absent(card, ())
        if path not in _OPTIONAL and not (bare and path.startswith("workload.model.model_arch."))
    ]


def _absent(part: msgspec.Struct, steps: tuple[str, ...]) -> list[str]:
    found = []
    for field in msgspec.structs.fields(part):
        value, path = getattr(part, field.name), (*steps, field.encode_name)
        if isinstance(value, msgspec.Struct):
            found += _absent(value, path)
        elif value is None:
            found.append(".".join(path))
    return found


def stated(card: WorkloadCard) -> dict[str, object]:
    """The card as mappings, without what it does not say; N/A where a list needs a place to be kept."""
    return _stated(card)


def _stated(part: msgspec.Struct) -> dict[str, object]:
    found: dict[str, object] = {}
    for field in msgspec.structs.fields(part):
        value = getattr(part, field.name)
        if isinstance(value, msgspec.Struct):
            value = _stated(value) or None
        elif isinstance(value, list):
            value = ["N/A" if item is None else item for item in value]
        if value is not None:
            found[field.encode_name] = value
    return found
