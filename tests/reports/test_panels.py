"""Each panel's rows and charts, over runs whose numbers are worked out by hand."""

from __future__ import annotations

import polars as pl
import pytest

from tests.reports.example import MIB, RUN_PANELS, SITE_PANELS, US, Store
from tests.reports.sections import facts_of, filled, rows_of
from tests.reports.vega_lite import data, is_valid, layers
from xlahouse.reports.charts.palette import AXIS_COLOURS, KIND_COLOURS, TIME_COLOURS
from xlahouse.reports.charts.panel import draw, fill
from xlahouse.reports.charts.theme import MAX_MARKS
from xlahouse.reports.panels import quality
from xlahouse.reports.panels.communication import bandwidth, matrix, volume
from xlahouse.reports.panels.efficiency import latency, steps
from xlahouse.reports.panels.runs import overview, top_runs
from xlahouse.reports.panels.time import time_split

TP4, DP2_TP2 = "a" * 12, "b" * 12


@pytest.fixture(scope="module")
def figures(two_runs: Store):
    """Every figure of a run's page and of the index, drawn."""
    facts = two_runs.facts()
    drawn = []
    for panel in RUN_PANELS:
        drawn += fill(panel, rows_of(two_runs, panel, TP4), facts[1]).figures
    for panel in SITE_PANELS:
        rows = two_runs.query(panel.sql, {"runs": [TP4, DP2_TP2]}).pl()
        drawn += fill(panel, rows, facts).figures
    return drawn


def test_volume_adds_up_over_devices(two_runs):
    # dp2.tp2, n = 2: an all-reduce sends S, an all-gather S/2. Prefill: 4 devices x 3 requests x 16 MiB;
    # decode: 4 x 9 steps x 1 MiB.
    rows = rows_of(two_runs, volume.PANEL, DP2_TP2).select(
        "phase", "axis", "kind", "devices", "collectives", "payload_bytes", "wire_bytes"
    )
    assert rows.rows() == [
        ("prefill", "tp", "all-gather", 4, 12, 192 * MIB, 96.0 * MIB),
        ("prefill", "tp", "all-reduce", 4, 12, 192 * MIB, 192.0 * MIB),
        ("decode", "tp", "all-gather", 4, 36, 36 * MIB, 18.0 * MIB),
        ("decode", "tp", "all-reduce", 4, 36, 36 * MIB, 36.0 * MIB),
    ]


def test_volume_is_drawn_once_by_axis_and_once_by_kind(two_runs):
    by_axis, by_kind = (figure.spec for figure in filled(two_runs, volume.PANEL, DP2_TP2).figures)
    # The greatest bar is 288 MiB = 302 MB, so the axis counts MB.
    assert [(row["phase"], row["axis"], row["wire_bytes"]) for row in data(by_axis)] == [
        ("prefill", "tp", 288 * MIB),
        ("decode", "tp", 54 * MIB),
    ]
    assert data(by_axis)[0]["amount"] == pytest.approx(301.989888)
    assert by_axis["encoding"]["x"]["title"] == "Wire bytes sent, all devices (MB)"
    colour = by_kind["encoding"]["color"]["scale"]
    assert dict(zip(colour["domain"], colour["range"], strict=True)) == {
        kind: KIND_COLOURS[kind] for kind in ("all-reduce", "all-gather")
    }
    assert by_axis["encoding"]["color"]["scale"]["range"] == [AXIS_COLOURS["tp"]]


def test_the_matrix_holds_each_senders_wire_bytes(two_runs):
    # 57 MiB of payload a device and kind: 3 x 16 + 9. Ring of 4: (3/2 + 3/4) x 57 MiB to the successor.
    rows = rows_of(two_runs, matrix.PANEL, TP4)
    whole = filled(two_runs, matrix.PANEL, TP4).figures[0]
    assert {(row["source"], row["target"]): row["bytes"] for row in data(whole.spec)} == {
        (str(device), str((device + 1) % 4)): 2.25 * 57 * MIB for device in range(4)
    }
    assert rows["bytes"].sum() == 4 * 2.25 * 57 * MIB
    titles = [figure.title for figure in filled(two_runs, matrix.PANEL, TP4).figures]
    assert titles == [
        "All traffic (axis tp)",
        "Traffic, prefill",
        "Traffic, decode",
    ]


def test_bandwidth_is_wire_bytes_over_the_transfer(two_runs):
    # All-reduce: 10 us, wire S; all-gather: 40 us, wire S/2. 2 groups x (3 prefills, 9 decode steps).
    rows = rows_of(two_runs, bandwidth.PANEL, DP2_TP2)
    picked = rows.select("kind", "payload_bytes", "instances", "measured", "p50_busbw_bytes_per_s")
    assert picked.rows() == [
        ("all-gather", MIB, 18, 18, pytest.approx(MIB / 2 / 40e-6)),
        ("all-gather", 16 * MIB, 6, 6, pytest.approx(8 * MIB / 40e-6)),
        ("all-reduce", MIB, 18, 18, pytest.approx(MIB / 10e-6)),
        ("all-reduce", 16 * MIB, 6, 6, pytest.approx(16 * MIB / 10e-6)),
    ]


