"""Asks workers from the event loop: who leaves before the answer ends the question."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from xlahouse.capture.errors import XlahouseError

if TYPE_CHECKING:
    from starlette.requests import Request

    from xlahouse.sql.serve.workers import Workers


async def answer(workers: Workers, question: str, **given: Any) -> Any:
    """The answer to a question; a task that is cancelled meanwhile ends the question.

    Raises:
        XlahouseError: it has none.
    """
    gone = threading.Event()
    ask = partial(workers.ask, question, gone, **given)
    try:
        return await anyio.to_thread.run_sync(ask, abandon_on_cancel=True)
    finally:
        gone.set()


async def answer_client(request: Request, workers: Workers, question: str, **given: Any) -> Any:
    """The answer to a client's question; None where the client left, which ends the question.

    Raises:
        XlahouseError: it has none.
    """
    found: Any = None
    error: XlahouseError | None = None
    async with anyio.create_task_group() as group:

        async def leave() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

        group.start_soon(leave)
        try:
            found = await answer(workers, question, **given)
        except XlahouseError as caught:  # the group would wrap it
            error = caught
        group.cancel_scope.cancel()
    if error is not None:
        raise error
    return found
