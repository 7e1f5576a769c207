"""Caches of static shape, with a slot for every token of prompt and output."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from xlahouse.capture.models.attention import LARGEST_MASK, LONG_MASK, causal_bias
from xlahouse.capture.models.families import Spec

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.modules import TransformersConfig
    from xlahouse.capture.models.sharding import Layout


class Entry(msgspec.Struct, frozen=True):
    """One tensor of a layer's cache: [batch, ..., slots, ...] and its sharding."""

    name: str  # such as key, value or compressor.kv
    shape: tuple[int, ...]  # over all devices
    spec: Spec  # how it is sharded
    slots_at: int  # the dimension that counts slots


def layer_entries(
    family: str, config: TransformersConfig, layer: int, batch: int, slots: int
) -> list[Entry]:
    """The tensors that one layer stores.

    Grouped-query attention stores keys and values, latent attention (deepseek_v2, deepseek_v3) the
    compressed latent and the rotary key, deepseek_v4 its single key/value head and the inputs
    of its compressor and indexer.
    """
    heads: Spec = ("batch", None, None, None)
    if family in ("qwen2", "qwen3"):
        width = (
            getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        )
        shape = (batch, config.num_key_value_heads, slots, width)
        spec = ("batch", "tp", None, None)
        return [Entry("key", shape, spec, 2), Entry("value", shape, spec, 2)]
    if family in ("deepseek_v2", "deepseek_v3"):
        return [
            Entry("key", (batch, 1, slots, config.kv_lora_rank), heads, 2),
            Entry("value", (batch, 1, slots, config.qk_rope_head_dim), heads, 2),
        ]
    entries = [Entry("key", (batch, 1, slots, config.head_dim), heads, 2)]
    widths = {
        "heavily_compressed_attention": {"compressor": config.head_dim},
        "compressed_sparse_attention": {
            "compressor": 2 * config.head_dim,
            "indexer": 2 * config.index_head_dim,
        },
    }.get(config.layer_types[layer], {})
    for name, width in widths.items():
        for part in ("kv", "gate"):
            entry = Entry(f"{name}.{part}", (batch, slots, width), ("batch", None, None), 1)
            entries.append(entry)
    return entries


def bytes_per_token(family: str, config: TransformersConfig, dtype_bytes: int) -> int:
    """Bytes that all layers store for one token of one sequence."""
    return dtype_bytes * sum(
        math.prod(entry.shape)
        for layer in range(config.num_hidden_layers)
        for entry in layer_entries(family, config, layer, 1, 1)
    )


