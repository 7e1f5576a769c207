"""Speed-up and efficiency over the sizes of an axis, by rows worked out by hand."""

from __future__ import annotations

from typing import Any

from tests.reports.example import Store
from tests.reports.over_runs import RUNS, rows_of
from tests.reports.vega_lite import assert_valid, data
from xlahouse.reports.charts.panel import fill
from xlahouse.reports.panels.runs import scaling


def grown(
    axis: str, size: int, rate: float | None, other: str = "", settings: str | None = "s"
) -> dict[str, Any]:
    ratio = None if rate is None else rate / 100
    return {
        "model": "qwen",
        "setup_besides_mesh": settings,
        "axis": axis,
        "other_axes": other,
        "size": size,
        "devices": size,
        "run_id": "a1",
        "batch_size": 4,
        "prompt_tokens": 16,
        "output_tokens": 8,
        "dtype": "bf16",
        "device_kind": "TPU v6 Lite",
        "runs": 2,
        "output_tokens_per_s": rate,
        "base_size": None if rate is None else 1,
        "speedup_ratio": ratio,
        "efficiency_ratio": None if ratio is None else ratio / size,
    }


def test_scaling_is_drawn_beside_the_ideal(facts_over_runs: Any) -> None:
    rows = [
        grown("tp", 1, 100.0),
        grown("tp", 4, 300.0),
        grown("dp", 1, 100.0),
        grown("dp", 2, None),
    ]
    store = Store(
        {"runs": RUNS, "scaling_v3": [*rows, grown("tp", 2, 120.0, "pp2") | {"run_id": "z"}]}
    )
    found = rows_of(store, scaling.PANEL)
    # run z is not on the page
    assert found.select("axis", "size", "times_devices").rows() == [
        ("dp", 1, 1.0),
        ("dp", 2, None),
        ("tp", 1, 1.0),
        ("tp", 4, 4.0),
    ]
    section = fill(scaling.PANEL, found, facts_over_runs)
    assert_valid(section)
    speedup, efficiency = (figure.spec for figure in section.figures)
    assert [(r["times_devices"], r["speedup_ratio"]) for r in data(speedup)] == [(1, 1), (4, 4)]
    assert [(r["series"], r["speedup_ratio"]) for r in data(speedup, 1)] == [("tp", 1), ("tp", 3)]
    assert [r["efficiency_ratio"] for r in data(efficiency)] == [1, 1]
    assert [r["efficiency_ratio"] for r in data(efficiency, 1)] == [1, 0.75]
    assert section.coverage == "1 of 2 series with a rate at two sizes; 4 runs."
    assert "A chip's rate is not known" in section.notes[0]


def test_lines_that_end_together_share_a_name(facts_over_runs: Any) -> None:
    """Efficiency from 0 to 1 at twice the devices: 0.50 and 0.49 are nearer than a twentieth, 0.44 is not."""
    rates = {"tp": 100.0, "dp": 98.0, "pp": 88.0}
    rows = [
        row for axis, rate in rates.items() for row in (grown(axis, 1, 100.0), grown(axis, 2, rate))
    ]
    found = rows_of(Store({"runs": RUNS, "scaling_v3": rows}), scaling.PANEL)
    section = fill(scaling.PANEL, found, facts_over_runs)
    assert_valid(section)
    names = data(section.figures[1].spec, 2)
    assert [(row["series"], row["efficiency_ratio"]) for row in names] == [
        ("tp and 1 more", 0.5),
        ("pp", 0.44),
    ]


def test_settings_that_differ_besides_the_mesh_have_charts_of_their_own(
    facts_over_runs: Any,
) -> None:
    """Runs a1 and a2 with settings s, b1 with t: two pairs of charts. A run of an older version has none."""
    rows = [
        grown("tp", 1, 100.0),
        grown("tp", 2, 150.0) | {"run_id": "a2"},
        grown("tp", 1, 100.0, settings="t") | {"run_id": "b1"},
        grown("tp", 2, 180.0, settings="t") | {"run_id": "b1"},
        grown("tp", 2, None, settings=None) | {"run_id": "c1"},
    ]
    found = rows_of(Store({"runs": RUNS, "scaling_v3": rows}), scaling.PANEL)
    subjects = found["subject"].unique(maintain_order=True).to_list()
    assert [subject.partition(" (")[2] for subject in subjects] == [
        "settings of name a1)",
        "settings of name b1)",
        "settings of name c1)",
    ]
    section = fill(scaling.PANEL, found, facts_over_runs)
    assert_valid(section)
    assert len(section.figures) == 4
    (note,) = [note for note in section.notes if note.startswith("Not compared")]
    assert "1 size of runs that an older xlahouse ingested" in note.replace("\u00a0", " ")
