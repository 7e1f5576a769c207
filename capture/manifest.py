"""The contract of capture and ingest: the manifest beside a trace, and the grammar of markers."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import msgspec

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.capture.errors import ManifestError
from xlahouse.capture.limits import exceeded, most

# Marker grammar: step traces with the stats `request` and `step_num` (0 = prefill, k = k-th decode;
# the marker of a whole request has none).
MARKER_PREFIX = "xlahouse."
REQUEST, PREFILL, DECODE, WARMUP = (
    f"{MARKER_PREFIX}{phase}" for phase in ("request", "prefill", "decode", "warmup")
)
# A server's step, as vLLM's tpu-inference names it; its stats name requests by place from 1 on: request_id1,
# request_tokens1 (all tokens of the step), prompt_tokens1 (of these of its prompt).
SERVER_STEP = "execute_model: {requests} reqs, {tokens} toks"
# Layout of a capture: <dir>/trace_<timestamp>.trace/ and <dir>/metadata_<timestamp>.json beside it.
TRACE_DIR = re.compile(r"^trace_(?P<timestamp>.+)\.trace$")


Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]  # a larger number is damage
# Of a model or its input: views multiply several.
Size = Annotated[int, msgspec.Meta(ge=0, le=2**24)]
_MOST_ELEMENTS = 2**56  # of all sizes of a run: products of views hold a few times as many
_MOST_IN_CONFIG = 2**31


MANIFEST_VERSION = 1


class MeshAxis(msgspec.Struct, frozen=True):
    """One axis of the device mesh; a mesh lists its axes major to minor."""

    axis: str  # such as tp
    size: Annotated[int, msgspec.Meta(ge=1, le=2**20)]  # devices along it


class RequestTiming(msgspec.Struct, frozen=True, kw_only=True):
    """Host-clock times of one profiled request, in seconds."""

    request: Count  # 0-based, as in its markers
    ttft_s: float  # from the start of the prefill marker to the first token on the host
    step_s: list[float]  # [decode step] from token to token

    @property
    def tpot_s(self) -> float | None:
        """Mean time per output token after the first; None with one output token."""
        return sum(self.step_s) / len(self.step_s) if self.step_s else None


class ServedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request that arrived at a server, by the host's clock; seconds count from the server's start."""

    request: Count  # 0-based, as in its markers
    arrived_s: float  # start of its marker
    prompt_tokens: Size  # of its prompt
    output_tokens: Size  # that it asked for
    slot: Count | None  # None: it never began
    tokens: list[int]  # that it got
    first_token_s: float | None = None  # end of the step that gave it, on the host
    last_token_s: float | None = None  # the same of the last one that it got


class ServerStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step of a server: the requests that got a token."""

    decodes: list[Count]  # one token each
    prefills: list[Count]  # whole prompts
    # tokens of a prompt in the prefill's program; None without a prefill
    padded: Size | None = None


class ServerLog(msgspec.Struct, frozen=True, kw_only=True):
    """What a server did under the profiler."""

    policy: str  # mixed or prefill_first
    slots: Size  # over all devices
    prefill_slots: Size  # that one prefill can fill
    buckets: list[Size]  # padded lengths of prompts, a program each
    arrived: Count  # requests that came
    served: Count  # requests that got all their tokens
    requests: list[ServedRequest]  # that came, in order
    steps: list[ServerStep]  # in order


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a captured run that its trace lacks. Unknown facts are None."""

    manifest_version: int = MANIFEST_VERSION  # of this format
    name: str  # the experiment's
    captured_at: str  # ISO 8601, UTC
    framework: str  # such as torch_xla
    framework_versions: dict[str, str]  # package -> version
    model: str  # the plan's name of it
    model_family: str  # transformers' model_type
    model_config: dict[str, Any]  # sizes by transformers' names
    weights: str  # `random:<seed>`, a folder or a repository
    layers: Size  # decoder layers
    hidden_size: Size  # width of a token's activations
    dtype: str  # float32 or bfloat16
    batch_size: Size  # sequences over all devices; of a server its slots
    microbatches: Size = 1  # of a pipeline; 1 without
    prompt_tokens: Size | None  # of each sequence; None of a server, whose requests differ
    # of each sequence of a profiled request; the prefill gives the first; None of a server
    output_tokens: Size | None
    parallelism: str  # label such as `dp2.tp2`
    mesh: list[MeshAxis]  # major to minor
    mesh_device_ids: list[Count]  # the devices of the mesh, in its order
    # [device id] -> (x, y, z) of its chip; []: unknown, as for virtual devices.
    device_coords: list[Annotated[list[Count], msgspec.Meta(min_length=2, max_length=3)]] = []
    device_slices: list[
        Count
    ] = []  # [device id] -> its slice of TPUs; []: unknown, or not of a TPU
    device_kind: str  # `cpu`, or as the platform names it, such as `TPU v6 lite`
    device_count: Size  # devices of the mesh
    host_count: Size = 1  # processes, one a host
    repeat: Count = 0  # number of the repetition
    warmup_requests: Count  # before the profiler started
    requests: list[RequestTiming]  # profiled; [] of a server
    server: ServerLog | None = None  # None: no serving experiment
    # Of the last profiled request: batch x output_tokens; [] for a sequence on another host's devices.
    tokens: list[list[int]]
    tokens_match_unsharded: bool | None = None  # None: not compared
    flags: dict[str, str] = {}  # XLA_FLAGS and other variables that affect the run
    parameters: Count | None = None  # of the whole model
    weight_bytes: Count | None = None  # of all parameters, over all devices, each counted once
    kv_bytes_per_token: Count | None = None  # keys and values of one token of one sequence
    # of the output head; a head tied to the embedding has its weights
    head_weights: Count | None = None
    logit_positions: Count | None = None  # of a sequence, whose logits a prefill computes
    stage_layers: list[list[Count]] = []  # of a pipeline: [stage] -> its layers
    tick_microbatch: list[list[Count | None]] = []  # [tick][stage] -> microbatch; None: masked
    plan_entry: dict[str, Any] = {}  # the experiment of the plan, with defaults
    warnings: list[str] = []  # one sentence each
    # Cost of the profiler: the median over decode steps of (with - without) / without, on the host's
    # clock.
    profiler_cost_ratio: float | None = None
    # Lower and upper quartile of the same ratios: with 0 between them, the cost is noise.
    profiler_cost_quartiles: list[float] = []
    profiler_cost_unknown: str | None = None  # why the ratio is null
    cost_pairs: Count = 0  # decode steps compared
    # What the host did for the profiled decode steps.
    dispatch_depth: Count | None = (
        None  # steps sent before the tokens of an earlier one are awaited
    )
    host_step_s: float | None = None  # CPU time of the thread that sends a step: the median
    # of all programs, over prefills and decode steps; of a server its steps
    launches_per_step: float | None = None
    # Share of steps that were sent when the devices had ended all earlier ones: they waited for the host.
    host_late_ratio: float | None = None
    # Programs that were compiled before profiling; others came from the folder of an earlier capture.
    programs_compiled: Count | None = None
    # Experiments that the same process ran before, whose programs the trace has too; they were not launched.
    jobs_before: Count = 0
    # bfloat16: distance of the prefill's logits from the unsharded model's (root mean square over
    # the vocabulary, in standard deviations of these), and its limit.
    logits_difference: float | None = None
    logits_tolerance: float | None = None  # in the same unit

    @property
    def measured_ttft_s(self) -> float | None:
        """Mean host-clock TTFT over the profiled requests, in seconds."""
        return _mean([timing.ttft_s for timing in self.requests])

    @property
    def measured_tpot_s(self) -> float | None:
        """Mean host-clock TPOT over the profiled requests, in seconds."""
        return _mean([timing.tpot_s for timing in self.requests if timing.tpot_s is not None])


