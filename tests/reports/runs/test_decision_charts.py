"""Colours of the charts of a decision where parallelisms are more than colours."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.example import Store
from tests.reports.over_runs import rows_of, run
from tests.reports.vega_lite import assert_valid, layers
from xlahouse.reports.charts.palette import PARALLELISM_COLOURS, UNKNOWN_COLOUR
from xlahouse.reports.charts.panel import fill
from xlahouse.reports.panels.runs import comparison

MESHES = [f"tp{k:02}" for k in range(1, len(PARALLELISM_COLOURS) + 2)]


@pytest.mark.parametrize("extra", [0, 1])
def test_grey_marks_are_no_entry_of_the_legend_and_the_note_tells_them(extra: int) -> None:
    """Ten meshes have a colour each. Of eleven one is grey: the last by name is the fastest, so on the dashed
    line, and of the others that have one run tp10 is last."""
    meshes = MESHES[: len(PARALLELISM_COLOURS) + extra]
    runs = [run(mesh, mesh) for mesh in meshes]
    rates = [
        {
            "run_id": mesh,
            "ttft_s": 20.0 - place,
            "output_tokens_per_s": 100.0,
            "output_tokens_per_s_per_chip": 25.0,
        }
        for place, mesh in enumerate(meshes)
    ]
    store = Store({"runs": runs, "run_summary_v2": rates})
    section = fill(comparison.PANEL, rows_of(store, comparison.PANEL, meshes), store.facts())
    assert_valid(section)
    [figure] = section.figures
    marks: Any = next(layer for layer in layers(figure.spec) if "color" in layer["encoding"])
    hue = marks["encoding"]["color"]
    grey = ["tp10"] * extra
    coloured = [mesh for mesh in meshes if mesh not in grey]
    assert (hue["scale"]["domain"], hue["legend"]["values"]) == (coloured + grey, coloured)
    assert hue["scale"]["range"].count(UNKNOWN_COLOUR) == extra
    assert figure.note.count("Grey: parallelisms beyond the colours") == extra
