"""Tasks of a Spark cluster that compute parts of a run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from xlahouse.capture.errors import XlahouseError
from xlahouse.ingest.spread.parcels import computed, pack, result_of, unpack
from xlahouse.ingest.spread.parts import RunPart

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")


@dataclass(frozen=True)
class Tasks:
    """Computes parts in a cluster's tasks: a Spread.

    A part is a job of one task: so what the driver holds of results at once is bounded, whatever Spark
    allows a job, and a part whose task fails for good names its file. Spark tries a task again whose
    executor died.
    """

    context: SparkContext  # of the cluster
    apart = True

    def each(
        self, do: Callable[..., T], shared: object, parts: Sequence[RunPart], in_turn: bool = False
    ) -> Iterator[T]:
        """As Spread says; as many parts are computed at a time as the cluster has cores."""
        if not parts:
            return
        known = self.context.broadcast(pack(shared))

        def compute(part: RunPart) -> bytes:
            given = self.context.parallelize([pack(part.given)], 1)
            (found,) = given.map(lambda raw: computed(do, raw, unpack(known.value).value)).collect()
            return bytes(found)

        at_once = self.context.defaultParallelism
        coming: deque[tuple[RunPart, Future[bytes]]] = deque()
        with ThreadPoolExecutor(at_once) as pool:
            try:
                for part in parts:
                    if len(coming) > at_once:  # one waits, so that no core does
                        yield _result(*coming.popleft())
                    coming.append((part, pool.submit(compute, part)))
                while coming:
                    yield _result(*coming.popleft())
            finally:
                for _, future in coming:
                    future.cancel()
                known.unpersist()


def _result(part: RunPart, future: Future[bytes]) -> Any:
    """The result of a part.

    Raises:
        XlahouseError: its task failed, as often as Spark tries it.
    """
    try:
        found = future.result()
    except Exception as error:  # each version of Spark has its own
        lines = [line for line in str(error).splitlines() if line.strip()]
        reason = next((line for line in lines if "Job aborted" in line), lines[-1] if lines else "")
        raise XlahouseError(
            f"{part.name}: the Spark task that read it failed: {reason.strip()}; nothing of this run "
            "is in the warehouse"
        ) from error
    return result_of(found)
