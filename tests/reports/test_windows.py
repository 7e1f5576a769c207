"""Windows between axes: the matrix, the curves, and what a delay fits into, from eight windows."""

from __future__ import annotations

import pytest

from tests.reports.example import US, Store
from tests.reports.sections import filled, rows_of
from tests.reports.vega_lite import assert_valid, data, drawn, layers, texts
from xlahouse.reports.charts.palette import AXIS_COLOURS, OVERLAP_COLOUR
from xlahouse.reports.panels.intervals import reconfiguration, window_spread, windows
from xlahouse.reports.panels.intervals.transitions import MAX_TRANSITIONS

# us; on the device tp is followed by pp soon, and pp by tp at once or long after.
TP_PP, PP_TP = (1, 2, 5, 20), (-2, -1, 1, 300)


AXES = ("dp", "ep", "pp", "sp", "tp")
LINES = {"device": 2, "run": 3, "group": 4, "rail": 5}


def window(before, after, us, scope="device", **more):
    """A burst that starts so long after the end of another one."""
    axes = {"from_axis_key": AXES.index(before), "axis_key": AXES.index(after)}
    times = {"from_end_ps": 0, "start_ps": us * US}
    return {
        "line_key": LINES[scope],
        "member_id": 0,
        "phase": "decode",
        "bytes": 10.0,
        **axes,
        **times,
        **more,
    }


def store_of(*bursts, **tables):
    devices = [{"run_id": "r", "device_id": 0, "traced": True, "core": "tensorcore"}]
    axes = [{"run_id": "r", "axis": axis, "axis_key": key} for key, axis in enumerate(AXES)]
    lines = [{"run_id": "r", "scope": scope, "line_key": key} for scope, key in LINES.items()]
    views = {"_burst_v2": list(bursts), "_axis_key_v1": axes, "_line_v1": lines}
    return Store({"runs": [{"run_id": "r"}], "devices": devices, **views, **tables})


@pytest.fixture(scope="module")
def store():
    rows = [window("tp", "pp", us) for us in TP_PP] + [window("pp", "tp", us) for us in PP_TP]
    return store_of(*rows, window("tp", "pp", 7, scope="run", member_id=None))


def test_a_cell_is_the_median_with_its_number(store):
    section = filled(store, windows.PANEL, "r")
    assert_valid(section)
    device, run = section.figures
    assert (device.title, run.title) == (
        "Decode: windows between axes, on each device",
        "Decode: windows between axes, over all devices",
    )
    cells = {(row["from_axis"], row["to_axis"]): row for row in data(device.spec)}
    # Between the second and the third window: 2 and 5, -1 and 1 us.
    assert {key: row["p50_ps"] for key, row in cells.items()} == {
        ("tp", "pp"): 3_500_000,
        ("pp", "tp"): 0,
    }
    assert (cells["tp", "pp"]["p50_s"], cells["pp", "tp"]["p50_s"]) == (pytest.approx(3.5e-6), None)
    assert cells["tp", "pp"]["next_bytes"] == 40
    assert section.coverage.startswith("8 windows on each device and 1 window over all devices.")


def test_a_cell_without_a_window_is_drawn_grey(store):
    device, run = filled(store, windows.PANEL, "r").figures
    shown = texts(device.spec)
    assert {"3.50 µs", "0 ps", "n = 4"} <= set(shown)
    assert drawn(device.spec).count(f'fill="{OVERLAP_COLOUR}"') == 1
    assert OVERLAP_COLOUR not in drawn(run.spec)
    assert filled(store, windows.PANEL, "r").notes == [
        "Grey: the median is 0 or below, because the next axis starts before the transfers of the "
        "previous axis end."
    ]


def test_all_matrices_share_one_colour_scale(store):
    domains = [
        layers(figure.spec)[0]["encoding"]["color"]["scale"]["domain"]
        for figure in filled(store, windows.PANEL, "r").figures
    ]
    # Medians of 3.5 and 7 us.
    assert domains == [[1e-6, 1e-5], [1e-6, 1e-5]]


def test_curves_rise_where_windows_are(store):
    section = filled(store, window_spread.PANEL, "r")
    assert_valid(section)
    (figure,) = section.figures
    name = "tp → pp (4 windows)"
    corners = [(row["at_s"], row["share"]) for row in data(figure.spec) if row["series"] == name]
    # 1, 2, 5 and 20 us stand in the bins from 10^-6.0, 10^-5.7, 10^-5.4 (5e6 ps = 10^6.699) and 10^-4.7 s.
    edges = (-6.0, -5.9, -5.7, -5.6, -5.4, -5.3, -4.7, -4.6)
    shares = (0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1)
    assert corners == [
        (pytest.approx(10**edge), share) for edge, share in zip(edges, shares, strict=True)
    ]
    assert figure.note.replace("\u00a0", " ") == (
        "Below the log axis (overlapping or touching): pp → tp 50.0 %."
    )
    # The run's own sweep is not a part of it.
    assert section.coverage.startswith("8 windows on traced devices.")


