"""Predicted runs against runs that were written with the changed cost, and what a prediction rests on."""

from __future__ import annotations

import json

import polars as pl
import pytest

from tests.command import run_command
from tests.sql.predict.conftest import LINK
from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.replay.step_times import step_times
from xlahouse.sql.check.check import check_warehouse
from xlahouse.sql.predict.advice import advise
from xlahouse.sql.predict.changes import (
    Change,
    LinkLatency,
    Rate,
    describe,
    parse_latency,
    parse_rate,
)
from xlahouse.sql.predict.comparing import growth_lines, predicted_times
from xlahouse.sql.predict.costs import costs_of
from xlahouse.sql.predict.fits import Fits, fit_line
from xlahouse.sql.predict.keeping import keep_rows
from xlahouse.sql.predict.loading import load_parent
from xlahouse.sql.predict.savings import savings_of
from xlahouse.sql.predict.writing import predict_run
from xlahouse.sql.warehouse import Warehouse

STEPS = """
    select device_id, request, step, start_ps, s.duration_ps, compute_ps, collective_ps, sync_wait_ps
    from device_steps s join runs using (run_id) where runs.name = $name order by all
"""


def predicted(root, run, change, name=None):
    with Warehouse(root) as warehouse:
        return predict_run(load_parent(warehouse, run), change, name)


def rows(root, sql, **params):
    with Warehouse(root) as warehouse:
        return warehouse.query(sql, params).pl()


@pytest.mark.verify
def test_twice_the_bandwidth_is_the_run_with_links_twice_as_fast(predicting, twice):
    predicted(predicting, "tp4", Change(ici=Rate(times=2.0)), "fast")
    found, expected = rows(predicting, STEPS, name="fast"), rows(twice, STEPS, name="tp4")
    assert found.height == expected.height == 16
    for column in found.columns:
        # Each of a step's transfers, at most 5, is rounded to a picosecond, and steps add up.
        most = (found[column] - expected[column]).abs().max()
        assert most <= (0 if column in ("device_id", "request", "step", "compute_ps") else 20), (
            column
        )
    before = rows(predicting, STEPS, name="tp4")
    assert (before["duration_ps"] - found["duration_ps"]).min() > 50_000


def test_latency_and_bandwidth_are_those_of_the_links(facts):
    fits = facts.fits
    source, line = fits.of(("tp", "all-reduce", None, 4))
    # A ring of 4 takes 6 steps, each of a quarter of the payload; 3/2 of it is sent.
    assert source == "fitted"
    assert line.latency_ps * 6 == pytest.approx(LINK.fixed_ps, rel=1e-9)
    assert line.ps_per_byte * 1.5 == pytest.approx(LINK.each_ps, rel=1e-9)
    assert (line.sizes, line.error_ratio < 1e-9) == (3, True)
    assert fits.of(("pp", "collective-permute", None, 4)) == ("fitted_to_other_groups", None)


def test_a_line_needs_three_sizes_and_a_slope():
    sizes = pl.Series([1.0, 1.0, 2.0, 2.0]).to_numpy()
    assert fit_line(sizes, 3 + sizes) is None
    sizes = pl.Series([1.0, 2.0, 4.0, 4.0, 8.0]).to_numpy()
    assert fit_line(sizes, 20 - sizes) is None
    # An outlier moves neither slope nor latency: 3 + 2 x, but 100 at 4 in one of three samples.
    sizes = pl.Series([1.0, 2.0, 4.0, 4.0, 4.0, 8.0]).to_numpy()
    times = 3 + 2 * sizes
    times[3] = 100
    line = fit_line(sizes, times)
    assert (line.latency_ps, line.ps_per_byte, line.sizes, line.samples) == (3, 2, 4, 6)


@pytest.mark.parametrize(
    ("changes", "lengthens"),
    [
        ([Change(latency=LinkLatency(us * 10**6, False)) for us in (0, 1, 2, 5)], True),
        ([Change(latency=LinkLatency(us * 10**6, True)) for us in (0, 1, 2, 5)], True),
        ([Change(ici=Rate(times=times)) for times in (0.5, 1.0, 2.0, 4.0)], False),
        ([Change(ici=Rate(bytes_per_s=rate)) for rate in (1e9, 5e9, 5e10)], False),
        ([Change(host=ratio) for ratio in (0.0, 0.5, 1.0, 2.0)], True),
    ],
    ids=["latency", "added", "times", "rate", "host"],
)
def test_steps_are_monotone_in_what_is_changed(facts, changes, lengthens):
    schedule = facts.parent.schedule
    totals = []
    for change in changes:
        costs, _ = costs_of(facts, change)
        totals.append(step_times(schedule, schedule.replay(costs))["period_ps"].sum())
    assert totals == sorted(totals, reverse=not lengthens)
    assert len(set(totals)) == len(totals)