def test_the_time_split_adds_up_to_the_window(two_runs):
    # METRICS' example: compute 80, exposed 20, overlapped 30, idle 0 of 100 us, in every step.
    rows = rows_of(two_runs, time_split.PANEL, TP4)
    picked = rows.select(
        "phase",
        "device_id",
        "steps",
        "window_ps",
        "compute_ps",
        "exposed_ps",
        "idle_ps",
        "overlapped_ps",
    )
    assert picked.rows() == [
        (phase, device, n, n * 100 * US, n * 80 * US, n * 20 * US, 0, n * 30 * US)
        for phase, n in (("prefill", 3), ("decode", 9))
        for device in range(4)
    ]
    assert rows["comm_compute_ratio"].unique().to_list() == [0.625]


def test_the_time_split_draws_shares_and_mean_steps(two_runs):
    by_phase, prefill, decode = filled(two_runs, time_split.PANEL, TP4).figures
    shares = [(row["phase"], row["share"], row["ratio"]) for row in data(by_phase.spec)]
    assert sorted(shares) == [
        ("decode", "compute", 0.8),
        ("decode", "exposed communication", 0.2),
        ("prefill", "compute", 0.8),
        ("prefill", "exposed communication", 0.2),
    ]
    assert decode.title == "Decode: mean step by device"
    assert decode.note == "Mean over 36 device steps."
    assert {(row["device_id"], row["share"], row["amount"]) for row in data(prefill.spec)} == {
        (device, share, amount)
        for device in range(4)
        for share, amount in (("compute", 80), ("exposed communication", 20))
    }
    assert prefill.spec["encoding"]["x"]["title"] == "Mean time of a step (µs)"
    scale = prefill.spec["encoding"]["color"]["scale"]
    assert scale["range"] == [TIME_COLOURS["compute"], TIME_COLOURS["exposed communication"]]


def test_latency_stands_beside_the_host_clock(two_runs):
    # The marker starts 5 us before ops that take 100 us; steps end 200 us apart; 4 x 4 tokens in 705 us.
    rows = rows_of(two_runs, latency.PANEL, TP4)
    picked = rows.select(
        "request", "source", "ttft_s", "tpot_s", "output_tokens_per_s", "decode_steps"
    )
    assert picked.rows() == [
        (k, "marker", pytest.approx(105e-6), pytest.approx(200e-6), pytest.approx(16 / 705e-6), 3)
        for k in range(3)
    ]
    section = filled(two_runs, latency.PANEL, TP4)
    # 105 / 110 - 1 and 200 / 210 - 1.
    against = "Mean of the trace relative to the host clock: TTFT -4.55 %, TPOT -4.76 %."
    assert against in [note.replace("\u00a0", " ") for note in section.notes]
    ttft, tpot = section.figures
    assert data(ttft.spec, 0) == [
        {"s": 110e-6, "clock": "host clock, mean", "amount": pytest.approx(110)}
    ]
    assert [row["amount"] for row in data(tpot.spec, 1)] == pytest.approx([200] * 3)


def test_steps_are_medians_over_requests(two_runs):
    rows = rows_of(two_runs, steps.PANEL, TP4)
    assert rows.select("first_step", "last_step", "steps", "measured", "p50_s").rows() == [
        (k, k, 3, 3, pytest.approx(200e-6)) for k in (1, 2, 3)
    ]


def test_long_runs_put_neighbouring_steps_into_bins():
    # Steps 1 to 1999: width ceil(2000 / 500) = 4, so bins 0-3 (3 steps), 4-7, … 1996-1999.
    latencies = [
        {"run_id": "r", "request": 0, "step": k, "latency_s": k * 1e-3} for k in range(2000)
    ]
    store = Store({"runs": [{"run_id": "r"}], "step_latency_v1": latencies})
    rows = (
        store.query(steps.SQL, {"run": "r"})
        .pl()
        .select("first_step", "last_step", "steps", "p50_s")
    )
    assert len(rows) == 500
    assert rows.row(0) == (1, 3, 3, 0.002)
    assert rows.row(1) == (4, 7, 4, 0.0055)
    assert rows.row(-1) == (1996, 1999, 4, 1.9975)


def test_executions_stand_for_steps_without_markers():
    windows = [
        {"run_id": "r", "device_id": device, "step": 0, "window_ps": (device + 1) * US}
        for device in range(2)
    ]
    store = Store({"runs": [{"run_id": "r"}], "device_time_v1": windows})
    rows = store.query(steps.SQL, {"run": "r"}).pl()
    assert rows.select("first_step", "steps", "p50_s").rows() == [(0, 1, 2e-6)]