class StaticCache:
    """All layers' entries; transformers calls `update` (and deepseek_v4 the layers' own methods).

    Slots beyond a query's position are masked, so a new request need not clear them. In a pipeline
    the entries of stacked layers have a leading dimension of stages; `rows` are the sequences of the
    microbatch that is stored, and `valid` states whether the tick has one. A server's sequences have
    positions of their own: `places` in a decode step, and `into` for the sequence that a prefill stores.
    """

    def __init__(
        self,
        family: str,
        config: TransformersConfig,
        layers: dict[int, int],
        sizes: tuple[int, int],
        dtype: torch.dtype,
    ) -> None:
        """`layers` maps each layer to the stages that stack it (1: not stacked); `sizes` are batch
        and slots."""
        self.stages = layers
        self.entries = {
            (layer, entry.name): entry
            for layer in layers
            for entry in layer_entries(family, config, layer, *sizes)
        }
        self.slots, self.dtype = sizes[1], dtype
        self.window: int | None = config.sliding_window if family == "deepseek_v4" else None
        self.whole: dict[tuple[int, str], torch.Tensor] = {}
        self.held: dict[tuple[int, str], torch.Tensor] = {}
        self.positions: torch.Tensor | None = None  # [tokens of the step]
        self.rows: torch.Tensor | None = None  # [sequences of a microbatch]
        self.valid: torch.Tensor | None = None  # [1]
        self.places: torch.Tensor | None = None  # [own sequences]
        self.into: torch.Tensor | None = None  # [1], the own sequence; none where it is negative
        self.layers = _Layers(self)

    def place(self, layout: Layout) -> None:
        """Create the tensors, all zero, on the devices of `layout`."""
        import torch

        for key, entry in self.entries.items():
            stages = self.stages[key[0]]
            shape = entry.shape if stages == 1 else (stages, *entry.shape)
            spec = entry.spec if stages == 1 else ("pp", *entry.spec)
            zeros = torch.zeros(shape, dtype=self.dtype, device=layout.device)
            self.whole[key] = layout.place(zeros, spec)

    @contextmanager
    def opened(
        self,
        layout: Layout,
        positions: torch.Tensor | None = None,
        places: torch.Tensor | None = None,
        into: torch.Tensor | None = None,
    ) -> Iterator[None]:
        """Hold each device's shards inside the block, and store them after it."""
        self.positions, self.places, self.into = positions, places, into
        for key, whole in self.whole.items():
            shard = layout.enter(whole)
            self.held[key] = shard if self.stages[key[0]] == 1 else shard[0]
        try:
            yield
            for key, whole in self.whole.items():
                stacked = self.stages[key[0]] > 1
                shard = self.held[key][None] if stacked else self.held[key]
                spec = ("pp", *self.entries[key].spec) if stacked else self.entries[key].spec
                whole.copy_(layout.leave(shard, spec))
        finally:
            self.held.clear()
            self.positions = self.rows = self.valid = self.places = self.into = None

    def store(self, layer: int, name: str, tokens: torch.Tensor) -> torch.Tensor:
        """Store a step's tokens at their positions, and return all slots of their sequences."""
        import torch

        key = (layer, name)
        dim, held = self.entries[key].slots_at, self.held[key]
        if self.places is not None:
            self.held[key] = _stored_at(held, dim, self.places, tokens.to(held.dtype))
            return self.held[key]
        if self.into is not None:  # a prompt from its start: it attends to itself only
            self._store_prompt(key, tokens.to(held.dtype))
            return tokens.to(held.dtype)
        if self.rows is None or self.stages[layer] == 1:
            self.held[key] = held.index_copy(dim, self.positions, tokens.to(held.dtype))
            return self.held[key]
        before = held.index_select(0, self.rows)
        after = before.index_copy(dim, self.positions, tokens.to(held.dtype))
        after = torch.where(self.valid, after, before)
        self.held[key] = held.index_copy(0, self.rows, after)
        return after

    def _store_prompt(self, key: tuple[int, str], tokens: torch.Tensor) -> None:
        """Store a prompt's tokens, [1, ..., tokens, ...], in the sequence `into`, and in no other."""
        import torch

        assert self.into is not None
        held, row = self.held[key], self.into.clamp(min=0)
        before = held.index_select(0, row)
        after = before.index_copy(self.entries[key].slots_at, self.positions, tokens)
        self.held[key] = held.index_copy(0, row, torch.where(self.into >= 0, after, before))

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer: int, **_: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store a step's keys and values, and return all slots; transformers calls this."""
        keys = self.store(layer, "key", key)
        if (layer, "value") not in self.entries:
            return keys, keys
        return keys, self.store(layer, "value", value)

    def mask(self) -> torch.Tensor:
        """Bias of the scores: 0 for slots that a position attends to, else -inf.

        Shape [1, 1, tokens, slots], or for many tokens LONG_MASK: attention then makes it in blocks.
        deepseek_v4 joins it with masks that have a batch, so there it is whole and has a batch
        dimension too. Of a server's decode step it is [sequences, 1, 1, slots]; its prefill has no slots but
        the prompt's.
        """
        import torch

        if self.places is not None:
            slots = torch.arange(self.slots, device=self.places.device)
            return causal_bias(slots, self.places).to(self.dtype).transpose(0, 2)
        assert self.positions is not None
        count = self.slots if self.into is None else len(self.positions)
        slots = torch.arange(count, device=self.positions.device)
        if self.window is None:
            if len(self.positions) * count > LARGEST_MASK:
                return self.positions.new_zeros(1, 1, 1, LONG_MASK).to(self.dtype)
            return causal_bias(slots, self.positions).to(self.dtype)
        visible = slots <= self.positions[:, None]
        visible = visible & (slots > self.positions[:, None] - self.window)
        mask = torch.where(visible, 0.0, float("-inf"))[None, None].to(self.dtype)
        return mask.expand(next(iter(self.held.values())).shape[0], -1, -1, -1)


def _stored_at(
    held: torch.Tensor, dim: int, places: torch.Tensor, tokens: torch.Tensor
) -> torch.Tensor:
    """`held` with a token of each sequence at the sequence's own place.

    The dimensions before `dim` become one: XLA then scatters rows without a change of layout.

    Shapes: held [sequences, ..., slots, ...], places [sequences], tokens with one slot.
    """
    import torch

    flat = held.flatten(0, dim - 1)
    heads = flat.shape[0] // len(places)
    own = places[:, None].expand(-1, heads).reshape(-1)
    rows = torch.arange(flat.shape[0], device=places.device)
    written = flat.index_put((rows, own), tokens.flatten(0, dim - 1).squeeze(1))
    return written.reshape(held.shape)


class _Layers:
    """Gives deepseek_v4 its `cache.layers[i]`."""

    def __init__(self, cache: StaticCache) -> None:
        self.cache = cache

    def __getitem__(self, layer: int) -> _CompressedLayer:
        return _CompressedLayer(self.cache, layer)


class _CompressedLayer:
    """A layer whose compressor works on all slots at every step.

    transformers' cache appends an entry for each full window, which changes shapes. This one keeps
    the projections of all tokens, compresses every window at each step, and masks windows that are
    not full.
    """

    def __init__(self, cache: StaticCache, layer: int) -> None:
        self.cache, self.layer = cache, layer

    def store_compression_weights(
        self, name: str, kv: torch.Tensor, gate: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, int]:
        """Projections of all slots, [batch, slots, width] each, and the first window's position."""
        values = self.cache.store(self.layer, f"{name}.kv", kv)
        gates = self.cache.store(self.layer, f"{name}.gate", gate)
        return values, gates, 0

    def update_overlap_state(self, *_: object) -> tuple[None, None]:
        """All windows are stored, so the previous step leaves no state."""
        return None, None

    def update_compressor_states(self, _name: str, compressed: torch.Tensor) -> torch.Tensor:
        """All entries: there is nothing to append to."""
        return compressed
