"""Sources of weights, one tensor at a time: random, or (checkpoint.py) from files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from xlahouse.capture.models.drawing import Drawing, drawing
from xlahouse.capture.models.held import Box

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.modules import CausalModel
    from xlahouse.capture.models.presets import ConfigValue


class WeightSource(Protocol):
    """Provides parameters and persistent buffers by module path in the transformers model."""

    label: str  # for the manifest
    stored: bool  # in files, of which a part costs less than the whole

    def tensor(self, name: str, like: torch.Tensor, box: Box | None = None) -> torch.Tensor:
        """The tensor on the host, with the shape of `like` (which has no data). Outside of `box` a
        stored one is 0."""
        ...

    def drawing(self, name: str, like: torch.Tensor) -> Drawing | None:
        """How devices draw the tensor themselves; None: only the host has it."""
        ...


class RandomWeights:
    """Seeded weights that keep activations near 1, each drawn by its name and the element's indices.

    Norms are near 1 and biases near 0, but not equal, so that a sharding that omits one changes the
    tokens.
    """

    stored = False

    def __init__(self, seed: int, experts: int = 0) -> None:
        self.seed, self.experts = seed, experts
        self.label = f"random:{seed}"

    def tensor(self, name: str, like: torch.Tensor, box: Box | None = None) -> torch.Tensor:
        """Draw it whole; it depends on name and seed alone."""
        if not like.is_floating_point():  # deepseek_v4: the experts of each token id, distinct
            order = self._draw(name, (like.shape[0], self.experts), 1.0).tensor().argsort(-1)
            return order[:, : like.shape[1]].to(like.dtype)
        matrix = self.drawing(name, like)
        if matrix is not None:
            return matrix.tensor()
        drawn = self._draw(name, like.shape, 0.1).tensor()
        return drawn + (1.0 if re.search(r"norm\.weight$|scale$", name) else 0.0)

    def drawing(self, name: str, like: torch.Tensor) -> Drawing | None:
        """That of a matrix; rows of the embedding have deviation 1, other rows length 1."""
        plain = like.dim() < 2 or not like.is_floating_point()
        if plain or name.endswith("position_bias"):
            return None
        embedding = name.endswith("embed_tokens.weight")
        return self._draw(name, like.shape, 1.0 if embedding else like.shape[-1] ** -0.5)

    def _draw(self, name: str, shape: Sequence[int], deviation: float) -> Drawing:
        return drawing(f"{self.seed}:{name}", shape, deviation)


def build_skeleton(model_class: str, family: str, config: dict[str, ConfigValue]) -> CausalModel:
    """The transformers model without data except rotary frequencies, in evaluation mode."""
    import torch
    import transformers
    from transformers.initialization import no_init_weights

    settings = transformers.AutoConfig.for_model(family, **config)
    with torch.device("meta"), no_init_weights():
        model: CausalModel = getattr(transformers, model_class)(settings)
    model.tie_weights()  # which transformers does where it initializes them
    fill_frequencies(model)
    return model.eval()


def fill_frequencies(model: CausalModel) -> None:
    """Compute the buffers that checkpoints lack: those of the rotary embeddings."""
    fresh: dict[tuple[type, int], torch.nn.Module] = {}  # many layers have the same
    for module in model.modules():
        transient = [name for name in module._buffers if name in module._non_persistent_buffers_set]
        if transient:
            kind = type(module), id(module.config)
            if kind not in fresh:
                fresh[kind] = kind[0](module.config)
            for name in transient:
                module._buffers[name] = fresh[kind]._buffers[name].clone()


def stored_tensors(model: CausalModel) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters and persistent buffers by name, tied ones under each of their names."""
    yield from model.state_dict(keep_vars=True).items()


def stored_dtype(model: CausalModel, name: str, tensor: torch.Tensor, dtype: str) -> torch.dtype:
    """The run's dtype, except float32 where the model requires it; integers keep theirs."""
    import torch

    if not tensor.is_floating_point():
        return tensor.dtype
    kept = getattr(model, "_keep_in_fp32_modules_strict", None) or ()
    if any(
        re.search(rf"(^|\.){part}($|\.)".replace(r"gate.weight", r"gate\.weight"), name)
        for part in kept
    ):
        return torch.float32
    wanted: torch.dtype = getattr(torch, dtype)
    return wanted


def fill_on_host(model: CausalModel, source: WeightSource, dtype: str) -> CausalModel:
    """Fill a skeleton with the source's weights on the host: the unsharded model."""
    import torch

    filled: dict[int, torch.nn.Parameter] = {}  # tied tensors stay one
    for name, empty in list(stored_tensors(model)):
        parent, _, last = name.rpartition(".")
        module = model.get_submodule(parent)
        if id(empty) not in filled:
            data = source.tensor(name, empty).to(stored_dtype(model, name, empty, dtype))
            filled[id(empty)] = torch.nn.Parameter(data, requires_grad=False)
        if last in module._parameters:
            module._parameters[last] = filled[id(empty)]
        else:
            module._buffers[last] = filled[id(empty)].data
    return model
