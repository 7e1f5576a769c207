"""Fields of a CCL-Bench workload card, their allowed values and units."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Text = Annotated[str, msgspec.Meta(min_length=1)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**24)]  # views multiply several
Parameters = Annotated[int, msgspec.Meta(ge=1, le=2**53)]
Gbps = Annotated[float, msgspec.Meta(gt=0, le=1e9)]  # gigabits a second


class ModelArch(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of the model."""

    num_params: Parameters | None = None  # all parameters
    num_params_embedding: Parameters | None = None  # of the embedding
    num_layers: Positive | None = None  # decoder layers
    num_heads: Positive | None = None  # query heads of a layer
    head_dim: Positive | None = None  # width of a head
    num_params_active: Parameters | None = None  # that one token passes through


class CardModel(msgspec.Struct, frozen=True, kw_only=True):
    """The model that runs."""

    phase: Literal["training", "inference", "serving"] | None = None  # phase of the workload
    moe: bool | None = None  # whether it has experts
    # what one traced step covers
    granularity: Literal["model_fwd_bwd_pass", "model_fwd", "layer", "kernel"] | None = None
    model_family: Text | None = None  # such as qwen3
    # dtype of weights and activations
    precision: Literal["bf16", "fp32", "fp16", "int8", "fp8"] | None = None
    epochs: Positive | None = None  # of training
    iteration: Positive | None = None  # steps; tools divide by it where a trace has none
    model_arch: ModelArch = ModelArch()  # its sizes


class Data(msgspec.Struct, frozen=True, kw_only=True):
    """Its inputs; lengths in tokens."""

    batch_size: Positive | None = None  # sequences over all devices
    seq_len: Positive | None = None  # tokens of a sequence
    input_len: Positive | None = None  # tokens of a prompt
    output_len: Positive | None = None  # generated tokens of a sequence
    dataset: Text | None = None  # its name or address


class NetworkTopo(msgspec.Struct, frozen=True, kw_only=True):
    """How the devices are connected."""

    topology: Text | None = None  # such as 2x2 or ring
    # [scale-out, scale-up] in gigaBITS a second; None where it does not apply
    bandwidth_gbps: Annotated[list[Gbps | None], msgspec.Meta(max_length=2)] | None = None


class XpuSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The accelerators."""

    type: Literal["GPU", "TPU"] | None = None  # kind of accelerator
    model: Text | None = None  # such as tpu_v6e
    total_count: Positive | None = None  # devices of the run
    count_per_node: Positive | None = None  # devices of a host


class Hardware(msgspec.Struct, frozen=True, kw_only=True):
    """The machines."""

    network_topo: NetworkTopo = NetworkTopo()  # how devices are connected
    xpu_spec: XpuSpec = XpuSpec()  # the accelerators
    driver_version: Text | None = None  # of the accelerators


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """Model, data and hardware."""

    model: CardModel = CardModel()  # the model that runs
    data: Data = Data()  # its inputs
    hardware: Hardware = Hardware()  # the machines


class Framework(msgspec.Struct, frozen=True, kw_only=True):
    """The program that runs the model."""

    name: Text | None = None  # such as torchxla, vllm, maxtext
    compiler_tool_selection: Text | None = None  # such as xla
    version: Text | None = None  # of the framework


class Parallelization(msgspec.Struct, frozen=True, kw_only=True):
    """Devices along each kind of parallelism."""

    dp_replicate: Positive | None = None  # data parallel replicas
    dp_shard: Positive | None = None  # devices that share weights, as in FSDP
    tp: Positive | None = None  # tensor parallel
    pp: Positive | None = None  # pipeline stages
    cp: Positive | None = None  # context parallel
    ep: Positive | None = None  # expert parallel
    pp_mb: Positive | None = None  # microbatches of a pipeline


class CommunicationLibrary(msgspec.Struct, frozen=True, kw_only=True):
    """The library of the collectives."""

    name: Text | None = None  # such as xla or NCCL
    version: Text | None = None  # of the library
    env: dict[str, str] | None = None  # variables that configure it


class ModelExecutor(msgspec.Struct, frozen=True, kw_only=True):
    """Program and parallelism."""

    framework: Framework = Framework()  # the program
    model_plan_parallelization: Parallelization = Parallelization()  # devices along each axis
    communication_library: CommunicationLibrary = CommunicationLibrary()  # of the collectives
    protocol_selection: list[Text] | None = None  # such as ici or nvlink


class MetricSource(msgspec.Struct, frozen=True, kw_only=True):
    """The traces that metrics are computed from."""

    traces: list[Text] | None = None  # kinds of trace; `json_tpu` alone for a row on TPUs
    metrics_specific_trace: list[Text] | None = None  # further traces for single metrics


class WorkloadCard(msgspec.Struct, frozen=True, kw_only=True):
    """A workload card; None where it does not state a field."""

    version: Literal[1] | None = None  # of the card format
    description: Text | None = None  # the row in one sentence
    hf_url: Text | None = None  # of the model on the hub
    trace_url: Text | None = None  # of the traces
    contributor: Text | None = None  # a name
    contact: Text | None = None  # an address
    workload: Workload = Workload()  # model, data and hardware
    # program and parallelism
    executor: ModelExecutor = msgspec.field(name="Model-executor", default=ModelExecutor())
    metric_source: MetricSource = MetricSource()  # the traces
    collection_notes: object = None  # free text or a mapping


# Optional fields; CCL-Bench requires all the rest.
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
    """Fields that CCL-Bench requires and the card lacks, as paths with points.

    The sizes of the model (model_arch) are required only if the card has one of them.
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
    """The card as mappings, without absent fields; N/A keeps the place of an absent item in a list."""
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
