"""Steps of a server and the requests of each, from traces written step by step; expected by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ingest.serving.server import Served, trace
from tests.ingest.traces import rows, write
from xlahouse.ingest.run import ingest_paths


def ingested(tmp_path, *files):
    session = tmp_path / "plugins" / "profile" / "s"
    for number, raw in enumerate(files):
        write(session / f"p{number}.xplane.pb", raw)
    ingest_paths([str(tmp_path / "plugins")], str(tmp_path / "wh"))
    return tmp_path / "wh"


def steps(wh):
    """(step, phase, requests, tokens) as phases has them."""
    found = rows(wh, "phases")
    found = found.filter(found["source"] == "server", found["request"].is_null()).sort("step")
    return found.select("step", "phase", "requests", "tokens").rows()


def requests(wh, *columns):
    names = columns or ("step", "request", "tokens", "prompt_tokens", "is_first", "is_last")
    return rows(wh, "step_requests").sort("step", "request").select(names).rows()


def codes(wh):
    found = rows(wh, "issues")
    return dict(found.select("code", "count").rows())


def server(*steps):
    """(tokens, ids, requests or None) of steps at 0, 100, 200, …, each run 20 after its marker's start."""
    return [
        Served(100 * at, 60, tokens, ids, count, ran=(100 * at + 20, 50))
        for at, (tokens, ids, count) in enumerate(steps)
    ]


def test_requests_begin_go_on_and_end(tmp_path):
    """a goes on from before; b is prefilled alone beside it, then c alone; b ends before the trace does."""
    made = server(
        (1, "a", None),
        (40, "ab", None),
        (2, "ab", None),
        (1, "b", None),
        (30, "c", None),
        (1, "c", None),
    )
    wh = ingested(tmp_path, trace(made))
    assert steps(wh) == [
        (0, "decode", 1, 1),
        (1, "mixed", 2, 40),
        (2, "decode", 2, 2),
        (3, "decode", 1, 1),
        (4, "prefill", 1, 30),
        (5, "decode", 1, 1),
    ]
    a, b, c = 0, 1, 2
    assert requests(wh) == [
        (0, a, 1, None, None, False),  # whether it was its prompt's last token is not known
        (1, a, None, None, False, False),
        (1, b, None, None, True, False),
        (2, a, 1, 0, False, True),
        (2, b, 1, 0, False, False),
        (3, b, 1, 0, False, True),
        (4, c, 30, 30, True, False),
        (5, c, 1, 0, False, None),
    ]
    launches = rows(wh, "launches").select("phase", "request", "step").rows()
    assert launches == [(phase, None, step) for step, phase, *_ in steps(wh)]
    assert "requests_unnamed" not in codes(wh)


def test_totals_of_requests(tmp_path):
    """As above; b's step 1 has 40 tokens of two. c: the prompt's step gives a token, step 5 one more."""
    made = server(
        (1, "a", None),
        (40, "ab", None),
        (2, "ab", None),
        (1, "b", None),
        (30, "c", None),
        (1, "c", None),
    )
    wh = ingested(tmp_path, trace(made))
    columns = ("request_id", "first_step", "last_step", "token_step", "is_begun", "is_ended")
    more = ("lacks_tokens", "decode_steps", "decode_tokens", "output_tokens")
    assert rows(wh, "served_requests").select(*columns, *more).rows() == [
        ("a", 0, 2, None, False, True, True, 1, None, None),
        ("b", 1, 3, None, True, True, True, 2, None, None),
        ("c", 4, 5, 4, True, False, False, 1, 1, 2),
    ]
    bounds = rows(wh, "phases").filter(source="server", phase="mixed")
    assert bounds.select("least_prompt_tokens", "most_prompt_tokens").rows() == [(0, 40)]
    spans = rows(wh, "phases").filter(phase="request").select("request", "start_ps", "duration_ps")
    # to the ends of their last launches
    assert spans.rows() == [
        (0, 0, 270),
        (1, 100, 270),
        (2, 400, 170),
    ]


