"""A replay without a change is the measured run, to the picosecond, in every table with times.

And one with a change for the better has no op that ends later.
"""

from __future__ import annotations

import pytest

from tests.layers import first_few
from tests.samples import SAMPLES
from tests.sql.predict.identity import differences, later
from tests.synth.end_to_end.ingested import RUNS, ingest
from xlahouse.ingest.run import IngestError, ingest_paths
from xlahouse.sql.warehouse import Warehouse


def all_differences(root):
    with Warehouse(root) as warehouse:
        ids = {row["run_id"]: row["name"] for row in warehouse.runs()}
    slower = {name: later(root, run_id) for run_id, name in ids.items()}
    assert {name: each for name, each in slower.items() if each} == {}
    return {name: differences(root, run_id) for run_id, name in ids.items()}


@pytest.mark.parametrize("chosen", first_few([slice(0, 1), slice(1, None)], 1), ids=["one", "rest"])
def test_synthetic_runs(predicting, chosen):
    with Warehouse(predicting) as warehouse:
        every = [row["run_id"] for row in warehouse.runs() if row["source"] == "xplane"]
    measured = every[chosen]
    assert measured
    assert [differences(predicting, run) for run in measured] == [[]] * len(measured)
    assert [later(predicting, run) for run in measured] == [[]] * len(measured)


@pytest.mark.verify
def test_every_synthetic_run(tmp_path):
    everything = ingest(RUNS.values(), tmp_path)
    root = everything["tp4"].warehouse.root
    found = all_differences(root)
    # Their hosts' clocks are not comparable, and their collectives cross hosts.
    refused = {name for name, each in found.items() if each is None}
    assert refused == {"dp_pp_tp_stages", "drawn 104"}
    assert {name: each for name, each in found.items() if each} == {}


@pytest.mark.verify
def test_every_public_sample(tmp_path):
    if not SAMPLES.exists():
        pytest.skip(f"no samples in {SAMPLES}; set XLAHOUSE_TRACES")
    folders = [str(SAMPLES / name) for name in ("tpu", "cpu", "gpu", "kineto")]
    root = str(tmp_path / "w")
    with pytest.raises(IngestError, match="a text codec destroyed it"):  # the other files are kept
        ingest_paths(folders, root, workers=1)
    found = all_differences(root)
    assert {name: each for name, each in found.items() if each} == {}
    assert {name for name, each in found.items() if each is None} == {
        "cpu_only_base_time",  # no device
        "large_integer",  # one collective, no step
        "sampled_rank1",  # the trace names no group
    }