def test_a_prediction_is_a_run_with_a_parent(predicting):
    found = predicted(predicting, "tp4", Change(no_skew=True))
    again = predicted(predicting, "tp4", Change(no_skew=True))
    assert (found.unchanged, again.unchanged, again.run_id) == (False, True, found.run_id)
    sql = "select name, source, parent_run_id, change, setup from runs where run_id = $run"
    (row,) = rows(predicting, sql, run=found.run_id).to_dicts()
    with Warehouse(predicting) as warehouse:
        (parent,) = warehouse.runs(name="tp4")
    setup = row.pop("setup")
    assert setup not in (None, parent["setup"])
    assert row == {
        "name": "tp4 (no-skew)",
        "source": "predicted",
        "parent_run_id": parent["run_id"],
        "change": "no-skew",
    }
    codes = rows(predicting, "select code from issues where run_id = $run", run=found.run_id)
    assert "predicted" in codes["code"].to_list()


def test_the_parts_of_a_predicted_step_stand_beside_the_measured_ones(predicting):
    predicted(predicting, "tp4", Change(no_skew=True), "level")
    sql = """
        select phase, part, measured_ps, predicted_ps from predicted_split
        join runs using (run_id) where name = 'level'
    """
    found = rows(predicting, sql)
    # Windows are the parts but the time before the step; their means are rounded, one a part.
    windows = """
        select phase, avg(s.duration_ps) from device_steps s
        join runs using (run_id) where runs.name = $name group by phase
    """
    for name, column in (("tp4", "measured_ps"), ("level", "predicted_ps")):
        within = found.filter(pl.col("part") != "before the step")
        sums = dict(within.group_by("phase").agg(pl.sum(column)).iter_rows())
        assert sums == pytest.approx(dict(rows(predicting, windows, name=name).rows()), abs=3)
    compute = found.filter(pl.col("part") == "compute")
    assert compute["measured_ps"].to_list() == compute["predicted_ps"].to_list()
    waits = found.filter(pl.col("part") == "sync wait")
    assert (waits["measured_ps"] > waits["predicted_ps"]).all()


@pytest.mark.verify
def test_the_verb_prints_what_the_page_has(predicting):
    found = predicted(predicting, "tp4", Change(ici=Rate(times=4.0)))
    with Warehouse(predicting) as warehouse:
        (parent,) = warehouse.runs(name="tp4")
        latencies = [warehouse.metrics(run) for run in (parent["run_id"], found.run_id)]
    times = predicted_times(predicting, parent["run_id"], found.run_id)
    printed = {row[0]: row[1:3] for row in times.iter_rows()}
    for name, column in (("TTFT", "ttft_s"), ("TPOT", "tpot_s")):
        assert printed[name] == pytest.approx([each[column] * 1e3 for each in latencies])
    sql = """
        select phase, sum(measured_ps) / 1e9, sum(predicted_ps) / 1e9 from predicted_split
        where run_id = $run group by phase
    """
    for phase, *expected in rows(predicting, sql, run=found.run_id).rows():
        # Parts are rounded to a picosecond, six of them.
        shown = printed[f"mean period of a device's {phase} step"]
        assert shown == pytest.approx(expected, abs=6e-9)


@pytest.mark.verify
def test_predicted_runs_pass_every_audit(predicting):
    predicted(predicting, "tp4", Change(host=0.0, no_skew=True), "all")
    predicted(predicting, "pp_ticks", Change(no_masked=True), "unmasked")
    with Warehouse(predicting) as warehouse:
        report = check_warehouse(warehouse)
    assert report.errors == 0, report.lines


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (Change(dcn=Rate(times=2.0)), "tp4: the run has no transfer over DCN"),
        (Change(chip="v9"), "no chip 'v9' in the table of peaks; it has 7x, v2"),
        (Change(no_masked=True), "tp4: no op is known to compute on an empty microbatch"),
        (Change(no_exposed="ep"), "tp4: the run has no transfer of axis ep"),
        (Change(hbm_at_peak=True), "tp4: no op is known to be bound by HBM"),
    ],
)
def test_changes_that_a_run_cannot_be_replayed_with(facts, change, why):
    with pytest.raises(WarehouseError, match=why):
        costs_of(facts, change)


def test_another_latency_of_transfers_that_are_not_fitted_is_refused(facts):
    with pytest.raises(WarehouseError, match="no transfer of the run has a known latency"):
        savings_of(facts.transfers, Fits({}), {}, LinkLatency(1, False))


def test_without_a_fit_the_links_peaks_say_what_a_bandwidth_saves(facts):
    saved, costs = savings_of(facts.transfers, Fits({}), {"ici": Rate(times=2.0)}, None)
    least = facts.transfers.select("instance", "ici_ps").join(saved, on="instance")
    assert (least["saved_ps"] - least["ici_ps"] / 2).abs().max() <= 1
    assert costs.select("source", "latency_ps", "transfers").rows() == [("peaks", None, 16)]


