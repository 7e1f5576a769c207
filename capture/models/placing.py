"""Puts a model's weights onto the mesh, tensor by tensor: the host has one at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.models.drawing import Drawing
from xlahouse.capture.models.families import Family, Spec, is_packed, parameter_spec
from xlahouse.capture.models.held import Box, covers, held_box
from xlahouse.capture.models.weights import WeightSource, stored_dtype, stored_tensors

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.modules import CausalModel
    from xlahouse.capture.models.sharding import Layout

# elements of a tensor that devices draw; for fewer the host is faster than a compiler
DRAWN = 2**20
LAYER = re.compile(r"^model\.layers\.(\d+)\.(.*)$")


@dataclass(frozen=True)
class Stages:
    """The stages of a pipeline; the `dense` leading layers run before them."""

    count: int  # of stages; 1: no pipeline
    dense: int  # leading layers that are not stacked
    per_stage: int  # stacked layers of a stage

    @property
    def layers(self) -> list[list[int]]:
        """The layers of each stage; empty without a pipeline."""
        if self.count == 1:
            return []
        firsts = [self.dense + stage * self.per_stage for stage in range(self.count)]
        return [list(range(first, first + self.per_stage)) for first in firsts]

    def stacked(self, layer: int) -> list[int] | None:
        """The layers stacked under `layer`'s name, one a stage; [] for a layer that is stacked under
        another's name; None for one that is not stacked."""
        if self.count == 1 or layer < self.dense:
            return None
        place = layer - self.dense
        if place >= self.per_stage:
            return []
        return [layer + stage * self.per_stage for stage in range(self.count)]

    def scope(self, path: str) -> str | None:
        """The scope of a module: its path, in a stacked layer with the layer's place in its stage;
        None for a module that is stacked under another's name."""
        match = LAYER.match(path + ".")
        layers = self.stacked(int(match[1])) if match else None
        if match is None or layers is None:
            return path
        place = int(match[1]) - self.dense
        return f"model.layers.{place}.{match[2]}".rstrip(".") if layers else None


@dataclass
class Placed:
    """Weights on the mesh, by the name of the module's tensor that each replaces."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)  # module path -> tensor
    stacked: set[str] = field(default_factory=set)  # tensors with a leading dimension of stages
    parameters: int = 0  # of the whole model; tied ones count once
    weight_bytes: int = 0  # of `parameters`

    def shards(self, layout: Layout) -> dict[str, torch.Tensor]:
        """Each device's own shards, under manual sharding."""
        entered: dict[int, torch.Tensor] = {}  # a tied tensor enters once
        shards = {}
        for name, tensor in self.tensors.items():
            if id(tensor) not in entered:
                shard = layout.enter(tensor)
                entered[id(tensor)] = shard[0] if name in self.stacked else shard
            shards[name] = entered[id(tensor)]
        return shards


def place_weights(
    model: CausalModel,
    family: Family,
    source: WeightSource,
    layout: Layout,
    dtype: str,
    stages: Stages,
) -> Placed:
    """Put every tensor of the skeleton `model` onto the mesh, from `source`."""
    import torch

    placed = Placed()
    done: dict[int, torch.Tensor] = {}
    parameters = {id(parameter) for parameter in model.parameters()}
    for name, empty in stored_tensors(model):
        names = _sources(name, stages)
        if not names:
            continue
        if id(empty) not in done:
            kept = stored_dtype(model, name, empty, dtype)
            whole = _drawn(family, source, layout, name, empty, names, kept)
            if whole is None:
                boxes = _boxes(family, source, layout, name, empty, len(names))
                parts = [
                    source.tensor(each, empty, box).to(kept)
                    for each, box in zip(names, boxes, strict=True)
                ]
                joined, spec = _laid_out(family, layout, name, parts)
                whole = layout.place(joined.to(layout.device), spec)
                _check_read(name, whole, boxes)
            done[id(empty)] = whole
            if id(empty) in parameters:
                count = empty.numel() * len(names)
                placed.parameters += count
                placed.weight_bytes += count * whole.element_size()
        placed.tensors[name] = done[id(empty)]
        if len(names) > 1:
            placed.stacked.add(name)
    for name, frequencies in _frequencies(model):
        placed.tensors[name] = layout.place(
            torch.clone(frequencies).to(layout.device), (None,) * frequencies.dim()
        )
    return placed


def _boxes(
    family: Family,
    source: WeightSource,
    layout: Layout,
    name: str,
    empty: torch.Tensor,
    stages: int,
) -> list[Box | None]:
    """What this host's devices hold of a stored tensor, of each stage's; None: all of it."""
    own = layout.own_devices if source.stored else None
    if own is None:
        return [None] * stages
    return boxes_of_stages(family, layout, name, empty.shape, stages, own)