def test_the_index_compares_runs(two_runs):
    params = {"runs": [TP4, DP2_TP2]}
    rows = two_runs.query(overview.TRAFFIC.sql, params).pl()
    # dp2.tp2: 4 devices x (1 + 1/2) x 57 MiB.
    assert rows.select("run", "axis", "collectives", "wire_bytes").rows() == [
        ("demo dp2.tp2", "tp", 96, 342.0 * MIB),
        ("demo tp4", "tp", 96, 513.0 * MIB),
    ]
    only = two_runs.query(overview.TIME.sql, {"runs": [TP4]}).pl()
    assert only.select("run", "phase", "steps", "window_ps", "exposed_ps").rows() == [
        ("demo tp4", "decode", 36, 3600 * US, 720 * US),
        ("demo tp4", "prefill", 12, 1200 * US, 240 * US),
    ]


def test_the_index_has_the_time_between_steps_that_its_idle_share_counts():
    """40 compute, 10 exposed and 50 between steps of 100; of the second run the last is not known."""
    row = {"steps": 1, "compute_ps": 40, "exposed_ps": 10, "exposed_copy_ps": 0, "sync_wait_ps": 0}
    row |= {"idle_ps": 0, "between_steps_ps": 50, "outside_ps": 0}
    rows = pl.DataFrame(
        [
            {"run_id": "a", "run": "a", **row},
            {"run_id": "b", "run": "b", **row, "between_steps_ps": None, "outside_ps": None},
        ]
    )
    parts = overview.time_parts(rows).sort("run", "place").select("run", "share", "ratio").rows()
    assert parts == [
        ("a", "compute", 0.4),
        ("a", "exposed communication", 0.1),
        ("a", "between steps", 0.5),
        ("b", "compute", 0.8),
        ("b", "exposed communication", 0.2),
    ]
    [note] = overview.time_notes(rows, [])
    assert note.endswith("so these bars are the steps alone: b.")


def test_findings_come_worst_first():
    issues = [
        {"run_id": "r", "severity": severity, "code": severity, "message": "m", "count": 1}
        for severity in ("info", "error", "warning")
    ]
    store = Store({"runs": [{"run_id": "r"}], "issues": issues})
    section = filled(store, quality.ISSUES, "r")
    assert [row[0].text for row in section.cells] == ["error", "warning", "info"]
    assert section.coverage == "1 error, 1 warning, 1 for information."


def test_every_chart_is_valid_vega_lite(figures):
    assert figures
    assert [figure.title for figure in figures if not is_valid(figure.spec)] == []


def test_every_axis_with_a_title_says_its_unit_or_counts_things(figures):
    counted = {"Source device", "Target device", "Device", "Request"}
    counted |= {"Decode step (1 is the first after the prefill)"}
    for figure in figures:
        assert figure.title
        for layer in layers(figure.spec):
            for side in ("x", "y"):
                title = layer["encoding"].get(side, {}).get("title")
                assert title is None or title in counted or title.endswith(")"), title


def test_a_chart_of_too_many_marks_is_refused_with_a_sentence(two_runs):
    figure = volume.figures(rows_of(two_runs, volume.PANEL, TP4), facts_of(two_runs, TP4))[0]
    figure.chart.data.values = [figure.chart.data.values[0]] * (MAX_MARKS + 1)
    drawn = draw(figure, "x")
    assert drawn.spec is None
    assert drawn.problem == "Not drawn: 20,001 marks; a chart has at most 20,000."


def test_a_matrix_of_128_devices_stays_small():
    devices = [
        {"run_id": "r", "device_id": d, "traced": True, "core": "tensorcore"} for d in range(128)
    ]
    cells = [
        {
            "run_id": "r",
            "phase": "decode",
            "axis": "ep",
            "kind": "all-to-all",
            "algorithm": "ring",
            "source_device_id": source,
            "target_device_id": target,
            "bytes": 1.0,
        }
        for source in range(128)
        for target in range(128)
        if source != target
    ]
    store = Store({"runs": [{"run_id": "r"}], "devices": devices, "traffic_matrix_v1": cells})
    section = filled(store, matrix.PANEL, "r")
    # 2 devices a cell: 4 pairs in each, 2 on the diagonal.
    drawn = {(row["source"], row["target"]): row["bytes"] for row in data(section.figures[0].spec)}
    assert len(drawn) == 64 * 64
    assert (drawn["0-1", "2-3"], drawn["126-127", "126-127"]) == (4, 2)
    assert "Neighbouring devices share a cell: the run has more than 64 devices." in section.notes
    assert len(section.cells) == 200
    assert section.rows_left_out == 64 * 64 - 200


def test_the_charts_of_many_runs_take_those_with_the_most():
    rows = pl.DataFrame(
        {
            "run_id": [f"r{k % 25:02d}" for k in range(50)],
            "wire_bytes": [None if k == 49 else float(k % 25 + 1) for k in range(50)],
        }
    )
    shown, note = top_runs.top_runs(rows, "wire_bytes", "wire bytes")
    # 25 runs of 2, 4, … 48 bytes; of the last one a part is not known.
    assert shown["run_id"].unique(maintain_order=True).to_list() == [
        f"r{k:02d}" for k in range(23, 3, -1)
    ]
    assert len(shown) == 40
    assert note == "The 20 of 25 runs with the most wire bytes."
    assert top_runs.top_runs(rows.head(20), "wire_bytes", "wire bytes")[1] == ""
