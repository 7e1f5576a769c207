"""Random runs of servers: every number that ingest and views give is the schedule's, or NULL.

Where the trace states the tokens of each request, names all requests and sees a request whole, nothing is
NULL: then the closed forms hold for each of its numbers.
"""

from __future__ import annotations

import os
from statistics import mean, median

import pytest

from tests.ingest.traces import write
from tests.synth.server import closed_ps, draw_server, open_times
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.settings import set_limits
from xlahouse.sql.warehouse import Warehouse

DRAWN = os.environ.get("XLAHOUSE_SERVERS")
# What these have: crossing markers, lost first and last steps, ids cut off, two engines, 64 requests a step.
SEEDS = range(int(DRAWN)) if DRAWN else (4, 7, 9, 62, 72, 74)
PHASES = ("prefill", "decode", "mixed")
TTFT_LIMIT_S, TPOT_LIMIT_S = 35e-6, 20e-6  # steps are 20 us apart


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
        (run,) = warehouse.query("select run_id from runs").rows[0]
        set_limits(warehouse, run, f"ttft={TTFT_LIMIT_S},tpot={TPOT_LIMIT_S}")
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


def periods(engines):
    """(engine, place) of each marked step -> its period: since the device's marked step before ended, without
    the time in which no request is open."""
    opened, found = open_times(engines), {}
    for engine in engines:
        before = None
        for place in engine.marked:
            start, end = engine.steps[place].ran
            begun = start if before is None else before
            found[engine.number, place] = end - begun - closed_ps(begun, start, opened)
            before = end
    return found


def test_the_drawn_servers_have_all_that_damages_a_trace():
    engines = [engine for seed in (4, 7, 9, 62, 72, 74) for engine in draw_server(seed)]
    assert max(len(step.requests) for engine in engines for step in engine.steps) == 64
    assert min(len(step.requests) for engine in engines for step in engine.steps) == 1
    assert any(engine.number == 1 and is_clear(engine) for engine in engines)
    crossing = [len({step.thread for step in engine.steps}) == 2 for engine in engines]
    assert {(c, is_clear(e)) for c, e in zip(crossing, engines, strict=True)} == {
        (crosses, clear) for crosses in (False, True) for clear in (False, True)
    }
    for damage in ("cut", "lost_marker", "stated"):
        assert {getattr(engine, damage) for engine in engines} == {False, True}
    assert any(engine.seen.start > 0 and engine.seen.stop < len(engine.steps) for engine in engines)


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
    numbers, lasted = numbered(engines), periods(engines)
    sql = "select step, phase, requests, tokens, start_ps, end_ps, period_ps from serving_step"
    found = {row[0]: row[1:] for row in warehouse.query(sql).rows}
    assert len(found) == len(numbers)
    for engine in engines:
        for place in engine.marked:
            step = engine.steps[place]
            phase, *others = found[numbers[engine.number, place]]
            tokens = sum(request.tokens(place)[0] for request in step.requests)
            times = [step.start_ps, step.ran[1], lasted[engine.number, place]]
            assert others == [len(step.requests), tokens, *times]
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


def test_a_summary_adds_up_the_steps(served):
    engines, warehouse = served
    steps = [(engine, engine.steps[place]) for engine in engines for place in engine.marked]
    tokens = sum(r.tokens(step.place)[0] for _, step in steps for r in step.requests)
    wall = (max(step.ran[1] for _, step in steps) - min(step.start_ps for _, step in steps)) / 1e12
    sql = "select steps, most_requests, mean_requests, wall_s, tokens_per_s, prefill_steps, decode_steps,"
    sql += " mixed_steps, prefill_least_ratio, prefill_most_ratio from serving_summary"
    (found,) = warehouse.query(sql).rows
    counts = [len(step.requests) for _, step in steps]
    assert found[:2] == (len(steps), max(counts))
    assert found[2] == pytest.approx(mean(counts))
    # Nothing connects the clocks of two engines.
    times = (wall, tokens / wall) if len(engines) == 1 else (None, None)
    assert found[3:5] == pytest.approx(times)
    prompts = sum(r.tokens(step.place)[1] for _, step in steps for r in step.requests) / tokens
    assert found[8] <= prompts + 1e-12
    assert found[9] >= prompts - 1e-12
    if all(map(is_clear, engines)):
        phases = [step.phase for _, step in steps]
        assert found[5:8] == tuple(phases.count(name) for name in PHASES)
        assert found[8:] == pytest.approx((prompts, prompts))


def test_a_prefill_costs_the_difference_of_medians(served):
    engines, warehouse = served
    lasted, of = periods(engines), {}
    for engine in engines:
        for place in engine.marked:
            step = engine.steps[place]
            of.setdefault((len(step.requests), step.phase), []).append(lasted[engine.number, place])
    expected = {}
    for count in {count for count, phase in of if phase != "prefill"}:
        alone, beside = (of.get((count, phase), []) for phase in ("decode", "mixed"))
        added = (median(beside) - median(alone)) / 1e12 if alone and beside else None
        expected[count] = len(alone), len(beside), added and pytest.approx(added, rel=1e-6)
    sql = "select requests, decode_steps, mixed_steps, added_s from interference"
    found = {row[0]: row[1:] for row in warehouse.query(sql).rows}
    if all(map(is_clear, engines)):
        assert found == expected
    for count, (
        alone,
        beside,
        _,
    ) in found.items():  # where the trace does not tell, fewer have a phase
        assert alone + beside <= sum(len(of.get((count, phase), [])) for phase in PHASES)


def test_requests_are_good_within_the_limits(served):
    engines, warehouse = served
    sql = "select judged_requests, good_requests from serving_summary"
    judged, good = warehouse.query(sql).rows[0]
    judges, goods = [], []
    for engine in engines:
        for request in engine.requests:
            begun, seen = known(engine, request)
            if not seen:
                continue
            ends = [engine.steps[place].ran[1] for place in seen]
            if not begun or request.complete not in seen:
                continue
            first = engine.steps[request.complete].ran[1]
            later = sum(end > first for end in ends)
            ended = request.steps[-1] < engine.marked.stop - 1
            if later == 0 and not ended:
                continue
            ttft = (first - engine.steps[request.steps[0]].start_ps) / 1e12
            tpot = (ends[-1] - first) / later / 1e12 if later else 0
            judges.append(request.name)
            goods.append(ttft <= TTFT_LIMIT_S and tpot <= TPOT_LIMIT_S)
    if all(map(is_clear, engines)):
        assert (judged, good) == (len(judges), sum(goods))
        assert 0 < good < judged
    else:
        assert judged <= len(judges)
        assert (good or 0) <= sum(goods)
