"""Opens an experiment's weights, and builds the model for them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from xlahouse.capture.errors import CaptureError, ManifestError
from xlahouse.capture.models.blueprint import Blueprint
from xlahouse.capture.models.checkpoint import Checkpoint, find_checkpoint
from xlahouse.capture.models.checkpoint_config import settle
from xlahouse.capture.models.families import FAMILIES
from xlahouse.capture.models.presets import ConfigValue, find_preset, size_of
from xlahouse.capture.models.weights import RandomWeights, WeightSource, build_skeleton
from xlahouse.capture.plan import Experiment, check_experiment
from xlahouse.capture.run.job import say

if TYPE_CHECKING:
    from xlahouse.capture.models.modules import CausalModel


@dataclass(frozen=True)
class OpenedWeights:
    """An experiment's weights, and its model as they decide it."""

    source: WeightSource  # gives the weights by name
    experiment: Experiment  # as it runs: with the sizes of a checkpoint's config.json
    further: dict[str, ConfigValue]  # fields of config.json that presets lack
    notes: list[str]  # for the manifest, one sentence each

    @property
    def blueprint(self) -> Blueprint:
        """The fields that decide the sharded model."""
        blueprint = self.experiment.blueprint
        return replace(blueprint, config=blueprint.config | self.further)

    def skeleton(self) -> CausalModel:
        """The transformers model, without data."""
        return skeleton_of(self.experiment, self.further)


def open_weights(experiment: Experiment) -> OpenedWeights:
    """The experiment's weights: a checkpoint's, or drawn from its seed.

    Raises:
        CaptureError: the checkpoint is missing, or contradicts the plan.
    """
    model = experiment.model
    note = find_preset(model.preset).note
    notes = [f"{model.preset}: {note}"] if note else []
    if not model.weights:
        experts = size_of(model.sizes, "n_routed_experts")
        return _told(OpenedWeights(RandomWeights(experiment.seed, experts), experiment, {}, notes))
    say("progress", f"opening {model.weights}")
    folder = find_checkpoint(model.weights)
    settled = settle(folder, model.family, find_preset(model.preset).config, model.config)
    runs = _with_sizes(experiment, settled.config, folder)
    source = Checkpoint(folder, skeleton_of(runs, settled.further))
    return _told(OpenedWeights(source, runs, settled.further, [*notes, *settled.notes]))


def skeleton_of(
    experiment: Experiment, further: dict[str, ConfigValue] | None = None
) -> CausalModel:
    """The experiment's transformers model, without data."""
    family = FAMILIES[experiment.model.family]
    sizes = experiment.model.sizes | (further or {})
    return build_skeleton(family.model_class, family.name, sizes)


def _with_sizes(experiment: Experiment, config: dict[str, ConfigValue], folder: Path) -> Experiment:
    """The experiment with these sizes, checked again."""
    model = msgspec.structs.replace(experiment.model, config={**config})
    found = msgspec.structs.replace(experiment, model=model)
    try:
        check_experiment(found)
    except ManifestError as error:
        raise CaptureError(f"with {folder}/config.json: {error}") from error
    return found


def _told(opened: OpenedWeights) -> OpenedWeights:
    for note in opened.notes:
        say("warning", note)
    return opened