def manifest_path(trace_dir: Path) -> Path:
    """The manifest's place for a `trace_<timestamp>.trace` folder.

    Raises:
        ManifestError: the folder does not have the name of a capture.
    """
    match = TRACE_DIR.match(trace_dir.name)
    if match is None:
        raise ManifestError(f"{trace_dir}: not a capture; its name is not trace_<timestamp>.trace")
    return trace_dir.with_name(f"metadata_{match['timestamp']}.json")


def metadata_path(compiled_dir: Path) -> Path:
    """The manifest's place for a `compiled_<timestamp>` folder."""
    return compiled_dir.with_name(f"metadata_{compiled_dir.name.removeprefix('compiled_')}.json")


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write as indented JSON; readers see the complete file or no file."""
    draft = path.with_name(f".{path.name}.partial")
    draft.write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
    draft.replace(path)


def decode_manifest(raw: bytes, where: str) -> Manifest:
    """Decode and validate.

    Raises:
        ManifestError: names the wrong field.
    """
    _check_version(raw, where)
    try:
        manifest = msgspec.json.decode(raw, type=Manifest)
        captured = datetime.datetime.fromisoformat(manifest.captured_at)
        if captured.tzinfo is None or not 1970 <= captured.year < 2200:
            raise ValueError(f"captured_at {manifest.captured_at}: not a time with a time zone")
        check_mesh_size(axis.size for axis in manifest.mesh)
        _check_sizes(manifest)
    except (*JSON_FAULTS, ValueError, ManifestError) as error:
        raise ManifestError(
            f"{where}: {error}; correct the field, or move the file away"
        ) from error
    return manifest


def _check_sizes(manifest: Manifest) -> None:
    """Refuse sizes whose products do not fit a column.

    Raises:
        ValueError: states the field.
    """
    tokens = (manifest.prompt_tokens or 0) + (manifest.output_tokens or 0)
    sizes = (manifest.batch_size, tokens, manifest.hidden_size, manifest.layers)
    if math.prod(max(1, size) for size in sizes) > _MOST_ELEMENTS:
        raise ValueError(
            "batch_size, tokens, hidden_size and layers: no machine holds their product"
        )
    for name, value in manifest.model_config.items():
        if isinstance(value, int) and abs(value) > _MOST_IN_CONFIG:
            raise ValueError(f"model_config: {name} is beyond any model's")


def check_mesh_size(sizes: Iterable[int]) -> None:
    """Refuse a mesh of more devices than any machine has: its places are listed.

    Raises:
        ManifestError: it starts with the field.
    """
    devices = math.prod(sizes)
    if devices > most("mesh_devices"):
        shown = f"{devices:,}" if devices < 1 << 62 else "2^62 or more"
        raise ManifestError(f"mesh: {shown} devices are {exceeded('mesh_devices')}")


class _Versioned(msgspec.Struct):
    manifest_version: int = MANIFEST_VERSION  # of the format that the file is written in


def _check_version(raw: bytes, where: str) -> None:
    try:
        found = msgspec.json.decode(raw, type=_Versioned).manifest_version
    except JSON_FAULTS:
        return  # reported when the whole is decoded
    if found > MANIFEST_VERSION:
        raise ManifestError(
            f"{where}: manifest_version {found} is newer than this xlahouse knows ({MANIFEST_VERSION}); "
            "update xlahouse"
        )


AXIS_NAMES = ("dp", "ep", "fsdp", "pp", "sp", "tp")  # axes that a plan knows


def parse_mesh(text: str) -> list[MeshAxis]:
    """`tp=4,dp=2` (major to minor) -> axes.

    Raises:
        ManifestError: the text does not have that form.
    """
    axes = []
    for part in text.split(","):
        name, equals, size = part.strip().partition("=")
        if not equals or not name.isidentifier() or not _is_size(size):
            raise ManifestError(f"mesh {text!r}: write axes as NAME=SIZE, such as dp=2,tp=4")
        axes.append(MeshAxis(name, int(size)))
    names = [axis.axis for axis in axes]
    if len(set(names)) < len(names):
        raise ManifestError(f"mesh {text!r}: an axis occurs twice")
    return axes


def _is_size(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 9 and int(text) >= 1


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
