"""Greedy generation with a static cache: a prefill, then a token a step, one launch for each."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from xlahouse.capture.sharding import CACHE, TOKENS

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models import ModelSizes
    from xlahouse.capture.plan import Experiment
    from xlahouse.capture.sharding import Layout


class Marker(Protocol):
    """Opens the marker of a step: 0 is the prefill, k the k-th decode."""

    def __call__(self, step: int) -> AbstractContextManager[Any]: ...


class StaticCache:
    """Keys and values of every layer, in tensors whose shapes never change.

    Each is [batch, kv_heads, slots, head_dim], with a slot for every token of prompt and output.
    Slots beyond the current position are masked, so a new request need not clear them.
    """

    def __init__(self, sizes: ModelSizes, experiment: Experiment, layout: Layout) -> None:
        import torch
        import torch_xla

        slots = experiment.prompt_tokens + experiment.output_tokens
        shape = (experiment.batch_size, sizes.num_key_value_heads, slots, sizes.head_dim)
        device, dtype = torch_xla.device(), getattr(torch, experiment.dtype)
        self.keys, self.values = (
            [
                layout.place(torch.zeros(shape, dtype=dtype, device=device), CACHE)
                for _ in range(sizes.num_hidden_layers)
            ]
            for _ in range(2)
        )
        self.slots = torch.arange(slots, device=device)
        self.positions: torch.Tensor | None = None  # [tokens of the step], set before each step

    def update(
        self, key: torch.Tensor, value: torch.Tensor, layer: int, **_: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Store a step's keys and values at its positions; transformers calls this."""
        self.keys[layer].index_copy_(2, self.positions, key)
        self.values[layer].index_copy_(2, self.positions, value)
        return self.keys[layer], self.values[layer]

    def mask(self) -> torch.Tensor:
        """What to add to the scores, [1, 1, tokens, slots]: 0 up to each position, else -inf."""
        import torch

        assert self.positions is not None
        visible = self.slots[None, :] <= self.positions[:, None]
        return torch.where(visible, 0.0, float("-inf"))[None, None].to(self.keys[0].dtype)


class Generator:
    """Runs requests through a sharded model; every step is traced, launched and awaited in turn."""

    def __init__(self, model: torch.nn.Module, experiment: Experiment, layout: Layout) -> None:
        self.model, self.layout = model, layout
        self.output_tokens = experiment.output_tokens
        self.cache = StaticCache(experiment.model.sizes, experiment, layout)

    def run(self, prompt: torch.Tensor, marker: Marker) -> tuple[torch.Tensor, list[float]]:
        """Generate greedily from `prompt` ([batch, prompt_tokens], on the host).

        Returns the tokens, [batch, output_tokens] on the host, and each step's host-clock
        duration in seconds, from the start of its marker to its tokens on the host; a decode step
        counts from the tokens of the step before.
        """
        import torch
        import torch_xla

        device, columns, durations = torch_xla.device(), [], []
        last = time.perf_counter()
        for step in range(self.output_tokens):
            with marker(step), torch.no_grad():
                if step == 0:
                    tokens = self.layout.place(prompt.to(device), TOKENS)
                    positions = torch.arange(prompt.shape[1], device=device)
                tokens, positions = self._step(tokens, positions)
                torch_xla.sync(wait=True)  # shards cannot be read before
                columns.append(self._fetch(tokens))
            now = time.perf_counter()
            durations.append(now - last)
            last = now
        return torch.cat(columns, dim=1), durations

    def _step(
        self, tokens: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The next tokens, [batch, 1], and their position, [1]: all of it one lazy graph."""
        self.cache.positions = positions
        logits = self.model(
            input_ids=tokens,
            attention_mask={"full_attention": self.cache.mask()},
            position_ids=positions[None],
            cache=self.cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits
        return self.layout.place(logits[:, -1].argmax(-1, keepdim=True), TOKENS), positions[-1:] + 1

    def _fetch(self, tokens: torch.Tensor) -> torch.Tensor:
        """Wait for the tokens and copy each shard to the host: [batch, 1].

        Never `tokens.cpu()`: for a sharded tensor torch_xla compiles and runs a program with an
        all-gather at every call, which no plan asked for.
        """
        import torch
        from torch_xla.distributed.spmd import wrap_if_sharded

        sharded = wrap_if_sharded(tokens)
        rows = {}
        for shard in sharded.local_shards:
            place = shard.indices[0] if isinstance(shard.indices, list) else slice(0, None)
            rows[place.start or 0] = shard.data
        return torch.cat([rows[start] for start in sorted(rows)])
