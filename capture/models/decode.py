"""Greedy generation with a static cache: a prefill, then one token a step; a launch each."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from xlahouse.capture.models.pipeline import run_pipeline
from xlahouse.capture.models.replay import ReplayedProgram

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


@dataclass
class DecodeTimes:
    """Times of one request's steps on the host, in seconds."""

    # [step] the prefill's from the start of its marker, a decode step's from the previous tokens, until
    # its tokens are on the host
    steps: list[float] = field(default_factory=list)
    # [decode step] CPU time of the thread that sends it
    sending: list[float] = field(default_factory=list)
    late: int = 0  # decode steps that were sent when the devices had ended all earlier ones


def late_ratio(requests: Sequence[DecodeTimes]) -> float | None:
    """Share of decode steps that were sent late; None without decode steps."""
    decodes = sum(len(each.sending) for each in requests)
    return sum(each.late for each in requests) / decodes if decodes else None


class Generator:
    """Runs requests through a sharded model; each kind of step is traced once and then replayed."""

    def __init__(self, sharded: ShardedModel, output_tokens: int, ahead: int = 0) -> None:
        """`ahead`: decode steps that are sent before the tokens of an earlier one are awaited."""
        self.sharded, self.output_tokens, self.ahead = sharded, output_tokens, ahead
        self._programs: dict[
            int, ReplayedProgram
        ] = {}  # tokens of a sequence in a step -> its program

    def run(
        self, prompt: torch.Tensor, marker: Marker, output_tokens: int | None = None
    ) -> tuple[torch.Tensor, DecodeTimes]:
        """Generate greedily from `prompt` ([batch, prompt_tokens], on the host).

        Returns the tokens, [batch, output_tokens] on the host, and the steps' times; `output_tokens`
        replaces the generator's. The first request compiles. Prefill is awaited before the first decode
        step is sent.
        """
        import torch

        flight = InFlight()
        for step in range(output_tokens or self.output_tokens):
            with marker(step):
                if step == 0:
                    tokens, positions = self.begin(prompt)
                program = self._program(tokens, positions)
                flight.start(step)
                tokens, positions = program.launch(tokens, positions)
                flight.sent(step, tokens)
                while flight.waiting > (self.ahead if step else 0):
                    flight.receive()
        while flight.waiting:
            flight.receive()
        return torch.cat(flight.columns, dim=1), flight.times

    def _program(self, tokens: torch.Tensor, positions: torch.Tensor) -> ReplayedProgram:
        """The program for a step of as many tokens."""
        count = tokens.shape[-1]
        if count not in self._programs:
            cache = self.sharded.cache.whole
            self._programs[count] = ReplayedProgram(self._step, cache, tokens, positions)
        return self._programs[count]

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
        model, cache = sharded.model, sharded.cache
        with sharded.step(prefill=tokens.shape[1] > 1, positions=positions):
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


class InFlight:
    """Tokens that are under way, and the times at which they reach the host. Launches count from 0."""

    def __init__(self) -> None:
        self.columns: list[torch.Tensor] = []  # [batch, 1] of each step that has arrived
        self.times = DecodeTimes()
        self._flight: deque[torch.Tensor] = deque()
        self._last, self._cpu = time.perf_counter(), 0.0
        self._before = launches_ended()

    @property
    def waiting(self) -> int:
        """Steps that were sent and whose tokens are not on the host."""
        return len(self._flight)

    def start(self, step: int, late: bool = True) -> None:
        """A step is about to be sent; with `late` it counts where the devices have nothing left to do."""
        if step and late and launches_ended(wait=False) - self._before >= step:
            self.times.late += 1
        self._cpu = time.thread_time()

    def sent(self, step: int, tokens: torch.Tensor) -> None:
        """The step was sent; `tokens` are its results."""
        if step:
            self.times.sending.append(time.thread_time() - self._cpu)
        self._flight.append(tokens)

    def receive(self) -> None:
        """Wait for the oldest step's tokens."""
        import torch_xla

        # A launch has its buffers when the next one was sent; the last one is waited for.
        if len(self._flight) == 1:
            torch_xla._XLAC._xla_wait_device_ops([])
        self.columns.append(fetch(self._flight.popleft()))
        now = time.perf_counter()
        self.times.steps.append(now - self._last)
        self._last = now


def launches_ended(wait: bool = True) -> int:
    """Launches that the devices have ended since this process started, from torch_xla's metrics.

    A thread of the runtime counts a launch after it ends, perhaps after its results are there. With `wait`
    all launches are awaited first: otherwise the next reading would include the last one.
    """
    import torch_xla.core.xla_model as xm
    import torch_xla.debug.metrics as met

    if wait:
        xm.wait_device_ops()
    found = (met.metric_data(name) for name in ("ExecuteReplicatedTime", "ExecuteTime"))
    return sum(int(data[0]) for data in found if data)


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
