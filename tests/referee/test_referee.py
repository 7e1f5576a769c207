"""Random runs of several hosts against their truth, from trace files to the newest views."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.layers import seeds
from tests.referee.asking import differences
from tests.referee.compare import lines, unknown
from tests.referee.draw import draw
from tests.referee.spans import pieces
from xlahouse.sql import Warehouse

FEW, MANY = 1, 24


@pytest.mark.parametrize("seed", seeds(FEW, MANY))
def test_a_run_is_what_happened(seed: int, tmp_path: Path):
    truth = draw(seed)
    found = unknown(differences(truth, tmp_path))
    assert not found, "\n".join(lines(seed, truth, found))


@pytest.mark.verify
@pytest.mark.parametrize("seed", [53012, 53058])
def test_rates_across_hosts_have_the_drift_that_few_launches_cannot_show(seed: int, tmp_path: Path):
    """Clocks 50 ppm apart that share two launches, or one: a transfer of 36 us is off by up to 139 ns."""
    assert differences(draw(seed), tmp_path) == []
    with Warehouse(str(tmp_path / "w")) as house:
        (found,) = house.query("select pairs, drift_ppm from clocks where state = 'aligned'").rows
    assert found == ({53012: 2, 53058: 1}[seed], 0.0)


def test_hosts_that_no_collective_connects_count_apart(tmp_path: Path):
    truth = draw(7)  # four replicas on two hosts, markers on both, clocks 0.2 ms and 50 ppm apart
    assert (truth.mesh, truth.hosts, len(truth.marked)) == ((("dp", 4),), 2, 2)
    assert differences(truth, tmp_path) == []
    with Warehouse(str(tmp_path / "w")) as house:
        rows = house.query("select ttft_s, tpot_s, e2e_s, reason from latency").rows
        codes = house.query("select code from issues where code like 'clocks%'").rows
    assert codes == [("clocks_unconnected",)]
    assert len(rows) == truth.requests
    assert all(None not in row[:3] and row[3] is None for row in rows)


def test_seeds_draw_what_the_measure_asks_for():
    drawn = [draw(seed) for seed in range(120)]
    offsets = {run.notes.split("offset=")[1].split()[0] for run in drawn if run.hosts > 1}
    assert offsets == {"none", "30us", "third", "period", "period+1us"}
    assert {clock.drift for run in drawn for clock in run.clocks} == {0, 50, -50}
    assert {len(run.marked) for run in drawn if run.hosts > 1} == {0, 1, 2}
    assert any(run.stacked for run in drawn)
    assert any(run.staged for run in drawn)
    assert any(run.overlapping for run in drawn)
    assert any(run.lost for run in drawn)


def test_time_is_cut_at_every_end():
    assert pieces(0, 10, [(2, 5)], [(4, 12)]) == [(0, 2), (2, 4), (4, 5), (5, 10)]
