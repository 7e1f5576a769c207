"""Warehouses of synthetic runs whose transfers cost 1.511719 us and 98 ps a payload byte, or half of that."""

from __future__ import annotations

import pytest

from tests.synth.describe import Cost, Run
from tests.synth.write import write_run
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.predict.costs import Facts
from xlahouse.sql.predict.loading import load_parent
from xlahouse.sql.warehouse import Warehouse

LINK = Cost(1_511_719, 98)
LAG = (0, 50_021, 7_001, 390_011)
RUNS = (
    Run(name="tp4", link=LINK, lag_ps=LAG),
    Run(name="longer", link=LINK, lag_ps=LAG, prompt_tokens=32),
    Run(name="pp_ticks", mesh=(("pp", 4),), layers=4, scheduled_ticks=True),
    Run(name="one_token", markers=False, output_tokens=1, layers=1),
)
TWICE = Run(name="tp4", link=Cost(LINK.fixed_ps, LINK.each_ps // 2), lag_ps=LAG)


def ingest(folder, runs):
    """The warehouse of some runs, in a folder."""
    for number, run in enumerate(runs):
        write_run(run, folder / "traces" / f"{number}_{run.name}")
    results = ingest_paths([str(folder / "traces")], str(folder / "w"), workers=1)
    assert len(results) == len(runs)
    return str(folder / "w")


@pytest.fixture(scope="session")
def predicting(tmp_path_factory):
    """A warehouse in which `longer` and `tp4` tell how fast a link is."""
    return ingest(tmp_path_factory.mktemp("predicting"), RUNS)


@pytest.fixture(scope="session")
def facts(predicting):
    """What the warehouse knows about the costs of `tp4`."""
    with Warehouse(predicting) as warehouse:
        yield Facts(load_parent(warehouse, "tp4"))


@pytest.fixture(scope="session")
def twice(tmp_path_factory):
    """A warehouse of `tp4` as it is with twice the bandwidth."""
    return ingest(tmp_path_factory.mktemp("twice"), [TWICE])
