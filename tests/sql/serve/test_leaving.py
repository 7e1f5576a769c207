"""A client that leaves before the answer ends its question, and the next client has the process."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.sql.serve.test_web import ENDLESS
from xlahouse.sql.limits import QueryLimits
from xlahouse.sql.serve.asking import answer
from xlahouse.sql.serve.web import make_app
from xlahouse.sql.serve.workers import Gone, Workers

pytestmark = pytest.mark.xdist_group("served")
LONGER_THAN_TESTS_S = 60


class Endless:
    """Stands for workers whose question takes for ever: it ends when who asked is gone."""

    def __init__(self) -> None:
        self.asked, self.ended = threading.Event(), threading.Event()

    def ask(self, question: str, gone: threading.Event, /, **given: Any) -> Any:
        self.asked.set()
        assert gone.wait(LONGER_THAN_TESTS_S)
        self.ended.set()
        raise Gone("the client left")


@pytest.fixture
def workers(root: Path) -> Iterator[Workers]:
    made = Workers(str(root), QueryLimits(LONGER_THAN_TESTS_S, 1 << 30, 10), 1, LONGER_THAN_TESTS_S)
    yield made
    made.close()


def test_a_question_whose_client_is_gone_ends(workers: Workers) -> None:
    gone, ended = threading.Event(), threading.Event()

    def client() -> None:
        with pytest.raises(Gone):
            workers.ask("table", gone, sql=ENDLESS)
        ended.set()

    asking = threading.Thread(target=client)
    asking.start()
    gone.set()
    asking.join()
    assert ended.is_set()
    assert workers.ask("table", sql="select 1 as a")["rows"] == [["1"]]


def test_who_waits_for_a_process_may_leave_too(root: Path) -> None:
    none_free = Workers(str(root), QueryLimits(), 0, LONGER_THAN_TESTS_S)
    gone = threading.Event()
    gone.set()
    with pytest.raises(Gone):
        none_free.ask("tables", gone)


@pytest.mark.parametrize("path", ["/api/query", "/api/file", "/api/relations", "/api/describe"])
def test_a_browser_that_leaves_ends_its_question(path: str) -> None:
    workers = Endless()
    body = json.dumps({"sql": "select 1"}).encode()
    query = b"q=select+1&format=csv" if path == "/api/file" else b""
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "method": "POST" if path == "/api/query" else "GET", "path": path, "headers": headers,
        "query_string": query, "http_version": "1.1", "scheme": "http", "root_path": "",
    }  # fmt: skip
    messages = [{"type": "http.request", "body": body}]
    sent: list[Any] = []

    async def receive() -> Any:
        if messages:
            return messages.pop(0)
        await anyio.to_thread.run_sync(workers.asked.wait)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    async def run() -> None:
        await make_app(workers, None, None)(scope, receive, send)  # type: ignore[arg-type]

    anyio.run(run)
    assert workers.ended.wait(LONGER_THAN_TESTS_S)


def test_a_task_that_is_cancelled_ends_its_question() -> None:
    """As an agent's call is when its client cancels it or closes."""
    workers = Endless()

    async def run() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(answer, workers, "runs")
            await anyio.to_thread.run_sync(workers.asked.wait)
            group.cancel_scope.cancel()

    anyio.run(run)
    assert workers.ended.wait(LONGER_THAN_TESTS_S)
