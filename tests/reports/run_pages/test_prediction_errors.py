"""A prediction's page has the error of its kind of prediction, on all that the warehouse measured."""

from __future__ import annotations

import polars as pl
import pytest

from tests.reports.html import Page, plain
from tests.reports.run_pages.test_predicted import facts
from tests.warehouse import write_warehouse
from xlahouse.reports.charts.facts import COMPARED_BANNER, PREDICTED_BANNER
from xlahouse.reports.charts.panel import fill
from xlahouse.reports.panels.overview import errors
from xlahouse.reports.site import render_site
from xlahouse.sql import Warehouse

SAME = {"model": "m", "parallelism": "tp1", "batch_size": 1, "prompt_tokens": 2, "output_tokens": 2}
WAITING = "Nothing predicted with chip=v5p was measured here yet: its error is not known."


def tables(*measured):
    """A v6e run of 30 us a decode step, replayed as v5p: 22 us; and v5p runs with steps of some lengths."""
    times = {"base": 30, "fast": 22} | {f"m{length}": length for length in measured}
    runs = [{"run_id": name, "source": "xplane", **SAME} for name in times]
    change = {"source": "predicted", "parent_run_id": "base", "change": "chip=v5p"}
    runs[1] |= change
    devices = [
        {"run_id": name, "device_id": 0, "world": 0, "core": "tensorcore", "traced": True}
        | {"kind": "TPU v6e" if name in ("base", "fast") else "TPU v5p"}
        for name in times
    ]
    steps = [
        {"run_id": name, "device_id": 0, "request": 0, "step": 1, "phase": "decode", "start_ps": 0}
        | {"duration_ps": length * 1_000_000}
        for name, length in times.items()
    ]
    settings = [{"run_id": "fast", "device_kind": "v5p"}]
    split = [{"run_id": "fast", "phase": "decode", "part": "compute", "steps": 1}]
    split[0] |= {"measured_ps": 30_000_000, "predicted_ps": 22_000_000}
    return {
        "runs": runs,
        "devices": devices,
        "device_steps": steps,
        "run_settings": settings,
        "predicted_split": split,
    }


def overview(tmp_path, *measured):
    """(the page of the prediction, whether it was drawn)."""
    root = write_warehouse(tmp_path / "wh", tables(*measured))
    with Warehouse(root) as warehouse:
        made = render_site(warehouse, tmp_path / "site", runs=["fast"], pages=["overview"])
    (path,) = made.pages
    return path.read_text("utf-8"), not made.unchanged


@pytest.mark.verify
def test_the_page_waits_for_a_measured_run_and_then_has_its_error(tmp_path):
    text, _ = overview(tmp_path)
    assert WAITING in text
    assert text.lower().count("not validated on hardware") == text.count(PREDICTED_BANNER) == 1
    assert not overview(tmp_path)[1]
    text, drawn = overview(tmp_path, 20)
    assert drawn  # although the run itself is as it was
    said = (
        "Decode: 1 of 1 replay with chip=v5p measured here; median error +10.0 %, largest 10.0 %."
    )
    assert said in plain(Page(text).text)
    assert WAITING not in text
    assert "not validated on hardware" not in text.lower()
    assert COMPARED_BANNER in text


ROW = {"run_id": "a", "name": "a", "phase": "decode", "least_predicted_ps": 40}
ROW |= {"most_predicted_ps": 60, "measured_ps": 80, "runs": 2, "error_ratio": -0.25}
ROW |= {"predictions": 3, "pairs": 1, "median_error_ratio": -0.25, "largest_error_ratio": 0.25}


@pytest.mark.parametrize(
    ("source", "pairs", "said"),
    [
        ("compiled", 1, "Decode: 1 of 3 forecasts measured here; median error -25.0 %, largest 25.0 %."),
        ("compiled", 0, "No forecast was measured here yet: its error is not known."),
        ("predicted", 0, "Nothing predicted with ici=2x was measured here yet: its error is not known."),
    ],
)  # fmt: skip
def test_each_kind_has_its_sentence(source, pairs, said):
    rows = pl.DataFrame([ROW | {"pairs": pairs}])
    section = fill(errors.PANEL, rows, facts("a", source))
    assert section.verdict == [said]
    assert [cell.text.replace("\u00a0", " ") for cell in section.cells[0]][-3:] == [
        "80 ps", "2", "-25.0 %",
    ]  # fmt: skip


def test_runs_have_no_such_panel():
    assert not errors.PANEL.applies(facts("a", "xplane"))
