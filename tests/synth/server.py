"""Runs of servers with continuous batching, drawn at random: what they did, and what the trace has of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.ingest.serving.server import Served, trace

PERIOD_PS, DELAY_PS = 20_000_000, 3_000_000


@dataclass
class Request:
    """A request; steps are places in its engine's list."""

    name: str
    chunks: list[int]  # tokens of its prompt, a step each
    decodes: int  # steps after its prompt
    steps: list[int] = field(default_factory=list)

    @property
    def complete(self) -> int:
        """The step that completes its prompt; beyond all steps where the run ends before it."""
        done = len(self.steps) >= len(self.chunks)
        return self.steps[len(self.chunks) - 1] if done else 1 << 30

    def tokens(self, step: int) -> tuple[int, int]:
        """(tokens, tokens of the prompt) in a step."""
        place = self.steps.index(step)
        return (self.chunks[place],) * 2 if place < len(self.chunks) else (1, 0)


@dataclass
class Step:
    """A step of an engine."""

    start_ps: int
    end_ps: int  # of its marker
    ran: tuple[int, int]  # start, end on the device
    thread: str
    requests: list[Request]
    place: int  # in its engine's list
    named: int  # how many ids the trace has

    @property
    def phase(self) -> str:
        """By what each request does."""
        prompts = [request.tokens(self.place)[1] > 0 for request in self.requests]
        return "prefill" if all(prompts) else "mixed" if any(prompts) else "decode"


@dataclass
class Engine:
    """A process with a device."""

    number: int
    steps: list[Step]
    requests: list[Request]
    seen: range  # steps that the trace has
    stated: bool  # whether tokens are stated by request
    cut: bool  # whether ids are cut off somewhere
    lost_marker: bool  # whether the first step's launch is there without its marker

    def written(self) -> bytes:
        """The file of the process."""
        found = []
        for place in self.seen:
            step = self.steps[place]
            kept = step.requests[: step.named]
            tokens = [request.tokens(place) for request in step.requests]
            more = {}
            for at, (all_tokens, of_prompt) in enumerate(tokens[: step.named], 1):
                more |= {f"request_tokens{at}": all_tokens, f"prompt_tokens{at}": of_prompt}
            found.append(
                Served(
                    step.start_ps,
                    step.end_ps - step.start_ps,
                    sum(count for count, _ in tokens),
                    [request.name for request in kept],
                    len(step.requests),
                    ran=(step.ran[0], step.ran[1] - step.ran[0]),
                    marked=not (self.lost_marker and place == self.seen.start),
                    more=more if self.stated else {},
                    thread=step.thread,
                )
            )
        return trace(found, device=self.number)

    @property
    def marked(self) -> range:
        """Steps whose markers the trace has."""
        return range(self.seen.start + self.lost_marker, self.seen.stop)


def open_times(engines: list[Engine]) -> list[tuple[int, int]] | None:
    """Stretches of time in which a request is open, by start: from its first step's marker to its last step's
    end, of those that the trace has. None where ids are cut off: then the trace does not tell."""
    for engine in engines:
        if any(engine.steps[p].named < len(engine.steps[p].requests) for p in engine.marked):
            return None
    spans = []
    for engine in engines:
        for request in engine.requests:
            seen = [engine.steps[place] for place in request.steps if place in engine.marked]
            if seen:
                ends = [max(step.end_ps, step.ran[1]) for step in seen]
                spans.append((seen[0].start_ps, max(ends)))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def closed_ps(begin: int, end: int, opened: list[tuple[int, int]] | None) -> int:
    """Time between two instants in which no request is open; 0 where the trace does not tell."""
    if opened is None:
        return 0
    return end - begin - sum(max(min(end, b) - max(begin, a), 0) for a, b in opened)


def draw_engine(rng: Random, number: int, slots: int, steps: int) -> Engine:
    """An engine that serves at most so many requests at once, for so many steps.

    Steps alternate between two threads where markers cross: the next one opens before the last one closes.
    """
    crossing, stated = rng.random() < 0.4, rng.random() < 0.5
    another = rng.choice([0.4, 0.99])  # chance that one more arrives for a free slot
    made, active, requests = [], [], []
    now = rng.randrange(PERIOD_PS)
    for place in range(steps):
        while len(active) < slots and (not active or rng.random() < another):
            chunks = [rng.randrange(2, 40) for _ in range(rng.choice([1, 1, 2, 3]))]
            request = Request(f"{number}-{len(requests)}", chunks, rng.randrange(0, 9))
            requests.append(request)
            active.append(request)
        for request in active:
            request.steps.append(place)
        length = rng.randrange(1_000_000, 9_000_000)
        ran = now + DELAY_PS, now + DELAY_PS + length
        overlap = PERIOD_PS if crossing else 0
        thread = f"worker {place % 2}" if crossing else "engine"
        end = now + 2_000_000 + overlap
        made.append(Step(now, end, ran, thread, list(active), place, len(active)))
        active = [r for r in active if len(r.steps) < len(r.chunks) + r.decodes]
        now += PERIOD_PS
    seen = range(rng.randrange(0, 4), steps - rng.randrange(0, 4))
    cut = rng.random() < 0.3
    if cut:
        for place in rng.sample(list(seen), 3):
            made[place].named = rng.randrange(0, len(made[place].requests) + 1)
    return Engine(number, made, requests, seen, stated, cut, rng.random() < 0.3)


def draw_server(seed: int) -> list[Engine]:
    """One or two engines on a host."""
    rng = Random(seed)
    slots = rng.choice([1, 2, 5, 16, 64])
    return [draw_engine(rng, number, slots, 24) for number in range(rng.choice([1, 1, 2]))]
