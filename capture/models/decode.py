"""Greedy generation with a static cache: a prefill, then one token a step; a launch each."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from xlahouse.capture.models.parallel import holding
from xlahouse.capture.models.pipeline import run_pipeline

if TYPE_CHECKING:
    import torch
    from torch_xla.distributed.spmd import XLAShard

    from xlahouse.capture.models.sharded import ShardedModel

ELSEWHERE = -(2**20)  # marks tokens and logits that only another host's devices have
LOGIT_POSITIONS = 1  # of a sequence, whose logits a step computes: the last
TOKENS = ("pp", "batch", None)  # [stages, batch, tokens]; a pipeline's tokens are stage 0's


class Marker(Protocol):
    """Opens the marker of a step: 0 is the prefill, k the k-th decode."""

    def __call__(self, step: int) -> AbstractContextManager[object]: ...


class Generator:
    """Runs requests through a sharded model; every step is traced, launched and awaited in turn."""

    def __init__(self, sharded: ShardedModel, output_tokens: int) -> None:
        self.sharded, self.output_tokens = sharded, output_tokens

    def run(self, prompt: torch.Tensor, marker: Marker) -> tuple[torch.Tensor, list[float]]:
        """Generate greedily from `prompt` ([batch, prompt_tokens], on the host).

        Returns the tokens, [batch, output_tokens] on the host, and each step's host-clock
        duration in seconds: the prefill's from the start of its marker, a decode step's from the
        previous tokens, until its tokens are on the host.
        """
        import torch
        import torch_xla

        columns, durations = [], []
        last = time.perf_counter()
        for step in range(self.output_tokens):
            with marker(step), torch.no_grad():
                if step == 0:
                    tokens, positions = self.begin(prompt)
                tokens, positions = self._step(tokens, positions)
                torch_xla.sync(wait=True)  # shards cannot be read earlier
                columns.append(fetch(tokens))
            now = time.perf_counter()
            durations.append(now - last)
            last = now
        return torch.cat(columns, dim=1), durations

    def begin(self, prompt: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The prompt and its positions on the mesh."""
        import torch

        layout = self.sharded.layout
        copies = prompt[None].expand(layout.size("pp"), -1, -1).contiguous()
        positions = torch.arange(prompt.shape[1]).to(layout.device)
        return layout.place(copies.to(layout.device), TOKENS), layout.place(positions, (None,))

    def _step(
        self, tokens: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The next tokens, [stages, batch, 1], and their position, [1], as one lazy graph."""
        layout = self.sharded.layout
        places = layout.enter(positions)
        logits = self.logits(layout.enter(tokens)[0], places)
        chosen = logits[:, -1].argmax(-1, keepdim=True)
        return layout.leave(chosen[None], TOKENS), layout.leave(places[-1:] + 1, (None,))

    def logits(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """Each device's logits of the last position, [own sequences, 1, vocab].

        Shapes: tokens [own sequences, tokens of the step], positions [tokens of the step].
        """
        sharded = self.sharded
        model, layout, cache = sharded.model, sharded.layout, sharded.cache
        with (
            sharded.parallel.step(tokens.shape[1] > 1),
            cache.opened(layout, positions),
            holding(model, sharded.placed.shards(layout)),
        ):
            if sharded.stages.count > 1:
                return run_pipeline(
                    model,
                    tokens,
                    positions,
                    cache,
                    sharded.own_place("pp"),
                    sharded.collectives,
                    sharded.stages,
                    sharded.microbatches,
                )
            return model(
                input_ids=tokens,
                attention_mask=cache.mask(),
                position_ids=positions[None],
                cache=cache,
                use_cache=True,
                logits_to_keep=LOGIT_POSITIONS,
                query_positions=positions,
            ).logits


def prefill_logits(sharded: ShardedModel, prompt: torch.Tensor) -> torch.Tensor:
    """Logits after the prompt, [batch, vocab] on the host, by a separate program.

    The cache then contains the prompt, as after any prefill.
    """
    import torch
    import torch_xla

    generator = Generator(sharded, 1)
    layout = sharded.layout
    with torch.no_grad():
        tokens, positions = generator.begin(prompt)
        logits = generator.logits(layout.enter(tokens)[0], layout.enter(positions))
        whole = layout.leave(logits[:, -1][None], TOKENS)
        del logits, tokens, positions
        torch_xla.sync(wait=True)
    return fetch(whole)


def fetch(tokens: torch.Tensor) -> torch.Tensor:
    """Wait for [stages, batch, n] and copy stage 0's shards to the host: [batch, n].

    Sequences on the devices of another host are ELSEWHERE.

    Trap: for a sharded tensor `tokens.cpu()` compiles and runs a program with an all-gather at every
    call.
    """
    from torch_xla.distributed.spmd import wrap_if_sharded

    _, *shape = tokens.shape
    return join_shards(wrap_if_sharded(tokens).local_shards, shape)


def join_shards(shards: Iterable[XLAShard], shape: Sequence[int]) -> torch.Tensor:
    """This host's shards of stage 0, each at its place in [batch, n]."""
    import torch

    found: torch.Tensor | None = None
    for shard in shards:
        whole = not isinstance(shard.indices, list)
        stage, place = (slice(0, None),) * 2 if whole else shard.indices[:2]
        if not stage.start:
            if found is None:
                found = torch.full(tuple(shape), ELSEWHERE, dtype=shard.data.dtype)
            found[place] = shard.data[0]
    return torch.full(tuple(shape), ELSEWHERE) if found is None else found
