"""The input of ShardedModel: an architecture's sizes, the mesh, and the shapes of a step."""

from __future__ import annotations

from dataclasses import dataclass

from xlahouse.capture.models.families import Family
from xlahouse.capture.models.placing import Stages
from xlahouse.capture.models.presets import ConfigValue


@dataclass(frozen=True)
class Blueprint:
    """The fields of an experiment that decide a model's tensors and programs."""

    family: Family  # the architecture
    config: dict[str, ConfigValue]  # by transformers' names
    mesh: dict[str, int]  # axis -> size, major to minor
    stages: Stages  # how the layers are cut over `pp`
    microbatches: int  # of a pipeline; 1 without
    capacity_factor: float | None  # see register_experts
    dtype: str  # `float32` or `bfloat16`
    batch_size: int  # sequences over all devices
    length: int  # tokens of a sequence: prompt and output
    key_block: int | None = None  # keys that a prefill attends to at a time; None: by size
