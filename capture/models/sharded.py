"""A model on the mesh: its weights, its cache, and its collectives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xlahouse.capture.models.attention import ATTENTION, register_attention, rotate_pairs_as_reals
from xlahouse.capture.models.blueprint import Blueprint
from xlahouse.capture.models.cache import StaticCache
from xlahouse.capture.models.collectives import MeshCollectives
from xlahouse.capture.models.experts import EXPERTS, register_experts
from xlahouse.capture.models.parallel import Parallel, holding
from xlahouse.capture.models.placing import Placed, place_weights
from xlahouse.capture.models.sharding import Layout
from xlahouse.capture.models.weights import WeightSource, build_skeleton

if TYPE_CHECKING:
    import torch


class ShardedModel:
    """A model on its mesh; torch_xla is in SPMD mode."""

    def __init__(
        self,
        blueprint: Blueprint,
        source: WeightSource,
        collectives: MeshCollectives | None = None,
        placed: Placed | None = None,
    ) -> None:
        """`collectives` replace those of the blueprint's mesh on real devices; `placed` are weights of an
        equal model, which lie on an equal mesh."""
        import torch

        self.family = blueprint.family
        self.collectives = collectives or MeshCollectives(Layout(blueprint.mesh))
        self.layout = self.collectives.layout
        self.stages, self.microbatches = blueprint.stages, blueprint.microbatches
        register_attention(blueprint.key_block)
        register_experts(self.collectives, blueprint.capacity_factor)
        self.model = build_skeleton(self.family.model_class, self.family.name, blueprint.config)
        self.model.set_attn_implementation(ATTENTION)
        if self.family.name == "deepseek_v2":
            rotate_pairs_as_reals(self.model)
        if self.family.experts:
            self.model.set_experts_implementation(EXPERTS)
        self.placed = placed or place_weights(
            self.model, self.family, source, self.layout, blueprint.dtype, self.stages
        )
        self.source_label = source.label
        self.cache = self._cache(blueprint, getattr(torch, blueprint.dtype))
        self.cache.place(self.layout)
        self.places: dict[str, torch.Tensor] = {}
        for axis in self.layout.sizes:
            order = torch.arange(self.layout.sizes[axis]).to(self.layout.device)
            self.places[axis] = self.layout.place(order, (axis,))
        self.parallel = Parallel(
            self.model, self.family, self.layout, self.collectives, self.own_place
        )

    @contextmanager
    def step(self, prefill: bool, **where: torch.Tensor) -> Iterator[None]:
        """Trace a step in the block, under manual sharding: the model has each device's weights and cache.

        Args:
            prefill: of a prompt, which sp splits.
            where: in the cache the step's tokens go, as `StaticCache.opened` takes it.
        """
        with (
            self.parallel.step(prefill),
            self.cache.opened(self.layout, **where),
            holding(self.model, self.placed.shards(self.layout)),
        ):
            yield

    def own_place(self, axis: str) -> torch.Tensor:
        """[1], a device's own place along `axis`, under manual sharding."""
        return self.layout.enter(self.places[axis])

    def _cache(self, blueprint: Blueprint, dtype: torch.dtype) -> StaticCache:
        config = self.model.config
        slots = blueprint.length
        rates = getattr(config, "compress_rates", None)
        if rates:  # at least one window, and complete ones
            every = math.lcm(*rates.values())
            slots = math.ceil(slots / every) * every
            for layer in self.model.model.layers:
                compressor = layer.self_attn.compressor
                if compressor is not None:
                    compressor.static_entries = slots // compressor.compress_rate
        stacked = {
            layer: len(self.stages.stacked(layer) or [layer])
            for layer in range(config.num_hidden_layers)
            if self.stages.stacked(layer) != []
        }
        return StaticCache(self.family.name, config, stacked, (blueprint.batch_size, slots), dtype)
