"""Random runs of servers: every number that ingest and views give is the schedule's, or NULL.

Where the trace states the tokens of each request, names all requests and sees a request whole, nothing is
NULL: then the closed forms hold for each of its numbers.
"""

from __future__ import annotations

import os

import pytest

from tests.ingest.traces import write
from tests.synth.server import draw_server
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.warehouse import Warehouse

SEEDS = range(int(os.environ.get("XLAHOUSE_SERVERS", 6)))


@pytest.fixture(params=SEEDS, scope="module")
def served(request, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("server")
    engines = draw_server(request.param)
    for engine in engines:
        write(
            tmp_path / "plugins" / "profile" / "s" / f"p{engine.number}.xplane.pb", engine.written()
        )
    ingest_paths([str(tmp_path / "plugins")], str(tmp_path / "wh"), workers=1)
    with Warehouse(str(tmp_path / "wh")) as warehouse:
        yield engines, warehouse


def numbered(engines):
    """(engine, place) of each marked step -> its number: by start."""
    steps = [(e.steps[place].start_ps, e.number, place) for e in engines for place in e.marked]
    return {(number, place): at for at, (_, number, place) in enumerate(sorted(steps))}


def known(engine, request):
    """(whether its first step is seen, steps of it that are seen)."""
    return request.steps[0] > engine.marked.start, [s for s in request.steps if s in engine.marked]


def is_clear(engine):
    """Whether every number of a whole request is told."""
    return engine.stated and not engine.cut


def test_every_launch_is_in_its_step(served):
    engines, warehouse = served
    numbers = numbered(engines)
    found = warehouse.query("select device_id, start_ps, request, step from launches").rows
    expected = {
        (e.number, e.steps[p].ran[0], None, numbers.get((e.number, p)))
        for e in engines
        for p in e.seen
    }
    assert set(found) == expected


def test_steps_have_their_requests_tokens_and_phases(served):
    engines, warehouse = served
    numbers = numbered(engines)
    sql = "select step, phase, requests, tokens, start_ps, end_ps from serving_step"
    found = {row[0]: row[1:] for row in warehouse.query(sql).rows}
    assert len(found) == len(numbers)
    for engine in engines:
        for place in engine.marked:
            step = engine.steps[place]
            phase, *others = found[numbers[engine.number, place]]
            tokens = sum(request.tokens(place)[0] for request in step.requests)
            assert others == [len(step.requests), tokens, step.start_ps, step.ran[1]]
            begin = {request.steps[0] == place for request in step.requests}
            # without the tokens of each, a step in which some begin and some go on counts as mixed
            assert phase in ("step", step.phase, *(["mixed"] if len(begin) > 1 else []))
            if is_clear(engine):
                assert phase == step.phase


def test_the_bridge_has_what_the_trace_tells(served):
    engines, warehouse = served
    numbers = numbered(engines)
    sql = "select step, request_id, tokens, prompt_tokens, is_first, is_last from step_requests"
    found = {row[:2]: row[2:] for row in warehouse.query(sql).rows}
    expected = {
        (numbers[e.number, place], request.name): (e, request, place)
        for e in engines
        for place in e.marked
        for request in e.steps[place].requests[: e.steps[place].named]
    }
    assert set(found) == set(expected)
    for key, (engine, request, place) in expected.items():
        tokens, prompt, first, last = found[key]
        truth = request.tokens(place)
        assert tokens in (None, truth[0])
        assert prompt in (None, truth[1])
        assert first in (None, place == request.steps[0])
        # a request of the last marked step may end there or go on
        assert last in (None, place == request.steps[-1])
        if is_clear(engine):
            assert (tokens, prompt) == truth
            assert first is not None or place == engine.marked.start
    unnamed = sum(
        len(e.steps[place].requests) - e.steps[place].named for e in engines for place in e.marked
    )
    counted = warehouse.query("select sum(count) from issues where code = 'requests_unnamed'")
    assert (counted.rows[0][0] or 0) == unnamed


def test_latencies_are_the_schedules_or_unknown(served):
    engines, warehouse = served
    sql = "select request_id, ttft_s, tpot_s, e2e_s, l.output_tokens, reason"
    sql += " from latency_v3 as l join served_requests using (run_id, request)"
    found = {row[0]: row[1:] for row in warehouse.query(sql).rows}
    told = 0
    for engine in engines:
        for request in engine.requests:
            if request.name not in found:
                continue
            ttft, tpot, e2e, output, reason = found[request.name]
            begun, seen = known(engine, request)
            ends = [engine.steps[place].ran[1] for place in seen]
            complete = request.complete in engine.marked
            assert (reason is None) == (ttft is not None and tpot is not None)
            if ttft is not None:
                assert begun
                assert complete
                first = engine.steps[request.steps[0]].start_ps
                assert ttft * 1e12 == pytest.approx(engine.steps[request.complete].ran[1] - first)
            base = engine.steps[request.complete].ran[1] if begun and complete else ends[0]
            later = sum(end > base for end in ends)
            if tpot is not None:
                assert tpot * 1e12 == pytest.approx((ends[-1] - base) / later)
            if e2e is not None:
                assert e2e * 1e12 == pytest.approx(ends[-1] - engine.steps[seen[0]].start_ps)
            if output is not None:
                assert output == sum(place >= request.complete for place in seen)
            # a step without a token of the prompt, or the end, shows that the prompt was complete
            ended = request.steps[-1] < engine.marked.stop - 1
            shown = later > 0 or (ended and seen[-1] == request.steps[-1])
            if is_clear(engine) and begun and complete and shown:
                told += 1
                assert ttft is not None
                assert (tpot is not None) == (later > 0)
                assert output is not None
    assert told > 0 or not any(map(is_clear, engines))