def test_a_request_whose_own_marker_opens_before_the_first_step_begins_there(tmp_path):
    """The first step is at 100: 7 came at 50, 8 went on from before the trace; 9's marker opens later."""
    made = server((42, (7, 8, 9), None), (3, (7, 8, 9), None))
    own = [
        ("xlahouse.request", start, 250, {"request": request, "_r": 1})
        for request, start in ((7, 50), (9, 101))
    ]
    moved = [replace(each, start_ps=each.start_ps + 100) for each in made]
    wh = ingested(tmp_path, trace(moved, events=own))
    assert requests(wh, "step", "request", "is_first") == [
        (0, 7, True),
        (0, 8, None),
        (0, 9, None),
        (1, 7, False),
        (1, 8, False),
        (1, 9, False),
    ]
    begun = rows(wh, "served_requests").sort("request").select("request", "is_begun").rows()
    assert begun == [(7, True), (8, False), (9, False)]


def test_a_prompt_in_chunks_goes_on_until_a_step_of_one_token(tmp_path):
    made = server((1, "z", None), (64, "a", None), (64, "a", None), (9, "a", None), (1, "a", None))
    wh = ingested(tmp_path, trace(made))
    assert [phase for _, phase, *_ in steps(wh)] == [
        "decode",
        "prefill",
        "prefill",
        "prefill",
        "decode",
    ]
    assert requests(wh, "step", "prompt_tokens")[1:] == [(1, 64), (2, 64), (3, 9), (4, 0)]
    found = (
        rows(wh, "served_requests").select("token_step", "decode_tokens", "output_tokens").rows()
    )
    assert found == [(None, 0, 1), (3, 1, 2)]


def test_several_tokens_past_the_prompt_are_speculation(tmp_path):
    """a has three tokens in step 3, after one in step 2: then step 5's, right after b's first, may be too."""
    made = server(
        (1, "z", None),
        (64, "a", None),
        (1, "a", None),
        (3, "a", None),
        (50, "b", None),
        (4, "b", None),
    )
    wh = ingested(tmp_path, trace(made))
    assert [phase for _, phase, *_ in steps(wh)] == [
        "decode",
        "prefill",
        "decode",
        "step",
        "prefill",
        "step",
    ]
    assert requests(wh, "step", "tokens", "prompt_tokens")[1:] == [
        (1, 64, 64),
        (2, 1, 0),
        (3, 3, None),
        (4, 50, 50),
        (5, 4, None),
    ]


def test_tokens_that_the_trace_states_win(tmp_path):
    stated = {
        "request_tokens1": 2,
        "request_tokens2": 30,
        "prompt_tokens1": 0,
        "prompt_tokens2": 30,
    }
    made = [Served(0, 60, 32, (7, 9), ran=(20, 50), more=stated)]
    wh = ingested(tmp_path, trace(made))
    assert steps(wh) == [(0, "mixed", 2, 32)]
    assert requests(wh) == [(0, 7, 2, 0, None, None), (0, 9, 30, 30, None, None)]  # ids are numbers


def test_ids_that_are_cut_off_are_counted_and_nothing_rests_on_them(tmp_path):
    """Of three requests step 1 names two; so in step 2 whether c begins is not known."""
    made = server((1, "a", None), (3, "ab", 3), (3, "abc", None), (20, "abcd", None))
    wh = ingested(tmp_path, trace(made))
    assert codes(wh)["requests_unnamed"] == 1
    assert [phase for _, phase, *_ in steps(wh)] == ["decode", "mixed", "decode", "step"]
    begin = {name for name, first in requests(wh, "request_id", "is_first") if first is None}
    assert begin == {"a", "c", "d"}
    assert requests(wh, "step", "request_id", "may_skip")[3:5] == [(2, "a", False), (2, "b", False)]
    assert rows(wh, "phases").filter(phase="request").is_empty()


def test_a_request_may_have_been_in_a_step_that_lacks_ids(tmp_path):
    made = server((1, "z", None), (9, "a", None), (2, "b", 2), (1, "a", None), (1, "z", None))
    wh = ingested(tmp_path, trace(made))
    found = requests(wh, "step", "request_id", "may_skip", "is_last")
    assert found[1:] == [
        (1, "a", False, False),
        (2, "b", False, True),  # all later steps name all of their requests
        (3, "a", True, True),
        (4, "z", True, None),
    ]


