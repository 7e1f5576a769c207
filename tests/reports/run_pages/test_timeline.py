"""The device timeline: which steps stand for their phase, what is drawn, and what is merged."""

from __future__ import annotations

from tests.reports.example import US, Store
from tests.reports.sections import filled, rows_of
from tests.reports.vega_lite import assert_valid, data
from xlahouse.reports.charts.palette import CATEGORY_COLOURS
from xlahouse.reports.panels.time import timeline

TP4 = "a" * 12
DEVICE = {"run_id": "r", "device_id": 0, "traced": True, "core": "tensorcore"}


def step(number, span, request=0, phase="decode", start=0):
    key = {"run_id": "r", "request": request, "step": number, "phase": phase}
    return {**key, "start_ps": start, "span_ps": span}


def busy(number, start, length, request=0, category="compute", device=0):
    key = {"run_id": "r", "request": request, "step": number, "device_id": device}
    return {**key, "category": category, "start_ps": start, "duration_ps": length}


def store_of(steps, intervals, devices=(DEVICE,), **views):
    tables = {"runs": [{"run_id": "r"}], "devices": list(devices)}
    return Store({**tables, "step_time_v1": steps, "busy_intervals": intervals, **views})


def test_the_median_step_of_each_phase_is_laid_out(two_runs):
    # All steps take 100 us. Of 3 prefills the 2nd is request 1; of 9 decode steps the 5th is its step 2.
    rows = rows_of(two_runs, timeline.PANEL, TP4)
    one = rows.filter(rows["device_id"] == 3)
    assert one.select("phase", "request", "step", "category", "start_ps", "end_ps").rows() == [
        (phase, 1, number, *interval)
        for phase, number in (("prefill", 0), ("decode", 2))
        for interval in (
            ("collective", 30 * US, 40 * US),
            ("collective", 60 * US, 100 * US),
            ("compute", 0, 80 * US),
        )
    ]
    section = filled(two_runs, timeline.PANEL, TP4)
    assert_valid(section)
    prefill, decode = section.figures
    assert prefill.title == "Prefill: request 1, step 0 by device"
    assert decode.title == "Decode: request 1, step 2 by device"
    assert section.coverage.startswith("24 busy intervals of 4 devices as 24 marks.")
    drawn = [(row["lane"], row["start"], row["end"]) for row in data(decode.spec)[:3]]
    assert drawn == [("collective", 30, 40), ("collective", 60, 100), ("compute", 0, 80)]
    scale = decode.spec["encoding"]["color"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {
        lane: CATEGORY_COLOURS[lane] for lane in ("compute", "collective")
    }


def test_the_shortest_interval_has_an_outline_in_its_colour(two_runs):
    spec = filled(two_runs, timeline.PANEL, TP4).figures[0].spec
    assert spec["mark"]["strokeWidth"] == timeline.STROKE_PX > 0
    fill, outline = (spec["encoding"][channel] for channel in ("color", "stroke"))
    # Of one field: legends that differ are a warning on the reader's console.
    assert (outline["scale"], outline["legend"]) == (fill["scale"], fill["legend"])


def test_zooming_leaves_plain_wheels_to_the_page(two_runs):
    (zoom,) = filled(two_runs, timeline.PANEL, TP4).figures[0].spec["params"]
    assert zoom["bind"] == "scales"
    assert zoom["select"]["encodings"] == ["x"]
    assert zoom["select"]["zoom"] == "wheel![event.ctrlKey || event.metaKey]"


def test_without_markers_the_step_in_the_middle_of_the_time_is_drawn():
    # 10 + 20 + 30 + 100: half of 160 us is reached in the longest, though the median is 20 us.
    spans = (10, 100, 30, 20)
    steps = [step(k, us * US, None, "step") for k, us in enumerate(spans)]
    store = store_of(steps, [busy(k, 0, us * US, None) for k, us in enumerate(spans)])
    section = filled(store, timeline.PANEL, "r")
    assert [figure.title for figure in section.figures] == ["Step: execution 1 by device"]
    assert "reaches half of their total time" in section.figures[0].note


def test_the_shortest_gaps_are_closed_and_told():
    # 7000 intervals of 1 us, 1 us apart, and one 11 us after the last of them: of 7001 only 6000 may be
    # marks, so one gap of 1 us at least must go, and then all of them do.
    many = [busy(1, 2 * k * US, US) for k in range(7000)]
    intervals = [*many, busy(1, 14_010 * US, 5 * US)]
    store = store_of([step(1, 14_015 * US)], intervals)
    rows = rows_of(store, timeline.PANEL, "r")
    picked = rows.select("start_ps", "end_ps", "busy_ps", "intervals")
    assert picked.rows() == [
        (0, 13_999 * US, 7000 * US, 7000),
        (14_010 * US, 14_015 * US, 5 * US, 1),
    ]
    assert rows["closed_ps"].unique().to_list() == [US]
    note = filled(store, timeline.PANEL, "r").figures[0].note.replace("\u00a0", " ")
    assert "Gaps of up to 1.00 µs are closed to keep the page small." in note


def test_few_intervals_are_drawn_as_they_are():
    store = store_of([step(1, 10)], [busy(1, 0, 4), busy(1, 5, 5)])
    assert rows_of(store, timeline.PANEL, "r").select("start_ps", "end_ps").rows() == [
        (0, 4),
        (5, 10),
    ]
    assert "closed" not in filled(store, timeline.PANEL, "r").figures[0].note


def test_warm_up_sparse_cores_and_devices_beyond_the_limit_are_left_out():
    sparse = {**DEVICE, "device_id": 100, "core": "sparsecore"}
    devices = [{**DEVICE, "device_id": k} for k in range(40)]
    steps = [step(0, 10, -1, "warmup"), step(1, 10)]
    intervals = [busy(0, 0, 10, -1)]
    intervals += [busy(1, 0, 10, device=k) for k in (*range(40), 100)]
    section_store = store_of(steps, intervals, [*devices, sparse])
    rows = rows_of(section_store, timeline.PANEL, "r")
    assert rows["device_id"].to_list() == list(range(16))  # no stage and no host is known
    assert rows["phase"].unique().to_list() == ["decode"]
    notes = filled(section_store, timeline.PANEL, "r").notes
    assert notes[0].startswith("Drawn: 16 devices of 40: the first of each stage")


def test_of_many_devices_one_of_each_host_and_the_latest_are_drawn():
    devices = [{**DEVICE, "device_id": k, "host": f"h{k // 10}"} for k in range(40)]
    late = [
        {"run_id": "r", "device_id": k, "mean_lag_ps": lag}
        for k, lag in enumerate([0] * 36 + [3, 9, 5, 7])
    ]
    intervals = [busy(1, 0, 10, device=k) for k in range(40)]
    store = store_of([step(1, 10)], intervals, devices, straggler_v2=late)
    # The latest three lag 9, 7 and 5.
    assert rows_of(store, timeline.PANEL, "r")["device_id"].to_list() == [0, 10, 20, 30, 37, 38, 39]


def test_empty_microbatches_are_a_lane_of_their_own():
    intervals = [busy(1, 0, 10), busy(1, 2, 3, category="masked")]
    section = filled(store_of([step(1, 10)], intervals), timeline.PANEL, "r")
    assert {row["lane"] for row in data(section.figures[0].spec)} == {"compute", "empty microbatch"}
    assert any(note.startswith("Compute on empty microbatches") for note in section.notes)
