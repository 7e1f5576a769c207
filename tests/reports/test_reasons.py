"""What is not known: never 0, never an empty chart, always a sentence."""

from __future__ import annotations

import pytest

from tests.reports.example import MIB, RUN_PANELS, Store, example_run, merge
from tests.reports.html import plain
from tests.reports.test_panels import data, facts_of, filled, rows_of
from xlahouse.ingest.tables.busy import RULES
from xlahouse.reports.charts.palette import CATEGORY_COLOURS
from xlahouse.reports.charts.panel import fill
from xlahouse.reports.headline import SPREAD_SQL, headline_cards
from xlahouse.reports.panels.communication import bandwidth, matrix, volume
from xlahouse.reports.panels.efficiency import latency, steps
from xlahouse.reports.panels.runs import overview
from xlahouse.reports.panels.time import time_split, timeline
from xlahouse.reports.setup_facts import setup_commands, setup_rows

TP4 = "a" * 12


def cards_of(store: Store, run_id: str):
    cards = headline_cards(facts_of(store, run_id), store.query(SPREAD_SQL).pl())
    return {card.metric: card for card in cards}


def test_headlines_carry_n_spread_and_coverage(two_runs):
    cards = cards_of(two_runs, TP4)
    shown = {name: [plain(t) for t in (c.text, c.spread, c.coverage)] for name, c in cards.items()}
    # 513 MiB = 537,919,488 bytes, of which each device sends a quarter. Periods: 100 us, 120 at a
    # request's start, 200 between steps: 9 x 200 + 2 x 120 + 100 = 2,140, and 12 windows of 100.
    assert shown == {
        "ttft_s": ["105 µs", "all 105 µs", "n = 3 of 3 requests"],
        "tpot_s": ["200 µs", "all 200 µs", "n = 3 of 3 requests, 9 steps"],
        "output_tokens_per_s": ["22,695", "all 22,695", "n = 3 of 3 requests"],
        "wire_bytes": ["538 MB", "all 134 MB each", "n = 4 of 4 devices"],
        "comm_compute_ratio": ["0.625", "p5 and p95: 0.625", "n = 48 of 48 device steps"],
        "exposed_ratio": ["40.0 %", "p5 and p95: 40.0 %", "n = 48 of 48 device steps"],
        "idle_ratio": ["43.9 %", "p5-p95: 0 to 50.0 %", "n = 48 of 48 device steps"],
    }
    assert cards["wire_bytes"].exact == "537,919,488"


def test_a_spread_names_its_ends():
    windows = [
        {"run_id": "r", "device_id": 0, "request": 0, "step": k, "idle_ps": k}
        | {"window_ps": 100, "period_ps": 100}
        for k in range(1, 101)
    ]
    summary = [{"run_id": "r", "idle_ratio": 0.505}]
    devices = [{"run_id": "r", "device_id": 0, "traced": True}]
    tables = {"runs": [{"run_id": "r"}], "devices": devices, "run_summary_v2": summary}
    store = Store({**tables, "device_time_v1": windows})
    # Rows ceil(0.05 x 100) = 5 and ceil(0.95 x 100) = 95.
    assert plain(cards_of(store, "r")["idle_ratio"].spread) == "p5-p95: 5.00 % to 95.0 %".replace(
        " % to", " to"
    )
    few = Store({**tables, "device_time_v1": windows[:3]})
    assert plain(cards_of(few, "r")["idle_ratio"].spread) == "range 1.00 to 3.00 %"


def test_a_run_without_devices_knows_nothing_and_says_so(bare_run):
    cards = cards_of(bare_run, "c" * 12).values()
    assert {card.why for card in cards} == {"no device events in the trace"}
    assert {card.text for card in cards} == {""}


@pytest.mark.parametrize("panel", RUN_PANELS, ids=lambda panel: panel.key)
def test_a_panel_without_rows_says_why(bare_run, panel):
    section = filled(bare_run, panel, "c" * 12)
    assert section.empty.endswith(".")
    assert section.figures == []


def test_setup_says_what_is_not_known(bare_run):
    rows = dict(setup_rows(facts_of(bare_run, "c" * 12)))
    assert rows["Model"] == rows["Tokens"] == rows["Batch"] == "not known"
    assert rows["Devices"] == "0 traced, 0 named"
    assert rows["Trace"] == "no_device_events"


def test_setup_joins_what_is_known(two_runs):
    rows = dict(setup_rows(facts_of(two_runs, "b" * 12)))
    assert rows["Mesh, major to minor"] == "dp 2 x tp 2"
    assert rows["Framework"] == "torch_xla, torch 2.9.1, torch_xla 2.9.0"
    assert rows["Batch"] == "4 sequences, 1 microbatch"
    assert rows["Devices"] == "cpu, 4 traced, 4 named, on 1 host"


