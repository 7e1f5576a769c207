"""Launches, compiles and clocks: what is drawn, and what is said where nothing links or compares."""

from __future__ import annotations

from tests.reports.example import Store
from tests.reports.sections import filled, rows_of
from tests.reports.vega_lite import assert_valid, data
from xlahouse.reports.panels.scheduling import clocks, host_gaps, launches

DEVICE = {"run_id": "r", "device_id": 0, "traced": True, "core": "tensorcore"}


def store_of(**tables):
    return Store({"runs": [{"run_id": "r"}], "devices": [DEVICE], **tables})


def phase(name, launched=10, linked=10, **more):
    row = {"run_id": "r", "phase": name, "launches": launched, "linked_launches": linked}
    return {**row, "early_launches": 0, "compiles": 0, "compile_ps": 0, "recompiles": 0, **more}


def test_launches_are_drawn_by_phase():
    queue = {
        "mean_queue_ps": 25.0,
        "p50_queue_ps": 20,
        "p95_queue_ps": 90,
        "mean_host_blocked_ps": 1.0,
    }
    gap = {"mean_launch_gap_ps": 2.0, "p50_launch_gap_ps": -3, "p95_launch_gap_ps": 8}
    store = store_of(
        scheduling_v2=[
            phase("decode", **queue, **gap),
            phase("prefill", 4, 2, **queue),
            phase("compile", 0, 0),
        ]
    )
    section = filled(store, launches.LAUNCHES, "r")
    assert_valid(section)
    assert [figure.title for figure in section.figures] == [
        "Queue of launches by phase",
        "Launch gap of launches by phase",
    ]
    queued, gaps = (data(figure.spec) for figure in section.figures)
    assert [(row["phase"], row["p50"], row["p95"], row["mean"]) for row in queued] == [
        ("prefill", 20, 90, 25),
        ("decode", 20, 90, 25),
    ]
    assert [(row["phase"], row["p50"]) for row in gaps] == [("decode", -3)]
    assert section.coverage.startswith("12 of 14 launches linked to their enqueue.")
    assert section.notes == ["Queue and dispatch leave out 2 launches without a link to the host."]


def test_activities_of_hosts_are_drawn_by_phase():
    """Two gaps of 40: 60 of the 80 enqueue, in two kinds of events, and 20 have no event."""
    gaps = [
        {"run_id": "r", "device_id": 0, "launch": 1, "start_ps": start} for start in (0, 100, 100)
    ]
    did = [("A::Execute", "enqueue", 45), ("Enqueue", "enqueue", 15), (None, "unknown", 20)]
    named = [
        {"run_id": "r", "phase": "decode", "name": name, "activity": activity, "gap_count": 2}
        | {
            "event_count": 2,
            "overlap_ps": own,
            "self_ps": own,
            "gap_ratio": own / 80,
            "mean_self_ps": own / 2,
        }
        for name, activity, own in did
    ]
    launch = {"run_id": "r", "device_id": 0, "launch": 1, "phase": "decode"}
    store = store_of(host_gaps=gaps, launches=[launch], host_gap_v1=named)
    section = filled(store, host_gaps.PANEL, "r")
    assert_valid(section)
    (figure,) = section.figures
    assert [(row["activity"], row["gap_ratio"]) for row in data(figure.spec)] == [
        ("enqueue", 0.75),
        ("unknown", 0.25),
    ]
    assert section.coverage.startswith("2 gaps longer than 10 µs.")
    assert section.notes == [
        "decode: 40 ps before a launch, on average; the largest part is enqueue: A::Execute, 56 %."
    ]


def test_launches_that_nothing_links_say_why():
    section = filled(store_of(scheduling_v2=[phase("step", 5, 0)]), launches.LAUNCHES, "r")
    assert section.figures == []
    assert section.notes[0].startswith(
        "Queue and dispatch are not known: the trace links no launch"
    )
    assert section.notes[1].startswith("How long hosts are blocked is not known")


def test_early_launches_are_told():
    rows = [phase("decode", 5, 5, early_launches=2, mean_host_blocked_ps=1.0)]
    notes = filled(store_of(scheduling_v2=rows), launches.LAUNCHES, "r").notes
    assert notes[0].startswith("2 launches seem to start before their enqueue")


