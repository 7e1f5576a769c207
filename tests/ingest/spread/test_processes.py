"""Parts whose worker died: tried once more, alone, after all others; the results stay in their order."""

from __future__ import annotations

import pytest

from xlahouse.capture.errors import XlahouseError
from xlahouse.ingest.spread import processes
from xlahouse.ingest.spread.parts import RunPart
from xlahouse.ingest.spread.processes import Death, Processes

PARTS = [RunPart(f"file {number}", (number,)) for number in range(5)]
EACH = [(f"shared {number}", number) for number in range(5)]


def doubled(shared, number):
    if number < 0:
        raise ValueError("below zero")
    return f"{shared} {number}", number


@pytest.fixture
def workers(monkeypatch):
    """Makes Processes whose workers die of some calls, once or twice; and the log of its calls."""

    def made(once=(), twice=()):
        log = []

        class Pool:
            def __init__(self, size):
                self.size = size

            def outcomes(self, calls, numbers):
                deadly = {*once, *twice} if self.size > 1 else set(twice)
                for number in reversed(list(numbers)):
                    log.append((self.size, number))
                    died = number in deadly
                    yield (
                        number,
                        (
                            Death("signal 9")
                            if died
                            else calls.do(calls.given(number), *calls.shared)
                        ),
                    )

            def close(self):
                log.append((self.size, "closed"))

        monkeypatch.setattr(processes, "Pool", Pool)
        said = []
        return Processes(Pool(3), said.append), log, said

    return made


def test_results_are_in_the_order_of_the_parts(workers):
    spread, log, said = workers()
    assert list(spread.each(doubled, "shared", PARTS)) == EACH
    assert log == [(3, number) for number in (4, 3, 2, 1, 0)]
    assert said == []


def test_parts_of_dead_workers_are_computed_alone_when_all_else_is_done(workers):
    spread, log, said = workers(once=[1, 3])
    assert list(spread.each(doubled, "shared", PARTS)) == EACH
    assert log[5:] == [(3, "closed"), (1, 1), (1, 3), (1, "closed")]
    assert said == [
        f"file {number}: the worker process that read it died (signal 9); it is tried once more, alone, "
        "after all others"
        for number in (3, 1)
    ]


def test_a_part_whose_workers_die_twice_is_named(workers):
    spread, log, _ = workers(once=[0], twice=[2])
    with pytest.raises(XlahouseError, match=r"^file 2: .* died twice \(signal 9\)"):
        list(spread.each(doubled, "shared", PARTS))
    assert log[-1] == (1, "closed")


def test_an_error_of_a_part_is_raised_in_its_turn(workers):
    spread, _, _ = workers()
    found = spread.each(doubled, "shared", [PARTS[0], RunPart("bad", (-1,)), PARTS[1]])
    assert next(found) == EACH[0]
    with pytest.raises(ValueError, match="below zero"):
        next(found)
