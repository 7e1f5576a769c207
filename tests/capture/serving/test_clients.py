"""Requests arrive in order, hold their markers until they are done, and hold up no end."""

from __future__ import annotations

import contextlib
import threading

import pytest

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.manifest import REQUEST
from xlahouse.capture.run import profile
from xlahouse.capture.run.clients import Clients
from xlahouse.capture.serving import Arrival


@pytest.fixture
def opened(monkeypatch):
    """(name, request, thread) of each marker that is open."""
    found = []

    @contextlib.contextmanager
    def marker(name, request):
        found.append((name, request, threading.get_ident()))
        yield
        found.remove((name, request, threading.get_ident()))

    monkeypatch.setattr(profile, "marker", marker)
    return found


def due(*seconds):
    return [Arrival(at_s=at, prompt_tokens=1, output_tokens=1) for at in seconds]


def test_what_is_due_arrives_in_order_and_nothing_else(opened):
    """The last one would come after 11 days: the end does not wait for it."""
    with Clients(due(0, 0, 0, 1e6)) as clients:
        assert clients.take_first() == [0, 1, 2]
        assert clients.take_come() == []
        assert not clients.ended
        assert [(name, request) for name, request, _ in opened] == [
            (REQUEST, request) for request in range(3)
        ]
        assert len({thread for _, _, thread in opened}) == 3  # markers that overlap: a thread each
        assert clients.arrived_s == sorted(clients.arrived_s)
        assert len(clients.arrived_s) == 3
    assert opened == []


def test_a_request_that_is_done_ends_its_marker(monkeypatch):
    """Another one is still open then, and a third has not come."""
    ended = [threading.Event() for _ in range(3)]

    @contextlib.contextmanager
    def marker(name, request):
        yield
        ended[request].set()

    monkeypatch.setattr(profile, "marker", marker)
    with Clients(due(0, 0, 1e6)) as clients:
        assert clients.take_first() == [0, 1]
        clients.finish(1)
        assert ended[1].wait(60)
        assert not ended[0].is_set()
    assert [each.is_set() for each in ended] == [True, True, False]


def test_requests_come_later_too(opened):
    with Clients(due(0.001, 0.002)) as clients:
        assert clients.take_first() == []
        assert [clients.take(), clients.take()] == [0, 1]
        assert clients.ended
        assert clients.take_come() == []


def test_a_request_that_cannot_arrive_is_said(monkeypatch):
    def no_thread(name, request):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(profile, "marker", no_thread)
    with (
        Clients(due(0, 0)) as clients,
        pytest.raises(CaptureError, match=r"request 0 could not arrive.*lower `requests`"),
    ):
        clients.take()