@pytest.mark.parametrize("versions", ["not JSON", '["a list"]', "3"])
def test_strange_versions_are_left_out(versions):
    store = Store({"runs": [{"run_id": "r", "framework": "jax", "framework_versions": versions}]})
    assert dict(setup_rows(facts_of(store, "r")))["Framework"] == "jax"


def test_a_run_without_markers_has_a_launch_period_and_no_tpot():
    row = {"run_id": "r", "source": "module", "launch_period_s": 0.78, "launch_period_count": 99}
    summary = {"run_id": "r", "launch_period_s": 0.78}
    devices = [{"run_id": "r", "device_id": 0, "traced": True}]
    tables = {"runs": [{"run_id": "r"}], "devices": devices}
    store = Store({**tables, "latency_v3": [row], "run_summary_v2": [summary]})
    cards = cards_of(store, "r")
    assert cards["ttft_s"].why == "no markers of requests in the trace"
    assert cards["tpot_s"].why == "no markers of requests in the trace"
    section = filled(store, latency.PANEL, "r")
    assert section.figures == []
    assert section.coverage.startswith("99 periods of one program")
    assert any("starts again every 780 ms" in plain(note) for note in section.notes)
    assert not any("TPOT is the" in note for note in section.notes)
    assert "TTFT is not known: no markers of requests in the trace." in section.notes
    assert {"Request", "TTFT", "TPOT"} <= set(section.unknown_columns)


def test_one_output_token_has_no_tpot():
    store = Store(example_run("r", "one token", {"tp": 4}, steps=1))
    assert cards_of(store, "r")["tpot_s"].why == "one output token: no time between tokens"
    section = filled(store, latency.PANEL, "r")
    assert "TPOT is not known: one output token: no time between tokens." in section.notes
    assert filled(store, steps.PANEL, "r").empty == (
        "The trace has no decode step outside warm-up."
    )


def test_virtual_devices_have_no_share_of_a_peak(two_runs):
    notes = filled(two_runs, bandwidth.PANEL, TP4).notes
    assert (
        "The share of the busiest link's peak is not known: these devices are virtual and have no links."
        in notes
    )
    assert filled(two_runs, time_split.PANEL, TP4).notes == []  # the page says it once


def test_bounded_transfers_are_counted_and_left_out():
    rows = [
        {
            "run_id": "r",
            "instance": k,
            "axis": "tp",
            "kind": "all-gather",
            "payload_bytes": MIB,
            "group_size": 4,
            "transfer_ps": 10,
            "busbw_bytes_per_s": 1e9,
            "is_bound": bound,
        }
        for k, bound in enumerate([True, None, False])
    ]
    store = Store({"runs": [{"run_id": "r"}], "collective_bandwidth_v3": rows})
    section = filled(store, bandwidth.PANEL, "r")
    assert section.coverage.startswith("Bandwidth is known for 1 of 3 instances.")
    assert section.notes[0].startswith("2 instances left out:")


def test_unknown_wire_bytes_are_neither_zero_nor_drawn():
    base = {"run_id": "r", "device_id": 0, "phase": "decode", "axis": "ep", "collectives": 5}
    rows = [
        {**base, "kind": "all-reduce", "payload_bytes": 8, "wire_bytes": 8.0},
        {**base, "kind": "ragged-all-to-all", "payload_bytes": 8, "wire_bytes": None},
    ]
    store = Store({"runs": [{"run_id": "r"}], "traffic_volume_v1": rows})
    section = filled(store, volume.PANEL, "r")
    assert section.notes == [
        "Not drawn: 5 collectives (ragged-all-to-all) of unknown wire bytes; their sizes, or the "
        "devices that they span, are not known."
    ]
    assert [row["kind"] for row in data(section.figures[1].spec)] == ["all-reduce"]
    assert [row[-1].text for row in section.cells][1] == "not known"


def test_transfers_of_unknown_kind_and_size_are_named():
    base = {"run_id": "r", "device_id": 0, "axis": "ep", "collectives": 2, "wire_bytes": None}
    rows = [{**base, "kind": kind} for kind in ("all-to-all", None)]
    store = Store({"runs": [{"run_id": "r"}], "traffic_volume_v1": rows})
    (note,) = filled(store, volume.PANEL, "r").notes
    assert note.startswith(
        "Not drawn: 4 collectives (all-to-all, of unknown kind) of unknown wire bytes"
    )


def test_every_category_of_busy_time_has_a_lane_and_a_colour():
    assert set(RULES) <= set(timeline.LANES)
    assert set(timeline.LANES.values()) <= set(CATEGORY_COLOURS)