@pytest.mark.verify
def test_a_predicted_run_is_no_parent_and_no_name_is_taken_twice(predicting):
    predicted(predicting, "tp4", Change(perfect_overlap=True), "overlapped")
    with pytest.raises(WarehouseError, match="its source is predicted; a replay starts from"):
        predicted(predicting, "overlapped", Change(no_skew=True))
    with pytest.raises(WarehouseError, match=r"overlapped is the name of run .*--as"):
        predicted(predicting, "tp4", Change(host=0.25), "overlapped")


def test_advice_ranks_levers_by_the_time_that_they_win(predicting):
    with Warehouse(predicting) as warehouse:
        parent = load_parent(warehouse, "pp_ticks")
        for _ in range(2):  # the second replaces the first
            keep_rows(warehouse, parent.row, {"advice": advise(parent).rows})
    sql = (
        "select * from advice join runs using (run_id) where name = 'pp_ticks' order by rank, phase"
    )
    found = rows(predicting, sql)
    ranked = found.filter(pl.col("rank").is_not_null())
    assert (ranked["won_ps"] == ranked["step_ps"] - ranked["replayed_step_ps"]).all()
    total = ranked.group_by("rank").agg((pl.col("won_ps") * pl.col("steps")).sum()).sort("rank")
    assert total["won_ps"].to_list() == sorted(total["won_ps"], reverse=True)
    assert total["rank"].to_list() == list(range(1, total.height + 1))
    unknown = found.filter(pl.col("rank").is_null())
    assert unknown["replayed_step_ps"].null_count() == unknown.height > 0
    assert unknown["reason"].null_count() == 0
    # The host fetches a step, waits, and dispatches the next; the launch ends 2,343 after its last op.
    (host,) = ranked.filter(
        (pl.col("lever") == "no host gaps") & (pl.col("phase") == "decode")
    ).to_dicts()
    assert host["won_ps"] == 40_000_000 + 25_000_117 + 90_000_013 - 2_343


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2x", Rate(times=2.0)),
        ("0.5", Rate(times=0.5)),
        ("25GB/s", Rate(bytes_per_s=2.5e10)),
        ("3 MB/s", Rate(bytes_per_s=3e6)),
    ],
)
def test_bandwidths(text, expected):
    assert parse_rate(text) == expected


@pytest.mark.parametrize("text", ["0", "-1x", "fast", "1e999", "0GB/s", "25Gb/s"])
def test_wrong_bandwidths(text):
    with pytest.raises(WarehouseError, match="is not a bandwidth"):
        parse_rate(text)


@pytest.mark.parametrize("text", ["1", "-1us", "1h", "1..us"])
def test_wrong_latencies(text):
    with pytest.raises(WarehouseError, match="is not a latency"):
        parse_latency(text)


def test_a_change_in_words_names_all_of_it():
    change = Change(
        ici=Rate(times=2.0),
        dcn=Rate(bytes_per_s=2.5e10),
        latency=parse_latency("+1.5us"),
        host=0.5,
        no_skew=True,
        perfect_overlap=True,
        chip="v5p",
    )
    assert describe(change) == (
        "ici=2x, dcn=2.5e+10B/s, latency=+1.5us, host=0.5, no-skew, perfect-overlap, chip=v5p"
    )
    assert describe(Change()) == "nothing"


@pytest.mark.parametrize(
    ("tpot", "e2e", "lines"),
    [(3.2, -2.0, 1), (3.2, 0.0, 1), (3.2, 1.0, 0), (-1.0, -2.0, 0), (3.2, None, 0)],
)
def test_a_tpot_that_grows_while_requests_end_sooner_is_explained(tpot, e2e, lines):
    rows = [("TTFT", -14.0), ("TPOT", tpot), ("e2e", e2e)]
    times = pl.DataFrame(rows, {"time": pl.String, "change_percent": pl.Float64}, orient="row")
    assert ["TPOT grows" in line for line in growth_lines(times)] == [True] * lines


def test_the_verb(predicting, monkeypatch, capsys):
    words = ("--ici", "2x", "--as", "quick", "-w", predicting)
    assert run_command(monkeypatch, "predict", "longer", *words) == 0
    done = capsys.readouterr()
    columns = ["time", "measured_ms", "predicted_ms", "change_percent"]
    assert done.out.splitlines()[0].split() == columns
    printed = {line.rsplit(maxsplit=3)[0].strip() for line in done.out.splitlines()[2:]}
    period = "mean period of a device's"
    assert printed == {"TTFT", "TPOT", "e2e", f"{period} decode step", f"{period} prefill step"}
    assert "tp all-reduce of 4 over ICI: latency 0.252 us a step" in done.err
    assert "no hardware has validated these times" in done.err
    words = ("--advice", "--format", "json", "-w", predicting)
    assert run_command(monkeypatch, "predict", "longer", *words) == 0
    levers = {row["lever"] for row in json.loads(capsys.readouterr().out)}
    assert {"no skew", "no host gaps", "perfect overlap"} <= levers
