"""Finds transfers that a TPU's compiler spreads over several fusions.

A start (`%async-collective-start = fusion`), fusions that compute meanwhile (they call
`%async_collective_fusion.N`), and a done (`%async-collective-done = fusion`) each hold the same collective,
with the same channel_id. It is one transfer, from start to done.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from xlahouse.ingest.hlo.messages import HloComputation, HloInstruction

# Calls within the start and the done, and the names that the compiler gives to the two.
_TARGETS = {b"AsyncCollectiveStart": "start", b"AsyncCollectiveDone": "done"}
_NAME = re.compile(rb"async-collective-(start|done)(\.\d+)?$")
_MIDDLE = re.compile(rb"async_collective_fusion(\.|$)")
_DEEPEST = 16  # fusions within fusions; damaged HLO may call itself


@dataclass(frozen=True)
class AsyncPart:
    """What a fusion does in a transfer that is spread over several."""

    role: str  # start, done; or through, which computes while the transfer is in flight
    start: HloInstruction | None  # the fusion that starts it; None where it cannot be found
    goes_on: frozenset[int]  # ids of the collectives in the fusion that another fusion has started


def async_parts(computations: Iterable[HloComputation]) -> dict[int, AsyncPart]:
    """The parts of all spread transfers of a module, by the id of their fusion."""
    held = _Held({each.id: each for each in computations})
    found = [
        (fusion, role)
        for fusion in held.outer_fusions()
        if (role := held.role(fusion)) is not None or held.channels(fusion)
    ]
    starts: dict[int | bytes, HloInstruction] = {}
    for fusion, role in found:
        if role == "start":
            starts |= dict.fromkeys((*held.channels(fusion), _number(fusion)), fusion)
    parts = {}
    for fusion, role in found:
        own = held.channels(fusion)
        begun = next((starts[channel] for channel in own if channel in starts), None)
        if role == "start":
            parts[fusion.id] = AsyncPart(role, fusion, frozenset())
        elif role is not None or begun is not None:
            start = begun if begun is not None or own else starts.get(_number(fusion))
            # Without a channel, all that it holds is what its start has begun.
            goes_on = (
                number
                for number, channel in held.collectives(fusion)
                if channel in starts or not own
            )
            parts[fusion.id] = AsyncPart(role or "through", start, frozenset(goes_on))
    return parts


def _number(fusion: HloInstruction) -> bytes:
    """`.2` of `async-collective-done.2`: start and done are named together."""
    named = _NAME.match(fusion.name)
    return (named[2] or b"") if named else fusion.name


class _Held:
    """What fusions hold, in their own computation and in fusions within it."""

    def __init__(self, computations: dict[int, HloComputation]) -> None:
        self._computations = computations
        self._inner = {
            number
            for computation in computations.values()
            for each in computation.instructions
            if each.opcode == b"fusion"
            for number in each.called_computation_ids
        }

    def outer_fusions(self) -> Iterator[HloInstruction]:
        """The fusions that are in no other one."""
        for number, computation in self._computations.items():
            if number not in self._inner:
                yield from (each for each in computation.instructions if each.opcode == b"fusion")

    def _instructions(self, fusion: HloInstruction) -> Iterator[HloInstruction]:
        return self._below(fusion, 0, set())

    def _below(
        self, fusion: HloInstruction, depth: int, seen: set[int]
    ) -> Iterator[HloInstruction]:
        """seen: computations, each walked once, however many fusions call it."""
        for number in fusion.called_computation_ids:
            if number not in self._computations or number in seen:
                continue
            seen.add(number)
            for each in self._computations[number].instructions:
                yield each
                if each.opcode == b"fusion" and depth < _DEEPEST:
                    yield from self._below(each, depth + 1, seen)

    def collectives(self, fusion: HloInstruction) -> list[tuple[int, int]]:
        """(id, channel) of the instructions in it that have a channel; of all where none has one."""
        every = list(self._instructions(fusion))
        found = [(each.id, each.channel_id) for each in every if each.channel_id > 0]
        return found or [(each.id, 0) for each in every]

    def channels(self, fusion: HloInstruction) -> list[int]:
        """The channels of its collectives."""
        return [each.channel_id for each in self._instructions(fusion) if each.channel_id > 0]

    def role(self, fusion: HloInstruction) -> str | None:
        """start, through or done, as far as the fusion itself says; None where it does not."""
        for each in self._instructions(fusion):
            if each.custom_call_target in _TARGETS:
                return _TARGETS[each.custom_call_target]
        if named := _NAME.match(fusion.name):
            return named[1].decode()
        called = (self._computations.get(number) for number in fusion.called_computation_ids)
        middle = any(each is not None and _MIDDLE.match(each.name) for each in called)
        return "through" if middle else None
