"""Reads a plan: the experiments to capture, all checked before the first starts."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from xlahouse.capture.errors import CaptureError, ManifestError
from xlahouse.capture.feasible import Candidate, check_feasible, stages_of
from xlahouse.capture.manifest import MeshAxis
from xlahouse.capture.models.blueprint import Blueprint
from xlahouse.capture.models.families import FAMILIES
from xlahouse.capture.models.placing import Stages
from xlahouse.capture.models.presets import ConfigValue, find_preset, model_config, size_of
from xlahouse.capture.opening import read_regular
from xlahouse.capture.plan_forms import expand, parallelism_label
from xlahouse.capture.serving import AtLeastOne, Serving, check_serving, with_arrivals
from xlahouse.capture.slices import parse_slice
from xlahouse.capture.yaml_lines import line_of
from xlahouse.capture.yaml_values import YamlFault, yaml_values

# Module paths that become scopes of the profile; `*` is one segment of a path.
DEFAULT_SCOPES = (
    "model.embed_tokens",
    "model.layers.*",
    "model.layers.*.input_layernorm",
    "model.layers.*.self_attn",
    "model.layers.*.post_attention_layernorm",
    "model.layers.*.mlp",
    "model.layers.*.mlp.gate",
    "model.layers.*.mlp.experts",
    "model.layers.*.mlp.shared_experts",
    "model.norm",
    "lm_head",
)

PathName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]  # part of a path
AtLeastZero = Annotated[int, msgspec.Meta(ge=0)]


class Model(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model: a preset of capture/models/presets.yaml, and the sizes that differ from it."""

    name: PathName  # name of the folder of its captures
    preset: str  # a preset's name
    config: dict[str, object] = {}  # sizes that differ from the preset's, by transformers' names
    # a folder of safetensors files, or a repository of the hub; without it they are drawn from `seed`
    weights: str = ""

    @property
    def sizes(self) -> dict[str, ConfigValue]:
        """The preset's configuration with the plan's sizes on top, by transformers' names.

        Raises:
            ManifestError: no such preset, or a field that the preset lacks.
        """
        return model_config(self.preset, self.config)

    @property
    def family(self) -> str:
        """transformers' name of the architecture."""
        return find_preset(self.preset).family


class Experiment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One capture: a model, its mesh, and the requests that run."""

    name: PathName  # `--experiment` selects it; unique in the plan
    model: Model  # a preset's name, or a mapping with the keys of the last table
    # axis to size, major to minor: `{dp: 2, tp: 2}`; a single device is `{tp: 1}`
    mesh: dict[str, AtLeastOne]
    batch_size: AtLeastOne  # sequences over all devices
    prompt_tokens: AtLeastOne  # tokens of each prompt
    output_tokens: AtLeastOne  # tokens that each sequence generates; the prefill gives the first
    dtype: Literal["float32", "bfloat16"] = "float32"  # of weights, activations and cache
    warmup_requests: AtLeastZero = 2  # requests before the profiler starts; the first compiles
    requests: AtLeastOne = 2  # requests under the profiler
    # decode steps of each request under the profiler, and of warm-ups after the first: a trace of many
    # steps exceeds the tracer's buffers, or the 2 GiB of a file; `serving` has its own
    profiled_steps: AtLeastOne = 16
    seed: AtLeastZero = 0  # of prompts and random weights
    repeat: AtLeastZero = 0  # number of the repetition
    # module paths that become scopes of the profile; `*` is one segment
    scopes: tuple[str, ...] = DEFAULT_SCOPES
    microbatches: AtLeastOne = 1  # parts of a device's batch that pass through a pipeline in turn
    # places of an expert, as a multiple of its fair share of tokens; tokens beyond them are
    # dropped; null: places for all tokens
    capacity_factor: Annotated[float, msgspec.Meta(gt=0)] | None = None
    # decode steps that are sent before the tokens of an earlier one are awaited; null: 2 on a TPU; 0
    # on virtual devices, which a trace tells apart only while their launches do not overlap
    steps_ahead: AtLeastZero | None = None
    # keys that the prefill attends to at a time; null: as many as have at most 2^28 scores a device
    key_block: AtLeastOne | None = None
    # TPU type to run on, such as `v6e-8`, with as many chips as the mesh has devices; other devices
    # run it too
    slice: str = ""
    compare: bool = True  # compare the tokens with the unsharded model's, which runs on the host
    # a server with continuous batching: `batch_size` slots, in which requests come and go, with prompts
    # and outputs of at most `prompt_tokens` and `output_tokens`; see capture/run/README.md
    serving: Serving | None = None

    @property
    def placing(self) -> bytes:
        """Equal for experiments whose weights are the same and lie on the same devices in the same way."""
        weights = msgspec.structs.replace(
            self,
            name="any",
            batch_size=1,
            prompt_tokens=1,
            output_tokens=1,
            warmup_requests=0,
            requests=1,
            profiled_steps=1,
            repeat=0,
            microbatches=1,
            capacity_factor=None,
            steps_ahead=None,
            key_block=None,
            compare=False,
            serving=None,
        )
        return msgspec.json.encode(weights)

    @property
    def axes(self) -> list[MeshAxis]:
        """The mesh as the manifest lists it."""
        return [MeshAxis(axis, size) for axis, size in self.mesh.items()]

    @property
    def device_count(self) -> int:
        """Devices of the mesh."""
        return math.prod(self.mesh.values())

    @property
    def profiled_tokens(self) -> int:
        """Tokens that each sequence of a profiled request generates."""
        return min(self.output_tokens, self.profiled_steps + 1)

    @property
    def parallelism(self) -> str:
        """Label such as `dp2.tp2`; axes of size 1 are left out."""
        return parallelism_label(self.mesh)

    @property
    def stages(self) -> Stages:
        """How the mesh cuts the model's layers into stages."""
        return stages_of(self.mesh, FAMILIES[self.model.family], self.model.sizes)

    @property
    def candidate(self) -> Candidate:
        """The fields that decide whether it can run."""
        return Candidate(
            family=FAMILIES[self.model.family],
            config=self.model.sizes,
            mesh=self.mesh,
            batch_size=self.batch_size,
            prompt_tokens=self.prompt_tokens,
            microbatches=self.microbatches,
        )

    @property
    def blueprint(self) -> Blueprint:
        """The fields that decide the sharded model."""
        return Blueprint(
            family=FAMILIES[self.model.family],
            config=self.model.sizes,
            mesh=self.mesh,
            stages=self.stages,
            microbatches=self.microbatches,
            capacity_factor=self.capacity_factor,
            dtype=self.dtype,
            batch_size=self.batch_size,
            length=self.prompt_tokens + self.output_tokens,
            key_block=self.key_block,
        )

    @property
    def cell(self) -> Path:
        """Folder of its captures under the traces folder; seq is the prompt's length."""
        sizes = f"batch_{self.batch_size}_seq_{self.prompt_tokens}"
        return Path(self.model.name, self.parallelism, sizes)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan file: its name and its experiments, in order."""

    name: str  # of the plan
    experiments: tuple[Experiment, ...]  # in the file's order


class PlanFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The top level of a plan file, before its entries are expanded."""

    name: PathName = ""  # of the plan; without it the file's name
    # the experiments, each a mapping with the keys of the next table
    experiments: Annotated[list[dict[str, object]], msgspec.Meta(min_length=1)]
    defaults: dict[
        str, object
    ] = {}  # keys for all experiments; an experiment's own keys override them


