"""What a pipeline costs, from rows of bubble by hand."""

from __future__ import annotations

import pytest

from tests.reports.example import Store
from xlahouse.sql.answers.pipeline import Pipeline, pipeline_cost, pipeline_text

STEP = {"run_id": "r", "phase": "decode", "cause": "pipeline", "window_ps": 90, "ideal_ratio": 0.25}
MESH = [{"run_id": "r", "axis": "pp", "size": 4}]


def test_shares_of_windows_with_filling_and_draining():
    """Windows of 90 and 90 ps, 20 ps of filling: 200. Waits of 10 and 14; empty microbatches 30 and 6."""
    rows = [
        STEP | {"idle_ps": 10, "masked_ps": 30, "fill_drain_ps": 20},
        STEP | {"idle_ps": 14, "masked_ps": 6, "fill_drain_ps": 0},
        STEP | {"idle_ps": 99, "masked_ps": 9, "fill_drain_ps": 9, "phase": "prefill"},
        STEP | {"idle_ps": 99, "masked_ps": 9, "fill_drain_ps": 9, "cause": "host"},
    ]
    found = pipeline_cost(Store({"bubble_v2": rows, "run_mesh_v1": MESH}), "r", "decode")
    assert found == Pipeline(24 / 200, 36 / 200, 20 / 200, 0.25)


def test_a_part_that_one_step_lacks_is_not_known():
    known = STEP | {"idle_ps": 9, "masked_ps": 0, "fill_drain_ps": 0}
    rows = [known, known | {"masked_ps": None}]
    found = pipeline_cost(Store({"bubble_v2": rows, "run_mesh_v1": MESH}), "r", "decode")
    assert found == Pipeline(18 / 180, None, 0, 0.25)


def test_a_run_without_stages_has_none():
    rows = [STEP | {"idle_ps": 0, "masked_ps": 0, "fill_drain_ps": 0}]
    for mesh in ({"axis": "tp", "size": 4}, {"axis": "pp", "size": 1}):
        store = Store({"bubble_v2": rows, "run_mesh_v1": [{"run_id": "r"} | mesh]})
        assert pipeline_cost(store, "r", "decode") is None


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            Pipeline(0.12, 0.18, 0.1, 0.25),
            "40 % of the steps' windows (waits for other stages 12 %, work on empty microbatches 18 %, "
            "filling and draining 10 %); (p-1)/(m+p-1) is 25 %",
        ),
        (
            Pipeline(0.1, None, 0.0, 0.25),
            "at least 10 % of the steps' windows (waits for other stages 10 %, filling and draining 0 %); "
            "not known: work on empty microbatches; (p-1)/(m+p-1) is 25 %",
        ),
        (
            Pipeline(None, None, None, None),
            "not known: waits for other stages, work on empty microbatches, filling and draining",
        ),
    ],
)
def test_in_words(found, text):
    assert pipeline_text(found) == text
