"""The requests of a server: each arrives at its time, and holds its marker open until it is done."""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.manifest import REQUEST
from xlahouse.capture.serving import Arrival


class Clients:
    """A context in which requests arrive, numbered from 0; all are done at its end.

    A thread holds the markers of one request after the other, as a marker must end on its own thread's line
    without crossing another.
    """

    def __init__(self, arrivals: Sequence[Arrival]) -> None:
        self.arrived_s: list[float] = []  # [request] seconds after the start, of those that came
        self._due_s = [each.at_s for each in arrivals]
        self._come: SimpleQueue[int | None] = SimpleQueue()
        self._done = [threading.Event() for _ in arrivals]
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(max_workers=len(arrivals) + 1)
        self._begin, self._taken = 0.0, 0

    def __enter__(self) -> Clients:
        self._begin = time.perf_counter()
        self._pool.submit(self._arrive)
        return self

    def __exit__(self, *raised: object) -> None:
        self._over.set()
        for event in self._done:
            event.set()
        self._pool.shutdown()

    @property
    def now_s(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self._begin

    @property
    def ended(self) -> bool:
        """All requests were taken."""
        return self._taken == len(self._due_s)

    def take_first(self) -> list[int]:
        """Wait for the requests that are there from the start, in order."""
        return [self.take() for _ in range(bisect_right(self._due_s, 0.0))]

    def take_come(self) -> list[int]:
        """The requests that came and were not taken before, in order; it waits for none."""
        found = []
        while not self._come.empty():
            found.append(self.take())
        return found

    def take(self) -> int:
        """Wait for the next request.

        Raises:
            CaptureError: it could not arrive.
        """
        request = self._come.get()
        if request is None:
            raise CaptureError(
                f"request {self._taken} could not arrive: this process has no thread left; lower `requests`"
            )
        self._taken += 1
        return request

    def finish(self, request: int) -> None:
        """End the request's marker."""
        self._done[request].set()

    def _arrive(self) -> None:
        whole = False
        try:
            for request, due in enumerate(self._due_s):
                if self._over.wait(max(due - self.now_s, 0)):
                    return
                opened = threading.Event()
                self._pool.submit(self._hold, request, opened)
                opened.wait()
                if len(self.arrived_s) == request:
                    return
                self._come.put(request)
            whole = True
        finally:
            if not whole:
                self._come.put(None)

    def _hold(self, request: int, opened: threading.Event) -> None:
        from xlahouse.capture.run.profile import marker

        now = self.now_s
        try:
            with marker(REQUEST, request):
                self.arrived_s.append(now)
                opened.set()
                self._done[request].wait()
        finally:
            opened.set()
