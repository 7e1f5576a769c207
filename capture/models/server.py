"""The programs of a server with continuous batching: a decode step of all slots, and prefills into a slot.

Shapes are static, so the programs are few: one decode step, and one prefill for each padded length of a
prompt. Sequences have positions of their own. Tokens and positions of all slots stay on the devices; a
prefill replaces those of its slots. Each part of the batch (dp, ep, fsdp) prefills at most one prompt of a
launch, into one of its own slots.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xlahouse.capture.models.decode import TOKENS, fetch
from xlahouse.capture.models.replay import ReplayedProgram, Step

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.sharded import ShardedModel

PARTS = ("batch",)  # spec of [slots] and [parts]
NO_SLOT = -1  # of a part that prefills nothing
DECODE = 0  # in place of a prompt's padded length: the decode step


class Server:
    """Slots of a sharded model; each program is traced once and then replayed."""

    def __init__(self, sharded: ShardedModel, slots: int) -> None:
        """`slots`: sequences over all devices, the batch of the model's blueprint."""
        import torch

        self.sharded, self.layout = sharded, sharded.layout
        self.parts = self.layout.size(self.layout.batch)
        self.slots, self.slots_of_part = slots, slots // self.parts
        self._programs: dict[
            int, ReplayedProgram
        ] = {}  # padded length of a prompt, or DECODE -> program
        self.state = (
            self._placed(torch.zeros(1, slots, 1, dtype=torch.int64), TOKENS),
            self._placed(torch.zeros(slots, dtype=torch.int64), PARTS),
        )

    def decode(self) -> torch.Tensor:
        """Send a decode step of all slots: their tokens, [1, slots, 1]. Slots without a request have any."""
        return self._launch(DECODE, ())

    def prefill(self, length: int, prompts: Mapping[int, torch.Tensor]) -> torch.Tensor:
        """Send a prefill of slot -> prompt, padded to `length`: the tokens of all slots, [1, slots, 1]."""
        return self._launch(length, self.arguments(length, prompts))

    def warm(self, lengths: Sequence[int], times: int) -> None:
        """Compile all programs and run each so many times; the slots then hold nothing of use."""
        import torch
        import torch_xla.core.xla_model as xm

        for _ in range(times):
            for length in lengths:
                firsts = range(0, self.slots, self.slots_of_part)
                self.prefill(length, dict.fromkeys(firsts, torch.zeros(length, dtype=torch.int64)))
            self.decode()
        xm.wait_device_ops()

    def logits(self, length: int, prompt: torch.Tensor) -> torch.Tensor:
        """Logits after a prompt padded to `length`, [1, vocab] on the host, by a separate program."""
        import torch
        import torch_xla

        with torch.no_grad():
            prompts, slot, count = self.arguments(length, {0: prompt})
            entered = (self.layout.enter(each) for each in (slot, count))
            logits = self.prefill_logits(self.layout.enter(prompts)[0], *entered)
            whole = self.layout.leave(logits[:, -1][None], TOKENS)
            del logits, prompts, slot, count
            torch_xla.sync(wait=True)
        return fetch(whole)[:1]

    def arguments(
        self, length: int, prompts: Mapping[int, torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        """A prefill's arguments on the mesh: prompts [1, parts, length], slot of each part, its tokens."""
        import torch

        padded = torch.zeros(1, self.parts, length, dtype=torch.int64)
        slot = torch.full((self.parts,), NO_SLOT, dtype=torch.int64)
        tokens = torch.zeros(self.parts, dtype=torch.int64)
        for place, prompt in prompts.items():
            part, own = divmod(place, self.slots_of_part)
            padded[0, part, : len(prompt)] = prompt
            slot[part], tokens[part] = own, len(prompt)
        return self._placed(padded, TOKENS), self._placed(slot, PARTS), self._placed(tokens, PARTS)

    def _launch(self, length: int, more: tuple[torch.Tensor, ...]) -> torch.Tensor:
        if length not in self._programs:
            cache = self.sharded.cache.whole
            self._programs[length] = ReplayedProgram(
                self.step_of(length), cache, *self.state, *more
            )
        tokens, positions = self._programs[length].launch(*self.state, *more)
        self.state = tokens, positions
        return tokens

    def step_of(self, length: int) -> Step:
        """What a program traces: of the state, and for a prefill of its arguments."""
        return self._decode if length == DECODE else self._prefill

    def _placed(self, whole: torch.Tensor, spec: tuple[str | None, ...]) -> torch.Tensor:
        return self.layout.place(whole.to(self.layout.device), spec)

    def _decode(
        self, tokens: torch.Tensor, positions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The next tokens and positions of all slots, as one lazy graph."""
        layout = self.layout
        places = layout.enter(positions)
        logits = self.decode_logits(layout.enter(tokens)[0], places)
        chosen = logits[:, -1].argmax(-1, keepdim=True)
        # A slot without a request goes on in its own last place.
        after = (places + 1).clamp(max=self.sharded.cache.slots - 1)
        return layout.leave(chosen[None], TOKENS), layout.leave(after, PARTS)

    def _prefill(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        prompts: torch.Tensor,
        slot: torch.Tensor,
        counts: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens and positions of all slots after a prefill into some, as one lazy graph."""
        import torch

        layout = self.layout
        own, places = layout.enter(tokens)[0], layout.enter(positions)
        into, count = layout.enter(slot), layout.enter(counts)
        logits = self.prefill_logits(layout.enter(prompts)[0], into, count)
        chosen = logits[:, -1].argmax(-1)
        here = torch.arange(self.slots_of_part, device=into.device) == into
        own = torch.where(here[:, None], chosen[:, None], own)
        places = torch.where(here, count, places)
        return layout.leave(own[None], TOKENS), layout.leave(places, PARTS)

    def decode_logits(self, tokens: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Each device's logits, [own slots, 1, vocab], of tokens [own slots, 1] at places [own slots]."""
        sharded = self.sharded
        model, cache = sharded.model, sharded.cache
        with sharded.step(prefill=False, places=places):
            return model(
                input_ids=tokens,
                attention_mask=cache.mask(),
                position_ids=places[:, None],
                cache=cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits

    def prefill_logits(
        self, prompts: torch.Tensor, into: torch.Tensor, count: torch.Tensor
    ) -> torch.Tensor:
        """Each device's logits after its prompt, [1, 1, vocab].

        Shapes: prompts [1, padded length], into (the own slot, or NO_SLOT) [1], count (tokens of it) [1].
        """
        import torch

        sharded = self.sharded
        model, cache = sharded.model, sharded.cache
        positions = torch.arange(prompts.shape[1], device=prompts.device)
        with sharded.step(prefill=True, positions=positions, into=into):
            return model(
                input_ids=prompts,
                attention_mask=cache.mask(),
                position_ids=positions[None],
                cache=cache,
                use_cache=True,
                logits_to_keep=(count - 1).clamp(min=0),
                query_positions=positions,
            ).logits
