"""Which requests run in a step of a server: by hand, and what holds of every schedule."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.layers import layered
from xlahouse.capture.run.schedule import MIXED, PREFILL_FIRST, Scheduler

OUTPUTS = (6, 2, 3, 1, 2)  # tokens of requests 0 to 4, which all wait from the start


def steps_of(slots, parts, policy, outputs=OUTPUTS):
    """[step] -> (decodes, prefills), each a list of (request, slot)."""
    scheduler = Scheduler(slots, parts, policy)
    for request, tokens in enumerate(outputs):
        scheduler.arrive(request, tokens)
    found = []
    while (step := scheduler.step()) is not None:
        found.append(
            tuple([(t.request, t.slot) for t in turns] for turns in (step.decodes, step.prefills))
        )
    return found


def test_mixed_steps_decode_beside_a_prefill():
    """Two slots: a slot is free in the step after its request's last token; decodes come first in a step."""
    assert steps_of(2, 1, MIXED) == [
        ([], [(0, 0)]),
        ([(0, 0)], [(1, 1)]),
        ([(0, 0), (1, 1)], []),
        ([(0, 0)], [(2, 1)]),
        ([(0, 0), (2, 1)], []),
        ([(0, 0), (2, 1)], []),
        ([], [(3, 0)]),
        ([], [(4, 0)]),
        ([(4, 0)], []),
    ]


def test_decodes_wait_for_prefills_that_come_first():
    assert steps_of(2, 1, PREFILL_FIRST) == [
        ([], [(0, 0)]),
        ([], [(1, 1)]),
        ([(0, 0), (1, 1)], []),
        ([], [(2, 1)]),
        ([(0, 0), (2, 1)], []),
        ([(0, 0), (2, 1)], []),
        ([], [(3, 1)]),
        ([], [(4, 1)]),
        ([(0, 0), (4, 1)], []),
        ([(0, 0)], []),
    ]


def test_each_part_prefills_one_request_and_the_emptier_part_the_first():
    """Parts have slots 0 and 1, and 2 and 3."""
    assert steps_of(4, 2, MIXED) == [
        ([], [(0, 0), (1, 2)]),
        ([(0, 0), (1, 2)], [(2, 1), (3, 3)]),
        ([(0, 0), (2, 1)], [(4, 2)]),
        ([(0, 0), (2, 1), (4, 2)], []),
        ([(0, 0)], []),
        ([(0, 0)], []),
    ]


def test_a_server_is_idle_until_a_request_arrives():
    scheduler = Scheduler(2, 1, MIXED)
    assert scheduler.idle
    assert scheduler.step() is None
    scheduler.arrive(7, 2)
    assert not scheduler.idle
    assert [scheduler.step().prefills[0].request, scheduler.step().decodes[0].request] == [7, 7]
    assert scheduler.idle


REQUESTS = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 6)), max_size=30)


@layered(
    100,
    3000,
    requests=REQUESTS,
    size=st.integers(1, 4),
    parts=st.integers(1, 3),
    policy=st.sampled_from([MIXED, PREFILL_FIRST]),
)
def test_schedules(requests, size, parts, policy):
    """Of requests (steps after the one before, output tokens), over so many parts of so many slots."""
    scheduler = Scheduler(size * parts, parts, policy)
    waiting, arrived, got, slot_of, running, now = [], 0, {}, {}, set(), 0
    due = [sum(gap for gap, _ in requests[: at + 1]) for at in range(len(requests))]
    while arrived < len(requests) or not scheduler.idle:
        while arrived < len(requests) and (due[arrived] <= now or scheduler.idle):
            scheduler.arrive(arrived, requests[arrived][1])
            waiting.append(arrived)
            arrived += 1
        step = scheduler.step()
        now += 1
        decodes, prefills = step.decodes, step.prefills
        used = [turn.slot // size for turn in prefills]
        assert len(set(used)) == len(used)  # one in each part
        taken = [waiting.pop(0) for _ in prefills]
        assert [turn.request for turn in prefills] == taken  # first come, first served
        held = {slot_of[request] // size: 0 for request in running}
        for request in running:
            held[slot_of[request] // size] += 1
        free = [part for part in range(parts) if part not in used and held.get(part, 0) < size]
        assert not (waiting and free)  # none waits that could begin
        assert {turn.slot for turn in prefills}.isdisjoint(slot_of[each] for each in running)
        decoding = set() if prefills and policy == PREFILL_FIRST else running
        assert {turn.request for turn in decodes} == decoding
        assert all(turn.slot == slot_of[turn.request] for turn in decodes)
        assert decodes or prefills
        for turn in prefills:
            slot_of[turn.request] = turn.slot
            running = running | {turn.request}
        for turn in step.turns:
            got[turn.request] = got.get(turn.request, 0) + 1
        running = {each for each in running if got[each] < requests[each][1]}
    assert got == {request: tokens for request, (_, tokens) in enumerate(requests)}
