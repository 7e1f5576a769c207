"""Small runs whose clocks disagree, with their right values (tests/cases/README.md)."""

from __future__ import annotations

from pathlib import Path

import pytest

from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.warehouse import Warehouse

CASES = Path(__file__).parents[2] / "cases" / "clocks"
PS = 10**6  # a microsecond


def ingested(case, tmp_path, **options):
    ingest_paths([str(CASES / case)], str(tmp_path), name=case, **options)
    return Warehouse(str(tmp_path))


def states(warehouse):
    return dict(warehouse.query("select clock, state from clocks").rows)


def codes(warehouse):
    return {code for (code,) in warehouse.query("select code from issues").rows}


def sizes(warehouse):
    """How many instances have how many participants."""
    sql = """
        select participants, count(*) from (
            select instance, count(*) as participants from collectives group by instance
        ) group by participants
    """
    return dict(warehouse.query(sql).rows)


@pytest.mark.parametrize(
    ("case", "pairs", "offset_us"), [("two_hosts_100us", 96, 100), ("two_hosts_30us_known", 20, 30)]
)
def test_offsets_far_below_a_period_are_taken_off(case, pairs, offset_us, tmp_path):
    with ingested(case, tmp_path) as warehouse:
        assert sizes(warehouse) == {2: pairs}
        sql = "select clock_offset_ps from clocks where state = 'aligned'"
        ((offset,),) = warehouse.query(sql).rows
        # The first case's hosts end up to 0.4 us apart besides.
        assert abs(offset - offset_us * PS) <= 0.4 * PS
        assert "participants_missing" not in codes(warehouse)


def test_idle_is_not_called_imbalance_for_a_known_offset(tmp_path):
    with ingested("two_hosts_30us_known", tmp_path) as warehouse:
        sql = "select coalesce(sum(idle_ps), 0) from bubble where cause = 'imbalance'"
        assert warehouse.query(sql).rows == [(0,)]
        sql = "select count(*) from collective_bandwidth where skew_ps is null"
        assert warehouse.query(sql).rows == [(0,)]


def test_markers_on_both_hosts_name_the_launches(tmp_path):
    with ingested("two_hosts_markers_2ms", tmp_path) as warehouse:
        assert sizes(warehouse) == {2: 18}
        ((evidence, offset),) = warehouse.query(
            "select evidence, clock_offset_ps from clocks where state = 'aligned'"
        ).rows
        assert (evidence, offset) == ("step marker", 2000 * PS)
        ((ttft,),) = warehouse.query("select ttft_s from run_summary").rows
        assert ttft == pytest.approx(394e-6)


@pytest.mark.parametrize("case", ["two_hosts_5000us", "two_hosts_one_period"])
def test_several_periods_fit_so_nothing_is_compared(case, tmp_path):
    with ingested(case, tmp_path) as warehouse:
        assert states(warehouse) == {"host0": "reference", "host1": "ambiguous"}
        assert {"clocks_ambiguous", "participants_missing"} <= codes(warehouse)
        assert set(sizes(warehouse)) == {2}  # each of four members: two on either host
        skews = warehouse.query("select count(skew_ps) from collective_bandwidth").rows
        assert skews == [(0,)]
        assert warehouse.query("select launch_period_s from run_summary").rows == [(None,)]


def test_a_stated_offset_joins_the_hosts(tmp_path):
    case = "two_hosts_5000us"
    with ingested(case, tmp_path, clocks={"host1": 5_000_300_000}) as warehouse:
        assert sizes(warehouse) == {4: 6}
        assert states(warehouse) == {"host0": "reference", "host1": "aligned"}
        ((period,),) = warehouse.query("select launch_period_s from run_summary").rows
        assert period == pytest.approx(1000e-6)


def test_a_device_that_lags_is_of_the_same_launch(tmp_path):
    with ingested("one_host_lagging_device", tmp_path) as warehouse:
        ((period,),) = warehouse.query("select launch_period_s from run_summary").rows
        assert period == pytest.approx(300e-6)
        sql = "select count(*), count(distinct launch_instance) from launches"
        assert warehouse.query(sql).rows == [(100, 50)]
        # One device is busy for 99 us of each launch, the other for 79: 99 / 89 - 1.
        sql = "select distinct round(imbalance_ratio, 9) from load_balance"
        assert warehouse.query(sql).rows == [(round(99 / 89 - 1, 9),)]


def test_ranks_are_paired_by_process_group_and_sequence_number(tmp_path):
    with ingested("kineto_ranks_seq", tmp_path) as warehouse:
        assert sizes(warehouse) == {2: 4}
        sql = "select min(sequence), max(sequence) from collectives group by instance order by 1"
        assert warehouse.query(sql).rows == [(n, n) for n in (17, 18, 19, 20)]
