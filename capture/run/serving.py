"""Serves the requests of an experiment under the profiler: a loop of steps over the slots of a model."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.manifest import ServedRequest, ServerLog, ServerStep
from xlahouse.capture.run.clients import Clients
from xlahouse.capture.run.job import PHASE_LIMIT_S, STOP_LIMIT_S, say
from xlahouse.capture.run.overhead import ProfilerCost, dispatch_depth, host_warnings
from xlahouse.capture.run.record import Outcome, check_counts, counts
from xlahouse.capture.run.schedule import Scheduler, Step, Turn
from xlahouse.capture.serving import Arrival, arrivals_of, buckets_of

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.server import Server
    from xlahouse.capture.plan import Experiment

NO_COST = (
    "a server's steps depend on when requests arrive: without the profiler other requests share a step, so "
    "that no two steps can be compared"
)


@dataclass
class Received:
    """What one request got."""

    slot: int  # number of the slot that held its sequence
    tokens: list[int] = field(default_factory=list)  # in the order in which they came
    launches: list[int] = field(default_factory=list)  # [token] the last launch of its step


class Engine:
    """Runs steps: a decode launch, then a prefill launch, each where the step has one."""

    def __init__(
        self,
        server: Server,
        scheduler: Scheduler,
        arrivals: Sequence[Arrival],
        prompts: Sequence[torch.Tensor],
        buckets: Sequence[int],
        ahead: int,
    ) -> None:
        """`prompts`: [tokens] of each request; `ahead`: launches sent before an earlier one is awaited."""
        from xlahouse.capture.models.decode import InFlight

        self.server, self.scheduler, self.ahead = server, scheduler, ahead
        self.arrivals, self.prompts, self.buckets = arrivals, prompts, buckets
        self.steps: list[ServerStep] = []
        self.received: dict[int, Received] = {}
        self.launches = 0
        self.flight = InFlight()
        # Of launches in flight: the turns of each, and of the step that ends with it.
        self._sent: deque[tuple[tuple[Turn, ...], tuple[Turn, ...]]] = deque()

    def run(self, clients: Clients, limit: int) -> None:
        """Serve until all requests are done, or for `limit` steps."""
        come, rested = clients.take_first(), True
        while len(self.steps) < limit:
            come += clients.take_come()
            if self.scheduler.idle and not come:
                self._receive(0, clients)
                if clients.ended:
                    break
                come, rested = [clients.take()], True
            for request in come:
                self.scheduler.arrive(request, self.arrivals[request].output_tokens)
            step = self.scheduler.step()
            assert step is not None
            self._run(step, clients, rested)
            come, rested = [], False
        self._receive(0, clients)

    def _run(self, step: Step, clients: Clients, rested: bool) -> None:
        from xlahouse.capture.run.profile import server_marker

        longest = max((self._prompt(turn) for turn in step.prefills), default=None)
        padded = None if longest is None else next(size for size in self.buckets if size >= longest)
        prompt = [(turn.request, self._prompt(turn), self._prompt(turn)) for turn in step.prefills]
        with server_marker([*((turn.request, 1, 0) for turn in step.decodes), *prompt]):
            if step.decodes:
                self.flight.start(self.launches, late=not rested)
                ended = () if step.prefills else step.turns
                self._sent_off(self.server.decode(), step.decodes, ended, clients)
            if padded is not None:
                self.flight.start(self.launches, late=not rested or bool(step.decodes))
                prompts = {turn.slot: self.prompts[turn.request] for turn in step.prefills}
                tokens = self.server.prefill(padded, prompts)
                self._sent_off(tokens, step.prefills, step.turns, clients)
        self.steps.append(
            ServerStep(
                decodes=[turn.request for turn in step.decodes],
                prefills=[turn.request for turn in step.prefills],
                padded=padded,
            )
        )

    def _sent_off(
        self,
        tokens: torch.Tensor,
        turns: tuple[Turn, ...],
        ended: tuple[Turn, ...],
        clients: Clients,
    ) -> None:
        """A launch was sent that gives `turns` their tokens, and ends the step of `ended`."""
        self.flight.sent(self.launches, tokens)
        self.launches += 1
        self._sent.append((turns, ended))
        self._receive(self.ahead, clients)

    def _receive(self, left: int, clients: Clients) -> None:
        """Wait until so many launches are in flight. A step's tokens count from its end, and requests that
        then have all of theirs are done."""
        while self.flight.waiting > left:
            launch = len(self.flight.columns)
            self.flight.receive()
            turns, ended = self._sent.popleft()
            for turn in turns:
                got = self.received.setdefault(turn.request, Received(turn.slot))
                got.tokens.append(int(self.flight.columns[launch][turn.slot, 0]))
            for turn in ended:
                got = self.received[turn.request]
                got.launches.append(launch)
                if len(got.tokens) == self.arrivals[turn.request].output_tokens:
                    clients.finish(turn.request)

    def _prompt(self, turn: Turn) -> int:
        return self.arrivals[turn.request].prompt_tokens


def profile_server(
    server: Server, experiment: Experiment, prompts: list[torch.Tensor], folder: Path
) -> Outcome:
    """Compile and run all programs, then serve the requests under the profiler, which writes to `folder`.

    Raises:
        CaptureError: a profiled step compiled, the hosts are several, or the profiler left no trace.
    """
    import torch_xla.runtime as xr

    from xlahouse.capture.models.decode import late_ratio
    from xlahouse.capture.run.profile import session

    serving = experiment.serving
    assert serving is not None
    if xr.process_count() > 1:
        raise CaptureError("a server runs on one host: several would schedule by their own clocks")
    virtual = os.environ["PJRT_DEVICE"] == "CPU"
    ahead = dispatch_depth(experiment, virtual)
    arrivals, buckets = arrivals_of(experiment), buckets_of(experiment)
    say("progress", f"compiling {len(buckets) + 1} programs", PHASE_LIMIT_S)
    server.warm(buckets, max(experiment.warmup_requests, 1))
    say("progress", f"serving {len(arrivals)} requests", PHASE_LIMIT_S)
    before, started = counts(), datetime.now(UTC)
    with session(folder, lambda: say("progress", "stopping the profiler", STOP_LIMIT_S)):
        scheduler = Scheduler(server.slots, server.parts, serving.policy)
        flat = [prompt[0] for prompt in prompts]
        with Clients(arrivals) as clients:
            engine = Engine(server, scheduler, arrivals, flat, buckets, ahead)
            begun_s = clients.now_s
            engine.run(clients, serving.profiled_steps)
    spent = counts() - before
    return Outcome(
        captured_at=started.isoformat(timespec="milliseconds"),
        tokens=tokens_of(engine),
        times=[engine.flight.times],
        warnings=[
            *check_counts(spent, engine.launches),
            *host_warnings(late_ratio([engine.flight.times]), virtual),
        ],
        profiler_cost=ProfilerCost(None, [], 0, NO_COST),
        dispatch_depth=ahead,
        launches_per_step=spent.launches / len(engine.steps),
        compiles=before.compiles,
        server=log_of(engine, serving.policy, clients.arrived_s, begun_s),
    )


def tokens_of(engine: Engine) -> list[torch.Tensor]:
    """[1, tokens] of each request that began, which are the first ones that arrived."""
    import torch

    return [torch.tensor([engine.received[each].tokens]) for each in sorted(engine.received)]


def log_of(engine: Engine, policy: str, arrived_s: Sequence[float], begun_s: float) -> ServerLog:
    """What the server did, for the manifest."""
    at_s = [begun_s + after for after in accumulate(engine.flight.times.steps)]
    requests = []
    for request, (came, arrival) in enumerate(zip(arrived_s, engine.arrivals, strict=False)):
        got = engine.received.get(request)
        requests.append(
            ServedRequest(
                request=request,
                arrived_s=came,
                prompt_tokens=arrival.prompt_tokens,
                output_tokens=arrival.output_tokens,
                slot=got.slot if got else None,
                tokens=got.tokens if got else [],
                first_token_s=at_s[got.launches[0]] if got else None,
                last_token_s=at_s[got.launches[-1]] if got else None,
            )
        )
    return ServerLog(
        policy=policy,
        slots=engine.server.slots,
        prefill_slots=engine.server.parts,
        buckets=list(engine.buckets),
        arrived=len(requests),
        served=sum(len(each.tokens) == each.output_tokens for each in requests),
        requests=requests,
        steps=engine.steps,
    )
