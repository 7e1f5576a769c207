"""The error of a prediction, from traces to views: beside a run that was written with the changed link."""

from __future__ import annotations

import pytest

from tests.sql.predict.conftest import RUNS, TWICE, ingest
from tests.synth.write import write_run
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.predict.changes import Change, Rate
from xlahouse.sql.predict.loading import load_parent
from xlahouse.sql.predict.writing import predict_run
from xlahouse.sql.settings import set_peaks
from xlahouse.sql.warehouse import Warehouse


@pytest.mark.verify
def test_links_twice_as_fast_were_predicted_without_error(tmp_path):
    root = ingest(tmp_path, RUNS[:2])
    with Warehouse(root) as warehouse:
        predict_run(load_parent(warehouse, "tp4"), Change(ici=Rate(times=2.0)), "fast")
    write_run(TWICE, tmp_path / "faster")
    ingest_paths([str(tmp_path / "faster")], root, name="faster")
    with Warehouse(root) as warehouse:
        # On a v6e, whose links have 9e10: it measures nothing that was predicted.
        assert [row["pairs"] for row in warehouse.query("from prediction_error_v1").dicts()] == [
            0,
            0,
        ]
        set_peaks(warehouse, "faster", "ici_bytes_per_s=1.8e11")
    with Warehouse(root) as warehouse:
        steps = warehouse.query("from predicted_step_v1 order by phase").dicts()
        kinds = warehouse.query("from prediction_error_v1 order by phase").dicts()
    assert [(row["name"], row["phase"], row["runs"]) for row in steps] == [
        ("fast", "decode", 1),
        ("fast", "prefill", 1),
    ]
    # A transfer is rounded to a picosecond; at most 5 a step.
    assert all(abs(row["least_predicted_ps"] - row["measured_ps"]) <= 20 for row in steps)
    assert [(row["method"], row["change"], row["pairs"]) for row in kinds] == [
        ("replay", "ici=2x", 1)
    ] * 2
    assert [row["largest_error_ratio"] for row in kinds] == pytest.approx([0, 0], abs=1e-6)