def test_compiles_are_drawn_by_phase():
    rows = [
        phase("warmup", compiles=3, compile_ps=2_000_000_000_000),
        phase("decode", compiles=1, compile_ps=500_000_000_000, recompiles=1),
        phase("prefill"),
    ]
    section = filled(store_of(scheduling_v2=rows), launches.COMPILES, "r")
    assert_valid(section)
    (figure,) = section.figures
    assert [(row["phase"], row["amount"]) for row in data(figure.spec)] == [
        ("decode", 0.5),
        ("warmup", 2),
    ]
    assert figure.spec["encoding"]["x"]["title"] == "Compile time, all hosts (s)"
    assert section.coverage.startswith("4 compiles in 3 phases.")
    assert section.notes == [
        "1 compile after warm-up: these requests are left out of TTFT and TPOT."
    ]


def test_no_compile_is_good_news_and_no_host_is_none():
    nothing = filled(store_of(scheduling_v2=[phase("decode")]), launches.COMPILES, "r")
    assert nothing.figures == []
    assert nothing.notes == ["Nothing was compiled while the profiler ran."]
    unknown = phase("decode", compiles=None, compile_ps=None, recompiles=None)
    section = filled(store_of(scheduling_v2=[unknown]), launches.COMPILES, "r")
    assert section.notes == ["Compiles are not known: the trace has no events of a host."]
    assert section.cells[0][1].text == "not known"


def clock(name, offset, spread=None, skew=None, usable=None, state="aligned"):
    row = {"run_id": "r", "clock": name, "devices": 4, "reference": "a", "instances": 9}
    return {
        **row,
        "state": state,
        "evidence": "time" if state == "aligned" else None,
        "offset_ps": offset,
        "drift_ppm": 0.0,
        "spread_ps": spread,
        "median_skew_ps": skew,
        "is_usable": usable,
    }


def test_clocks_are_compared_with_the_reference():
    rows = [
        clock("a", 0, None, 700, True, "reference"),
        clock("b", 3000, 50, 700, True),
        clock("c", -9000, 800, 700, False),
    ]
    store = store_of(clock_offset_v2=rows)
    assert rows_of(store, clocks.PANEL, "r")["usable"].to_list() == ["yes", "yes", "no"]
    section = filled(store, clocks.PANEL, "r")
    assert_valid(section)
    offsets, spreads = (data(figure.spec) for figure in section.figures)
    assert [(row["clock"], row["amount"]) for row in offsets] == [("a", 0), ("b", 3), ("c", -9)]
    assert {(row["clock"], row["measure"], row["ps"]) for row in spreads} == {
        ("b", "spread of the offset", 50),
        ("b", "median skew", 700),
        ("c", "spread of the offset", 800),
        ("c", "median skew", 700),
    }
    assert section.notes == ["Skews are not usable, since the spread exceeds them: c."]
    assert section.coverage.startswith("3 clocks of 12 traced devices.")


def test_of_many_clocks_those_furthest_off_are_drawn():
    """Thirty clocks off by 0 to 29 ps: the 24 of most are drawn, the furthest first."""
    rows = [clock(f"c{place:02}", place, 1, 2, True) for place in range(30)]
    section = filled(store_of(clock_offset_v2=rows), clocks.PANEL, "r")
    offsets = data(section.figures[0].spec)
    assert [row["clock"] for row in offsets] == [f"c{place:02}" for place in range(29, 5, -1)]
    assert section.notes == ["Drawn: the 24 of 30 clocks that are furthest off."]


def test_clocks_that_agree_are_said_to_agree():
    rows = [clock("a", 0, None, 700, True, "reference"), clock("b", 0, 50, 700, True)]
    section = filled(store_of(clock_offset_v2=rows), clocks.PANEL, "r")
    assert [figure.title for figure in section.figures] == ["Uncertainty of the clocks, and skew"]
    assert section.notes == ["No clock is ahead of its reference or behind it: every offset is 0."]


def test_one_clock_needs_no_comparison():
    rows = [clock("a", 0, None, None, True, "reference")]
    section = filled(store_of(clock_offset_v2=rows), clocks.PANEL, "r")
    assert section.figures == []
    assert section.notes == [
        "One process wrote the trace, by one clock: there is nothing to compare."
    ]


def test_clocks_that_could_not_be_aligned_are_named():
    rows = [
        clock("a", 0, None, None, True, "reference"),
        clock("b", None, usable=False, state="ambiguous"),
        clock("c", None, usable=False, state="unconnected"),
    ]
    section = filled(store_of(clock_offset_v2=rows), clocks.PANEL, "r")
    assert section.figures == []
    assert section.notes == [
        "Several offsets fit: b.",
        "No launch or collective connects these clocks with the reference: c.",
    ]
