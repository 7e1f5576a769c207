"""Links of the torus: a map a dimension, forward links first, and why links are not known."""

from __future__ import annotations

import pytest

from tests.reports.example import Store
from tests.reports.sections import filled, rows_of
from tests.reports.vega_lite import assert_valid, data, drawn, layers
from xlahouse.reports.charts.palette import UNKNOWN_COLOUR
from xlahouse.reports.panels.communication import links


def link(here, there, size, topology="4x2", phase="decode", share=None, **more):
    row = {"run_id": "r", "algorithm": "ring", "topology": topology, "phase": phase}
    places = {
        "source_place": "({},{},{})".format(*here),
        "target_place": "({},{},{})".format(*there),
    }
    numbers = {"source_chip": here[0] + 10 * here[1], "target_chip": there[0] + 10 * there[1]}
    measured = {"bytes": size, "utilization_ratio": share, "sources_seen": 1}
    return {**row, **places, **numbers, **measured, **more}


def store_of(*rows):
    devices = [{"run_id": "r", "device_id": 0, "traced": True, "core": "tensorcore"}]
    return Store({"runs": [{"run_id": "r"}], "devices": devices, "link_traffic_v1": list(rows)})


@pytest.fixture(scope="module")
def store():
    return store_of(
        link((0, 1, 0), (1, 1, 0), 300.0, share=0.2, phase="prefill"),
        link((0, 1, 0), (1, 1, 0), 100.0, share=0.5),
        link((3, 0, 0), (0, 0, 0), 40.0),  # around the end
        link((0, 0, 0), (3, 0, 0), 30.0),
        link((2, 0, 0), (1, 0, 0), 20.0),
        link((1, 0, 0), (1, 1, 0), 900.0, share=0.1),
        link((1, 1, 0), (1, 0, 0), 10.0),
        link((2, 0, 0), (2, 1, 0), 77.0, algorithm="direct"),
    )


def test_phases_add_up_and_the_busiest_one_is_named(store):
    rows = rows_of(store, links.PANEL, "r")
    picked = rows.select("dimension", "line", "source", "target", "is_forward", "bytes")
    assert picked.rows() == [
        ("x", 0, 3, 0, True, 40),
        ("x", 0, 0, 3, False, 30),
        ("x", 0, 2, 1, False, 20),
        ("x", 1, 0, 1, True, 400),
        ("y", 1, 0, 1, True, 900),
        ("y", 1, 1, 0, False, 10),
    ]
    assert rows.select("utilization_ratio", "busiest_phase").row(3) == (0.5, "decode")


def test_a_map_of_each_dimension_with_forward_links_first(store):
    section = filled(store, links.PANEL, "r")
    assert_valid(section)
    x, y = section.figures
    assert [figure.title for figure in (x, y)] == [
        "Links along x of the 4x2 torus",
        "Links along y of the 4x2 torus",
    ]
    axes = layers(x.spec)[0]["encoding"]
    assert axes["x"]["scale"]["domain"] == ["0→1", "3→0", "0→3", "2→1"]
    assert axes["y"]["scale"]["domain"] == ["y 0", "y 1"]
    assert layers(y.spec)[0]["encoding"]["y"]["scale"]["domain"] == ["x 0", "x 1", "x 2", "x 3"]
    cells = {(row["place"], row["step"]): row["bytes"] for row in data(x.spec)}
    assert cells["y 1", "0→1"] == 400
    # Both maps have the colours of the same scale.
    scales = [layers(figure.spec)[0]["encoding"]["color"]["scale"] for figure in (x, y)]
    assert [scale["domain"] for scale in scales] == [[0, 900], [0, 900]]


def test_the_busiest_link_is_told_in_words(store):
    section = filled(store, links.PANEL, "r")
    assert section.notes[0].replace("\u00a0", " ") == (
        "Busiest link: 900 B from chip (1,0,0) to (1,1,0); in its busiest phase (decode), 10.0 % of a "
        "link's peak in one direction."
    )
    assert section.coverage.replace("\u00a0", " ").startswith("6 links carry 1.40 kB,")