def test_a_line_has_the_colour_of_the_axis_that_follows(store):
    (figure,) = filled(store, window_spread.PANEL, "r").figures
    scale = layers(figure.spec)[0]["encoding"]["color"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {
        "pp → tp (4 windows)": AXIS_COLOURS["tp"],
        "tp → pp (4 windows)": AXIS_COLOURS["pp"],
    }
    dashes = layers(figure.spec)[0]["encoding"]["strokeDash"]["scale"]["range"]
    assert len({tuple(dash) for dash in dashes}) == 2


def test_a_delay_fits_into_windows_at_least_as_long(store):
    section = filled(store, reconfiguration.PANEL, "r")
    assert_valid(section)
    device, run = section.figures
    ratios = {}
    for row in data(device.spec):
        ratios.setdefault(row["series"], []).append((row["delay_ps"], row["fit_ratio"]))
    delays = [delay * US for delay in (1, 10, 100, 1_000, 10_000)]
    # 1 us fits into a window of 1 us; 10 us only into the longest of each.
    assert ratios == {
        "tp → pp": list(zip(delays, (1, 0.25, 0, 0, 0), strict=True)),
        "pp → tp": list(zip(delays, (0.5, 0.25, 0.25, 0, 0), strict=True)),
    }
    fits = {(row["series"], row["delay_ps"]): row["fitting_bytes"] for row in data(device.spec)}
    assert (fits["tp → pp", 10 * US], fits["pp → tp", US]) == (10, 20)
    assert [row["fit_ratio"] for row in data(run.spec)] == [1, 0, 0, 0, 0]
    assert device.note == run.note == ""


def test_nothing_that_fits_is_said_in_words():
    store = store_of(window("tp", "pp", 0), window("pp", "tp", -3))
    (figure,) = filled(store, reconfiguration.PANEL, "r").figures
    assert figure.note.replace("\u00a0", " ") == "No window is 1.00 µs or longer."
    # Nothing to draw on a log axis, but the table stands.
    section = filled(store, window_spread.PANEL, "r")
    assert (section.figures, len(section.cells)) == ([], 2)
    # Nor is there a length for the legend of the matrix.
    (matrix,) = filled(store, windows.PANEL, "r").figures
    assert "Median window (log scale)" not in texts(matrix.spec)


def test_many_axes_show_the_most_frequent_transitions():
    pairs = [(a, b) for a in AXES for b in AXES if a != b]
    rows = [window(*pair, 2) for k, pair in enumerate(pairs) for _ in range(k + 1)]
    section = filled(store_of(*rows), window_spread.PANEL, "r")
    names = {row["series"] for row in data(section.figures[0].spec)}
    # 20 transitions with 1 to 20 windows: the 12 with 9 and more.
    assert names == {f"{a} → {b} ({k + 1} windows)" for k, (a, b) in enumerate(pairs) if k >= 8}
    assert section.notes == [
        f"Drawn: the {MAX_TRANSITIONS} transitions with the most windows; the table has 8 more."
    ]


PANELS = (windows.PANEL, window_spread.PANEL, reconfiguration.PANEL)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.key)
def test_runs_without_windows_say_why(panel):
    nothing = Store({"runs": [{"run_id": "r"}]})
    assert "no device events" in filled(nothing, panel, "r").empty
    assert "no collectives" in filled(store_of(), panel, "r").empty
    some = [{"run_id": "r", "device_id": 0, "program_id": 1, "op": "x", "kind": "all-reduce"}]
    assert "xlahouse set mesh" in filled(store_of(collectives=some), panel, "r").empty
    mesh = [{"run_id": "r", "mesh": [{"axis": "tp", "size": 1}], "mesh_device_ids": [0]}]
    one_axis = store_of(collectives=some, runs=mesh)
    assert "All transfers are of one axis" in filled(one_axis, panel, "r").empty


def test_bytes_that_are_not_known_stay_unknown():
    store = store_of(window("tp", "pp", 2, bytes=None), window("tp", "pp", 2))
    assert rows_of(store, windows.PANEL, "r")["next_bytes"].to_list() == [None]
    assert rows_of(store, reconfiguration.PANEL, "r")["fitting_bytes"].to_list()[0] is None


def test_sets_of_peers_and_rails_stand_after_the_run():
    scopes = {"rail": 5, "group": 4, "run": 3, "device": 2}
    store = store_of(*(window("tp", "pp", us, scope=scope) for scope, us in scopes.items()))
    for panel in (windows.PANEL, reconfiguration.PANEL):
        section = filled(store, panel, "r")
        assert_valid(section)
        ends = [
            "on each device",
            "over all devices",
            "over each set of peers",
            "on each rail between hosts",
        ]
        assert [figure.title.rpartition(", ")[2] for figure in section.figures] == ends
        assert section.coverage.startswith(
            "1 window on each device and 1 window over all devices and 1 window over each set of peers"
        )
    assert rows_of(store, windows.PANEL, "r")["scope"].to_list() == [
        "device",
        "run",
        "group",
        "rail",
    ]