def test_lost_ends_leave_launches_without_a_step_and_steps_without_a_launch(tmp_path):
    first = Served(0, 60, 1, "a", ran=(20, 50), marked=False)
    last = Served(300, 60, 1, "a", ran=None)
    middle = [Served(100, 60, 1, "a", ran=(120, 50)), Served(200, 60, 1, "a", ran=(220, 50))]
    wh = ingested(tmp_path, trace([first, *middle, last]))
    assert [step for step, *_ in steps(wh)] == [0, 1, 2]
    assert rows(wh, "launches")["step"].to_list() == [None, 0, 1]


def test_an_enqueue_on_a_thread_without_markers_is_in_the_only_open_step(tmp_path):
    made = [
        Served(0, 60, 1, "a", ran=(70, 50), enqueued_by="pool"),
        Served(100, 60, 1, "a", ran=(190, 50), enqueued_by="pool"),
    ]
    assert rows(ingested(tmp_path, trace(made)), "launches")["step"].to_list() == [0, 1]


def test_engines_of_one_host_have_their_own_sequences(tmp_path):
    """Two processes, a device each: what is b's first step at one says nothing of the other's."""
    one = [Served(0, 60, 1, "a", ran=(20, 50)), Served(100, 60, 1, "a", ran=(120, 50))]
    two = [Served(50, 60, 1, "b", ran=(70, 50)), Served(155, 60, 8, "c", ran=(175, 50))]
    wh = ingested(tmp_path, trace(one), trace(two, device=1))
    assert steps(wh) == [
        (0, "decode", 1, 1),
        (1, "decode", 1, 1),
        (2, "decode", 1, 1),
        (3, "prefill", 1, 8),
    ]
    assert rows(wh, "launches").select("device_id", "step").rows() == [
        (0, 0),
        (0, 2),
        (1, 1),
        (1, 3),
    ]
    assert requests(wh, "step", "request_id", "is_last") == [
        (0, "a", False),
        (1, "b", True),
        (2, "a", None),
        (3, "c", None),
    ]


def test_annotated_steps_of_users_count_where_nothing_else_marks_steps(tmp_path):
    from tests.ingest.build import PlaneBuilder, space

    device, threads = PlaneBuilder("/device:TPU:0"), PlaneBuilder("/host:CPU")
    modules, line = device.line("XLA Modules"), threads.line("python")
    for at in range(3):
        device.event(modules, "jit_f(7)", 100 * at + 10, 50)
        threads.event(line, "train", 100 * at, 80, step_num=at + 40, _r=1)
    device.event(modules, "jit_g(8)", 290, 5)
    wh = ingested(tmp_path, space(device.plane, threads.plane))
    found = rows(wh, "launches").select("phase", "request", "step").rows()
    assert found == [*(("step", None, at) for at in (40, 41, 42)), (None, None, None)]
    assert set(rows(wh, "phases")["source"]) == {"marker"}


@pytest.mark.parametrize("uuid", [77, "77"])
def test_transfers_between_servers_are_kept(tmp_path, uuid):
    pull = {"request_id": "a", "uuid": uuid, "bytes": 4096, "dimensions": "(2, 1)", "source": "x:1"}
    given = {"request_id": "q", "uuid": 9, "bytes": 8, "dimensions": "(1,)"}
    events = [("KV_Cache_Pull", 5, 3, pull), ("KV_Cache_Await_Pull", 50, 4, given)]
    wh = ingested(tmp_path, trace([Served(0, 60, 1, "a", ran=(20, 50))], events=events))
    assert rows(wh, "kv_transfers").drop("run_id", "host").rows() == [
        ("kv", "pull", 0, "a", "77", 4096, "(2, 1)", "x:1", 5, 3),
        ("kv", "await_pull", None, "q", "9", 8, "(1,)", None, 50, 4),
    ]
