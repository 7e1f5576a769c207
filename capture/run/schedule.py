"""Which requests of a server run in its next step: decided from arrivals and slots alone, without a clock."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass

MIXED, PREFILL_FIRST = "mixed", "prefill_first"


@dataclass(frozen=True)
class Turn:
    """A request's part in a step: it gets one token."""

    request: int  # number of the request, from 0
    slot: int  # number of the slot that holds its sequence


@dataclass(frozen=True)
class Step:
    """A step: a decode step for some slots, then a prefill into others; one of the two may be absent."""

    decodes: tuple[Turn, ...]  # by slot
    prefills: tuple[Turn, ...]  # by request

    @property
    def turns(self) -> tuple[Turn, ...]:
        """All of them, in the order in which they run."""
        return (*self.decodes, *self.prefills)


class Scheduler:
    """First come, first served: a step prefills the requests that waited longest, at most one in each part
    of the slots, and decodes the rest. A slot is free again in the step after its request's last token."""

    def __init__(self, slots: int, parts: int, policy: str) -> None:
        """`parts`: equal ranges of slots, of which each prefills at most one request in a step."""
        self.size, self.parts, self.policy = slots // parts, parts, policy
        self._waiting: deque[int] = deque()  # requests, by arrival
        self._left: dict[int, int] = {}  # request -> tokens that it still gets
        self._running: dict[int, int] = {}  # slot -> request

    @property
    def idle(self) -> bool:
        """No request waits or runs."""
        return not self._waiting and not self._running

    def arrive(self, request: int, output_tokens: int) -> None:
        """A request waits from now on."""
        self._waiting.append(request)
        self._left[request] = output_tokens

    def step(self) -> Step | None:
        """The next step; None where the server is idle."""
        if self.idle:
            return None
        running = sorted(self._running.items())
        prefills = self._admit()
        waits = prefills and self.policy == PREFILL_FIRST
        decodes = () if waits else tuple(Turn(request, slot) for slot, request in running)
        step = Step(decodes, prefills)
        for turn in step.turns:
            self._left[turn.request] -= 1
            if not self._left[turn.request]:
                del self._left[turn.request], self._running[turn.slot]
        return step

    def _admit(self) -> tuple[Turn, ...]:
        """Give the requests that waited longest a slot each, of the part with the most free slots."""
        found: list[Turn] = []
        used: set[int] = set()  # parts that prefill in this step
        while self._waiting:
            filled = Counter(slot // self.size for slot in self._running)
            free = [
                (filled[part], part)
                for part in range(self.parts)
                if part not in used and filled[part] < self.size
            ]
            if not free:
                break
            _, part = min(free)
            first = part * self.size
            slot = next(at for at in range(first, first + self.size) if at not in self._running)
            used.add(part)
            found.append(Turn(self._waiting.popleft(), slot))
            self._running[slot] = found[-1].request
        return tuple(found)