def test_unclassified_bytes_say_why():
    tables = example_run("r", "no mesh", {"tp": 4})
    tables["runs"][0]["mesh"] = None
    section = filled(Store(tables), volume.PANEL, "r")
    assert plain(section.notes[0]).startswith(
        "100 % of the payload belongs to no known axis: no mesh is known"
    )


def test_untraced_sources_are_grey_and_silent_ones_are_zero():
    devices = [
        {"run_id": "r", "device_id": d, "traced": d < 2, "core": "tensorcore"} for d in range(3)
    ]
    cell = {"run_id": "r", "axis": "tp", "kind": "all-reduce", "algorithm": "ring"}
    cells = [{**cell, "source_device_id": 0, "target_device_id": 2, "bytes": 8.0}]
    store = Store({"runs": [{"run_id": "r"}], "devices": devices, "traffic_matrix_v1": cells})
    rows = rows_of(store, matrix.PANEL, "r")
    assert rows.select("source", "target", "bytes").rows() == [
        ("0", "2", 8),
        ("1", None, 0),
        ("2", None, None),
    ]
    section = filled(store, matrix.PANEL, "r")
    assert data(section.figures[0].spec, 0) == [{"source": "2"}]
    assert section.notes[0].startswith("The trace has no events of device 2:")


def test_traffic_to_unknown_devices_is_told_and_not_drawn():
    devices = [{"run_id": "r", "device_id": 0, "traced": True}]
    cell = {"run_id": "r", "axis": "tp", "kind": "all-reduce", "algorithm": "ring"}
    cells = [{**cell, "source_device_id": 0, "target_device_id": None, "bytes": 8.0}]
    store = Store({"runs": [{"run_id": "r"}], "devices": devices, "traffic_matrix_v1": cells})
    section = filled(store, matrix.PANEL, "r")
    assert section.figures == []
    assert plain(section.notes[0]) == "Not drawn: traffic to unknown devices (8 B)."


def test_an_unknown_part_makes_a_cell_unknown():
    devices = [{"run_id": "r", "device_id": d, "traced": True} for d in range(2)]
    cell = {"run_id": "r", "algorithm": "ring", "source_device_id": 0, "target_device_id": 1}
    cells = [
        {**cell, "axis": "tp", "kind": "all-reduce", "bytes": 8.0},
        {**cell, "axis": "tp", "kind": "ragged-all-to-all", "bytes": None},
    ]
    store = Store({"runs": [{"run_id": "r"}], "devices": devices, "traffic_matrix_v1": cells})
    section = filled(store, matrix.PANEL, "r")
    assert data(section.figures[0].spec)[0]["bytes"] is None
    assert any(note.startswith("Grey cells: ") for note in section.notes)


def test_the_index_names_runs_of_unknown_size():
    row = {
        "run_id": "r",
        "device_id": 0,
        "axis": "ep",
        "kind": "ragged-all-to-all",
        "collectives": 1,
    }
    store = Store({"runs": [{"run_id": "r", "name": "x"}], "traffic_volume_v1": [row]})
    rows = store.query(overview.TRAFFIC.sql, {"runs": ["r"]}).pl()
    section = fill(overview.TRAFFIC, rows, store.facts())
    assert section.figures == []
    assert section.notes == ["Not drawn: traffic of unknown size in x."]


def test_what_a_run_lacks_comes_with_the_command_that_sets_it(two_runs):
    bare = {
        "runs": [{"run_id": "r"}],
        "devices": [{"run_id": "r", "device_id": k, "traced": True} for k in range(4)],
    }
    assert setup_commands(facts_of(Store(bare), "r")) == {
        "Mesh, major to minor": "xlahouse set mesh r tp=4",
        "Devices": "xlahouse set device-kind r 'TPU v6e'",
    }
    assert setup_commands(facts_of(two_runs, TP4)) == {}


def test_a_page_says_once_how_many_events_were_rejected(pages):
    for name, page in pages.items():
        if name.startswith("run-plain"):
            once = page.text.partition("Findings about the data")[0]
            assert once.count("2 of 1,000 events rejected") == 1


def test_a_partial_run_says_so():
    tables = merge(example_run("r", "cut", {"tp": 4}))
    tables["runs"][0]["status"] = "partial"
    assert facts_of(Store(tables), "r").covered().endswith("the run is partial.")


def test_infinite_values_are_not_known():
    row = {"run_id": "r", "source": "marker", "tpot_s": float("inf"), "decode_steps": 1}
    store = Store({"runs": [{"run_id": "r"}], "latency_v3": [row]})
    section = filled(store, latency.PANEL, "r")
    assert section.figures == []
    assert "TPOT" in section.unknown_columns
