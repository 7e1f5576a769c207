"""Two runs side by side: what changes in a step, by rows worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.example import Store
from tests.reports.html import Page, plain
from tests.reports.over_runs import RUNS
from tests.reports.vega_lite import assert_valid, data
from xlahouse.capture.errors import ReportError
from xlahouse.reports.answers import read_versus
from xlahouse.reports.figure_files import render_figures
from xlahouse.reports.panels.runs.versus import bars
from xlahouse.reports.site import render_site
from xlahouse.sql.answers.differences import GroupChange, OpChange

NS = 1000.0  # picoseconds
EMPTY = dict.fromkeys(OpChange.__dataclass_fields__)


def op(kernel: str | None, base: float, other: float, rank: int | None = None, **more: Any) -> Any:
    row = {"run_id": "b1", "other_run_id": "a1", "phase": "decode", "part": "op"}
    row |= {"category": "compute", "kernel": kernel, "rank": rank, "margin_ps": 1.0}
    row |= {"step_ps": base * NS, "other_step_ps": other * NS, "total_ps": (other - base) * NS}
    return EMPTY | row | more


# A decode step of 100 ns and one of 130 ns: +30 and +5 of layers, +2 of a collective, -7 of time without ops.
DECODE = [
    op("fusion", 20, 50, 1, scope="m/layers.1/mlp"),
    op("fusion", 20, 25, scope="m/layers.0/mlp"),
    op("psum", 20, 22, opcode="all-reduce-start", category="collective"),
    op(None, 20, 15, part="idle", category=None),
    op(None, 20, 18, part="between", category=None),
]
# A prefill of 8 ns and one of 6: nothing names a layer, and nothing is a collective. The base has one
# request, and before its prefill there is no time; the other has two, and 70 ns before one of them.
PREFILL = [
    op("fusion", 8, 6, 1, phase="prefill"),
    op(None, 0, 35, 2, part="between", category=None, phase="prefill"),
]
OTHER_WAY = [op("fusion", 1, 9, run_id="a1", other_run_id="b1")]


@pytest.fixture(scope="module")
def store() -> Store:
    compared = {"run_id": "b1", "other_run_id": "a1", "metric": "tpot_s", "verdict": "worse"}
    compared |= {"value": 0.11, "other_value": 0.132, "value_ratio": 1.2}
    compared |= {"median": 0.1, "other_median": 0.13, "differing": "parallelism"}
    compared |= {
        "differing_count": 1,
        "is_repeat": False,
        "runs": 3,
        "other_runs": 3,
        "spread": 0.01,
    }
    return Store(
        {
            "runs": RUNS,
            "op_diff_v1": [*DECODE, *PREFILL, *OTHER_WAY],
            "run_comparison_v2": [compared],
        }
    )


@pytest.fixture(scope="module")
def sections(store: Store) -> list[Any]:
    known = {facts.run_id: facts for facts in store.facts()}
    return [section for section, _ in read_versus(store, [known["b1"], known["a1"]])]


def test_each_chart_adds_up_to_the_difference(sections: list[Any]) -> None:
    decode, _ = sections
    assert_valid(decode)
    assert [figure.title for figure in decode.figures] == [
        "Change of a decode step by kernel",
        "Change of a decode step by layer",
        "Change of a decode step by collective",
    ]
    kernel, layer, collective = (
        [
            (plain(row["shown"]), row["direction"], row["start"], row["end"])
            for row in data(figure.spec)
        ]
        for figure in decode.figures
    )
    less, more = "takes less", "takes longer"
    assert kernel == [
        ("1. fusion: +35.0 ns", more, 0, 35),
        ("2. idle in the step: -5.00 ns", less, 35, 30),
        ("3. between steps: -2.00 ns", less, 30, 28),
        ("4. psum: +2.00 ns", more, 28, 30),
        ("in all: +30.0 ns", "in all", 0, 30),
    ]
    assert layer == [
        ("1. layer 1: +30.0 ns", more, 0, 30),
        ("2. idle in the step: -5.00 ns", less, 30, 25),
        ("3. layer 0: +5.00 ns", more, 25, 30),
        ("4. between steps: -2.00 ns", less, 30, 28),
        ("5. no layer: +2.00 ns", more, 28, 30),
        ("in all: +30.0 ns", "in all", 0, 30),
    ]
    assert collective == [
        ("1. no collective: +35.0 ns", more, 0, 35),
        ("2. idle in the step: -5.00 ns", less, 35, 30),
        ("3. all-reduce: +2.00 ns", more, 30, 32),
        ("4. between steps: -2.00 ns", less, 32, 30),
        ("in all: +30.0 ns", "in all", 0, 30),
    ]


def test_the_answer_stands_first(sections: list[Any]) -> None:
    decode, prefill = sections
    assert [plain(text) for text in decode.verdict] == [
        "A decode step takes 30 ns more (+30 %); the largest change is fusion in m/layers.1/mlp: +30 ns.",
        "By kernel: +37.0 ns from 2 that take longer, -7.00 ns from 2 that take less.",
    ]
    assert decode.coverage == "3 ops; 1 of 5 rows by more than the spread over steps."
    assert prefill.verdict == [
        "A prefill step takes 2 ns less (-25 %); the largest change is fusion: -2 ns."
    ]


def test_no_spread_is_claimed_of_a_single_step(store: Store) -> None:
    rows = [op("fusion", 8, 6, phase="prefill", margin_ps=None)]
    known = {facts.run_id: facts for facts in store.facts()}
    single = Store({"runs": RUNS, "op_diff_v1": rows})
    section, *_ = (part for part, _ in read_versus(single, [known["b1"], known["a1"]]))
    assert section.coverage == "1 op; the spread over steps is not known."


def test_no_chart_by_what_no_change_belongs_to(sections: list[Any]) -> None:
    _, prefill = sections
    assert [figure.title for figure in prefill.figures] == ["Change of a prefill step by kernel"]
    assert prefill.notes == [
        "Not drawn by layer: no change belongs to one.",
        "Not drawn by collective: no change belongs to one.",
    ]


def test_the_table_has_each_op_and_the_time_without(sections: list[Any]) -> None:
    cells = [[plain(cell.text) for cell in row] for row in sections[0].cells]
    headings = ["Kernel", "Where", "In name b1", "In name a1", "Change", "Sure"]
    assert [cell.text for cell in sections[0].headings] == headings
    assert sections[0].unknown_columns[0] == "Shape"
    assert cells == [
        ["fusion", "m/layers.1/mlp", "20.0 ns", "50.0 ns", "30.0 ns", "yes"],
        ["idle in the step", "-", "20.0 ns", "15.0 ns", "-5.00 ns", "no"],
        ["fusion", "m/layers.0/mlp", "20.0 ns", "25.0 ns", "5.00 ns", "no"],
        ["between steps", "-", "20.0 ns", "18.0 ns", "-2.00 ns", "no"],
        ["psum", "-", "20.0 ns", "22.0 ns", "2.00 ns", "no"],
    ]


def test_the_rest_is_one_bar() -> None:
    """Twelve changes, of 12 to 1 ps, and one of nothing: ten bars, the last two together, and the sum."""
    changes = [GroupChange(f"k{size}", 10, 10 + size, size) for size in range(12, 0, -1)]
    found = bars([*changes, GroupChange("same", 7, 7, 0)])
    assert found["name"].to_list() == [
        *(f"k{size}" for size in range(12, 2, -1)),
        "2 more",
        "in all",
    ]
    assert found["change_ps"].to_list() == [*range(12, 2, -1), 2 + 1, 78]
    assert found.row(-1, named=True)["step_ps"] == 12 * 10 + 7
    assert found.row(-1, named=True)["other_step_ps"] == 12 * 10 + 7 + 78


def test_times_that_are_not_known_are_not_drawn() -> None:
    rows = [*DECODE, op("copy", 1, 1) | {"step_ps": None, "total_ps": None}]
    store = Store({"runs": RUNS, "op_diff_v1": rows})
    known = {facts.run_id: facts for facts in store.facts()}
    [(section, found)] = read_versus(store, [known["b1"], known["a1"]])
    assert (section.figures, len(found)) == ([], 6)
    assert "not known in full" in section.verdict[0]


def test_the_order_of_the_runs_is_the_order_of_the_command(store: Store, tmp_path: Any) -> None:
    (path,) = render_site(store, tmp_path / "site", ["name b1", "a1"], ["versus"]).pages
    page = Page(path.read_text("utf-8"))
    assert "From name b1 to name a1" in page.text
    assert "+30.0 ns" in plain(path.read_text("utf-8"))
    assert "The setups differ in parallelism." in page.text
    drawn = render_figures(store, tmp_path / "f", "svg", ["b1", "a1"], ["versus"])
    assert "versus.versus-decode-change-of-a-decode-step-by-layer.svg" in {p.name for p in drawn}
    render_site(store, tmp_path / "site", ["a1", "b1"], ["versus"])
    assert "From name a1 to name b1" in Page(path.read_text("utf-8")).text
    assert "A decode step takes 8 ns more (+800 %)" in plain(path.read_text("utf-8"))


@pytest.mark.parametrize("runs", [None, ["a1"], ["a1", "a1"], ["a1", "b1", "c1"]])
def test_a_page_of_two_runs_needs_two(store: Store, tmp_path: Any, runs: Any) -> None:
    for write in (render_site, lambda *given: render_figures(*given[:2], "svg", *given[2:])):
        with pytest.raises(
            ReportError, match="versus is about two runs: give --run BASE --run OTHER"
        ):
            write(store, tmp_path / "x", runs, ["versus"])
