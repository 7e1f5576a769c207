"""Opens an experiment's weights, and builds the model for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlahouse.capture.models.checkpoint import Checkpoint, find_checkpoint
from xlahouse.capture.models.families import FAMILIES
from xlahouse.capture.models.presets import find_preset, size_of
from xlahouse.capture.models.weights import RandomWeights, WeightSource, build_skeleton
from xlahouse.capture.run.job import say

if TYPE_CHECKING:
    from xlahouse.capture.models.modules import CausalModel
    from xlahouse.capture.plan import Experiment


def open_weights(experiment: Experiment) -> WeightSource:
    """The experiment's weights: a checkpoint's, or drawn from its seed.

    Raises:
        CaptureError: the checkpoint is missing.
    """
    model = experiment.model
    for note in notes_on(experiment):
        say("warning", note)
    if not model.weights:
        return RandomWeights(experiment.seed, size_of(model.sizes, "n_routed_experts"))
    say("progress", f"opening {model.weights}")
    return Checkpoint(find_checkpoint(model.weights), skeleton_of(experiment))


def skeleton_of(experiment: Experiment) -> CausalModel:
    """The experiment's transformers model, without data."""
    family = FAMILIES[experiment.model.family]
    return build_skeleton(family.model_class, family.name, experiment.model.sizes)


def notes_on(experiment: Experiment) -> list[str]:
    """Notes for whoever runs the model, a line each."""
    preset = experiment.model.preset
    note = find_preset(preset).note
    return [f"{preset}: {note}"] if note else []