def read_plan(path: Path) -> Plan:
    """Read and check a plan file.

    The file is a mapping with `name`, `experiments` (a list) and, where experiments share fields,
    `defaults` (a mapping that each experiment's own fields override). A list in a field is a sweep
    over its values; plan_forms.py has the fields, and reads the older form too.

    Raises:
        ManifestError: names the file, the line where known, and the wrong field.
    """
    text, raw = _read_mapping(path)
    experiments = tuple(
        experiment
        for index, entry in enumerate(raw.experiments)
        for experiment in _experiments(entry, raw.defaults, path, text, index)
    )
    names = [experiment.name for experiment in experiments]
    for name in names:
        if names.count(name) > 1:
            raise ManifestError(f"{path}: two experiments are named {name}; rename one")
    return Plan(name=raw.name or path.stem, experiments=experiments)


def _read_mapping(path: Path) -> tuple[str, PlanFile]:
    """The file's text and its top level."""
    try:
        text = read_regular(path).decode()
        raw = msgspec.convert(yaml_values(text), type=PlanFile)
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}; name a plan file") from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path}: not UTF-8 text; name a plan file") from error
    except YamlFault as error:
        raise ManifestError(error.at(path)) from error
    except msgspec.ValidationError as error:
        raise ManifestError(
            f"{path}: {error}; a plan has `name`, a list `experiments` and optionally `defaults`"
        ) from error
    return text, raw


def _experiments(
    entry: dict[str, object], defaults: dict[str, object], path: Path, text: str, index: int
) -> list[Experiment]:
    """Merge one entry with the defaults, expand its sweeps, convert and check them."""
    name = entry.get("name", index + 1)
    try:
        experiments = []
        for fields in expand(entry, defaults):
            name = fields.get("name", name)
            experiment = msgspec.convert(fields, type=Experiment)
            experiments.append(with_arrivals(experiment, path.parent, "requests" in fields))
            check_experiment(experiments[-1])
    except RecursionError as error:
        raise ManifestError(f"{path}: experiment {name}: contains itself; flatten it") from error
    except (msgspec.ValidationError, ManifestError) as error:
        # msgspec ends with the path, `… - at `$.mesh``; our own checks start with the field.
        path_text = re.search(r"at `\$\.([^`]*)`", str(error)) or re.match(r"(\w+)", str(error))
        steps = re.findall(r"\w+", path_text[1]) if path_text else []
        line = _nearest_line(text, index, tuple(steps))
        raise ManifestError(f"{path}, line {line}: experiment {name}: {error}") from error
    return experiments


def _nearest_line(text: str, index: int, steps: tuple[str, ...]) -> int | None:
    """Line of a field in its experiment or the defaults; else of the nearest parent."""
    for depth in range(len(steps), 0, -1):
        for root in (("experiments", index), ("defaults",)):
            line = line_of(text, (*root, *steps[:depth]))
            if line is not None:
                return line
    return line_of(text, ("experiments", index))


def check_experiment(experiment: Experiment) -> None:
    """Refuse an experiment that cannot run, before any process starts.

    Raises:
        ManifestError: starts with the wrong field and says what to try.
    """
    longest = size_of(experiment.model.sizes, "max_position_embeddings")
    check_feasible(experiment.candidate)
    if experiment.slice:
        _check_slice(experiment)
    length = experiment.prompt_tokens + experiment.output_tokens
    if length > longest:
        raise ManifestError(
            f"prompt_tokens: prompt and output are {length} tokens, more than the model's "
            f"max_position_embeddings {longest}"
        )
    check_serving(experiment)


def _check_slice(experiment: Experiment) -> None:
    try:
        chips = parse_slice(experiment.slice).chips
    except CaptureError as error:
        raise ManifestError(f"slice: {error}") from error
    if chips != experiment.device_count:
        raise ManifestError(
            f"slice: {experiment.slice} has {chips} chips, the mesh {experiment.device_count} "
            "devices; change one of the two"
        )