def test_lines_of_a_cube_have_two_coordinates():
    cube = "2x4x4"
    store = store_of(
        link((1, 2, 3), (0, 2, 3), 5.0, cube),
        link((1, 2, 3), (1, 3, 3), 6.0, cube),
        link((1, 2, 3), (1, 2, 0), 7.0, cube),
    )
    section = filled(store, links.PANEL, "r")
    assert_valid(section)
    cells = [
        (row["dimension"], row["place"], row["step"])
        for f in section.figures
        for row in data(f.spec)
    ]
    assert cells == [("x", "y 2, z 3", "1→0"), ("y", "x 1, z 3", "2→3"), ("z", "x 1, y 2", "3→0")]
    rows = rows_of(store, links.PANEL, "r")
    # Of an axis of two chips, 1 to 0 is the way back; of four, 3 to 0 leads on around the end.
    assert rows["is_forward"].to_list() == [False, True, True]
    assert section.figures[0].title == "Links along x of the 2x4x4 torus"


def test_a_row_of_chips_has_one_line():
    store = store_of(link((0, 0, 0), (1, 0, 0), 5.0, "2x1x1"))
    (figure,) = filled(store, links.PANEL, "r").figures
    assert data(figure.spec)[0]["place"] == "all"


def test_unknown_bytes_are_grey_and_make_the_sum_unknown():
    store = store_of(
        link((0, 0, 0), (1, 0, 0), None), link((1, 0, 0), (0, 0, 0), 5.0, phase="prefill")
    )
    section = filled(store, links.PANEL, "r")
    assert section.coverage.startswith("2 links carry an unknown number of bytes,")
    assert section.notes[2].startswith("Grey cell:")
    assert drawn(section.figures[0].spec).count(f'fill="{UNKNOWN_COLOUR}"') == 1


def test_links_that_are_not_known_say_why():
    problem = {"topology_problem": "virtual devices have no links", "topology": None}
    nowhere = {"source_place": None, "target_place": None, "bytes": None}
    rows = [
        {"run_id": "r", "algorithm": "ring", "phase": phase, **problem, **nowhere}
        for phase in ("prefill", "decode")
    ]
    section = filled(store_of(*rows), links.PANEL, "r")
    assert section.figures == []
    assert section.notes == ["Links are not known: virtual devices have no links."]
    assert section.coverage.startswith("No link is known.")


def test_nothing_on_any_link_says_why():
    assert "no link carries traffic" in filled(store_of(), links.PANEL, "r").empty
    nothing = Store({"runs": [{"run_id": "r"}]})
    assert "no device events" in filled(nothing, links.PANEL, "r").empty


def test_the_compilers_choice_has_maps_of_its_own():
    known = link((0, 0, 0), (1, 0, 0), 300.0)
    chosen = link((1, 0, 0), (2, 0, 0), 70.0, algorithm="compiled")
    lacking = {**link((0, 0, 0), (0, 0, 0), None, topology=None), "algorithm": "compiled"}
    reason = "the compiler does not state the way of a transfer"
    store = store_of(known, chosen, {**lacking, "topology_problem": reason})
    section = filled(store, links.PANEL, "r")
    assert [
        (figure.title, [row["bytes"] for row in data(figure.spec)]) for figure in section.figures
    ] == [
        ("Links along x of the 4x2 torus", [300]),
        ("Links along x of the 4x2 torus, as the compiler chose", [70]),
    ]
    assert section.coverage.replace("\u00a0", " ").startswith("1 link carry 300 B")
    said = [note.replace("\u00a0", " ") for note in section.notes]
    assert said[-2].startswith("As the compiler chose: Busiest link: 70 B from chip (1,0,0)")
    assert said[-1] == f"Transfers lack there, since {reason}."