def _check_read(name: str, whole: torch.Tensor, boxes: list[Box | None]) -> None:
    """Refuse a placed tensor of which a device of this host has more than was read."""
    read = [box for box in boxes if box is not None]
    if not read:
        return
    import torch_xla  # a forecast needs none, and it takes seconds to load

    (shards,) = torch_xla._XLAC._get_local_shard_replica_and_indices([whole])
    for _, indices in shards:
        found = [slice(0, size) for size in whole.shape] if indices is ... else indices
        if not covers(read, found):
            raise CaptureError(
                f"{name}: a device of this host holds {found}, of which only {read} was read; the "
                "runtime numbers its devices in another order than the mesh"
            )


def boxes_of_stages(
    family: Family,
    layout: Layout,
    name: str,
    shape: Sequence[int],
    stages: int,
    own: Sequence[int],
) -> list[Box | None]:
    """What the devices `own` hold of a tensor of each stage; an empty box of other hosts' stages."""
    spec = layout.spec(parameter_spec(family, name) or (None,) * len(shape))
    box = held_box(layout.sizes, spec, shape, own)
    if is_packed(name) and shape[1] > 1:  # gate and up rows are dealt to the devices in turn
        box = (box[0], slice(0, shape[1]), *box[2:])
    if stages == 1:
        return [box]
    (held,) = held_box(layout.sizes, layout.spec(("pp",)), (stages,), own)
    none = tuple(slice(0, 0) for _ in shape)
    return [box if held.start <= stage < held.stop else none for stage in range(stages)]


def _sources(name: str, stages: Stages) -> list[str]:
    """The names whose tensors are stacked under `name`: one for each stage, or itself."""
    match = LAYER.match(name)
    layers = stages.stacked(int(match[1])) if match else None
    if match is None or layers is None:
        return [name]
    return [f"model.layers.{layer}.{match[2]}" for layer in layers]


def _drawn(
    family: Family,
    source: WeightSource,
    layout: Layout,
    name: str,
    empty: torch.Tensor,
    names: list[str],
    dtype: torch.dtype,
) -> torch.Tensor | None:
    """The tensor as the devices draw it, each its own shard; None for what the host provides."""
    drawings = [source.drawing(each, empty) for each in names] if empty.numel() >= DRAWN else []
    found = [each for each in drawings if each is not None]
    if not found:
        return None
    import torch_xla  # a forecast needs none, and it takes seconds to load

    def words(parts: list[torch.Tensor]) -> torch.Tensor:
        joined, spec = _laid_out(family, layout, name, parts)
        kept = [axes if size > 1 else None for axes, size in zip(spec, joined.shape, strict=True)]
        return layout.place(joined.to(layout.device), tuple(kept))

    scale = layout.place(found[0].scale.to(layout.device), (None,))
    on_devices = Drawing(
        rows=(words([each.rows[0] for each in found]), words([each.rows[1] for each in found])),
        columns=(
            words([each.columns[0] for each in found]),
            words([each.columns[1] for each in found]),
        ),
        scale=scale,
    )
    whole = on_devices.tensor().to(dtype)
    _, spec = _laid_out(family, layout, name, [empty] * len(found))
    layout.place(whole, spec)
    torch_xla.sync()  # a program for each shape, not one for all weights
    return whole


def _laid_out(
    family: Family, layout: Layout, name: str, parts: list[torch.Tensor]
) -> tuple[torch.Tensor, Spec]:
    """The tensor for the devices from those of its stages, and its spec."""
    import torch

    spec = parameter_spec(family, name) or (None,) * parts[0].dim()
    if is_packed(name) and parts[0].shape[1] > 1:
        parts = [_interleave(part, layout.size(layout.tensor_axis)) for part in parts]
    if len(parts) == 1:
        return parts[0], spec
    return torch.stack(parts), ("pp", *spec)


def _interleave(packed: torch.Tensor, devices: int) -> torch.Tensor:
    """[experts, gate rows then up rows, hidden] -> each device's gate rows and up rows together."""
    experts, rows, hidden = packed.shape
    parts = packed.view(experts, 2, devices, rows // 2 // devices, hidden)
    return parts.transpose(1, 2).reshape(experts, rows, hidden)


def _frequencies(model: CausalModel) -> list[tuple[str, torch.Tensor]]:
    """Buffers that no checkpoint has."""
    stored = set(model.state_dict())
    return [(name, buffer) for name, buffer in model.named_buffers() if name not in stored]
