"""Plans of optical circuits: their table against views, other delays, and runs of one policy."""

from __future__ import annotations

import json

import polars as pl
import pytest

from tests.command import run_command
from tests.layers import first_few
from tests.sql.predict.conftest import LINK, ingest
from tests.synth.describe import Run
from xlahouse.capture.errors import WarehouseError
from xlahouse.sql.predict.changes import Change, Rate, Reconfigure, describe, parse_delay
from xlahouse.sql.predict.costs import Facts
from xlahouse.sql.predict.loading import load_parent
from xlahouse.sql.predict.plans import keep_plan, plan_circuits
from xlahouse.sql.warehouse import Warehouse

US = 1_000_000
RUNS = (
    Run(name="stages", mesh=(("pp", 2), ("tp", 2)), layers=4, link=LINK, scheduled_ticks=True),
    Run(name="experts", mesh=(("ep", 2), ("tp", 2)), hosts=2, link=LINK),
    Run(name="one_axis", link=LINK, layers=1, output_tokens=1),
)
DELAYS = (0, 10 * US, 1_000 * US)


@pytest.fixture(scope="module")
def switched(tmp_path_factory):
    """A warehouse of runs with two axes; in `experts`, ep joins two hosts."""
    return ingest(tmp_path_factory.mktemp("switched"), RUNS)


@pytest.fixture(scope="module")
def plan(switched):
    """Plans circuits of a run."""
    with Warehouse(switched) as warehouse:
        known = {run.name: Facts(load_parent(warehouse, run.name)) for run in RUNS}

        def planned(run, delays=DELAYS, circuits=1, rails=False, change=None):
            return plan_circuits(known[run], change or Change(), delays, circuits, rails)

        yield planned


def keep(root, run, delays, circuits):
    with Warehouse(root) as warehouse:
        parent = load_parent(warehouse, run)
        keep_plan(parent, plan_circuits(Facts(parent), Change(), delays, circuits, False))


def query(root, sql, **params):
    with Warehouse(root) as warehouse:
        return warehouse.query(sql, params).pl()


@pytest.mark.parametrize("run", first_few(["stages", "experts"], 1))
def test_changes_are_those_between_the_bursts_of_each_device(plan, switched, run):
    # reconfiguration_cost counts the windows between bursts of two axes; one circuit changes in each.
    sql = """
        select phase, avg(changes_per_step) as changes from reconfiguration_cost_v1
        join runs using (run_id) where name = $run and scope = 'device' and delay_ps = 10000000
        group by phase order by phase
    """
    expected = dict(query(switched, sql, run=run).rows())
    rows = plan(run)
    assert len(expected) == 2
    for policy in ("every", "prefetch"):
        for delay in DELAYS:
            own = rows.filter((pl.col("policy") == policy) & (pl.col("delay_ps") == delay))
            assert dict(own.select("phase", "changes_per_step").iter_rows()) == expected
    whole = rows["step_hidden_ps"] + rows["step_exposed_ps"]
    assert whole.to_list() == pytest.approx((rows["changes_per_step"] * rows["delay_ps"]).to_list())


def test_steps_grow_with_the_delay_and_not_at_all_without_one(plan):
    rows = plan("stages")
    assert rows.filter(pl.col("delay_ps") == 0)["added_ps"].to_list() == [0] * 8
    waiting = rows.filter(pl.col("policy") == "every").sort("phase", "delay_ps")
    added = waiting["added_ps"].to_list()
    assert added[0] == added[3] == 0
    assert 0 < added[1] < added[2]
    assert 0 < added[4] < added[5]
    # A change of 1 ms is longer than any window here: a step pays all of it, less its windows.
    assert waiting["added_ps"][2] <= 6 * 1_000 * US
    still = rows.filter(pl.col("policy").is_in(["never", "fits"]))
    assert still["added_ps"].to_list() == [0] * 12
    assert still["step_exposed_ps"].sum() == 0


def test_circuits_that_never_change_carry_the_bytes_of_one_axis(plan, switched):
    sql = """
        select phase, max(axis_bytes) / sum(axis_bytes) from (
            select phase, axis, sum(wire_bytes) as axis_bytes from traffic_volume_v1
            join runs using (run_id) where name = 'stages' group by phase, axis
        ) group by phase
    """
    expected = dict(query(switched, sql).rows())
    rows = plan("stages", delays=[10 * US]).filter(pl.col("policy") == "never")
    found = dict(rows.select("phase", "circuit_bytes_ratio").iter_rows())
    assert found == pytest.approx(expected)
    assert 0.5 < found["decode"] < 1


def test_a_port_for_each_axis_needs_no_change(plan):
    rows = plan("stages", circuits=3)
    assert (rows["changes_per_step"].sum(), rows["added_ps"].sum()) == (0, 0)
    assert rows["ports"].to_list() == [2] * rows.height
    assert rows["circuit_bytes_ratio"].to_list() == [1.0] * rows.height


def test_on_rails_only_what_crosses_hosts_needs_circuits(plan):
    rows = plan("experts", delays=[10 * US], rails=True)
    assert set(rows["scope"]) == {"rails"}
    assert (rows["changes_per_step"].sum(), rows["ports"].max()) == (0, 1)
    with pytest.raises(WarehouseError, match="stages: the run has no transfer between hosts"):
        plan("stages", rails=True)


def test_a_run_of_one_axis_never_changes(plan):
    rows = plan("one_axis")
    assert (rows["changes_per_step"].sum(), rows["added_ps"].sum()) == (0, 0)


def test_other_changes_are_the_ground_that_circuits_stand_on(plan):
    fast = plan("stages", delays=[0], change=Change(ici=Rate(times=2.0)))
    slow = plan("stages", delays=[0])
    assert set(fast["change"]) == {"ici=2x"}
    assert set(slow["change"]) == {None}
    assert fast["added_ps"].sum() == 0
    assert (fast["step_ps"] < slow["step_ps"]).all()


@pytest.mark.parametrize("change", [Change(no_skew=True), Change(perfect_overlap=True)])
def test_circuits_need_transfers_that_are_waited_for(plan, change):
    with pytest.raises(WarehouseError, match="predict one change at a time"):
        plan("stages", change=change)


@pytest.mark.verify
def test_the_table_keeps_what_is_not_planned_again(switched):
    keep(switched, "experts", [US, 5 * US], 1)
    keep(switched, "experts", [5 * US], 1)
    keep(switched, "experts", [5 * US], 2)
    sql = """
        select circuits, delay_ps, count(*) from reconfiguration_plan join runs using (run_id)
        where name = 'experts' group by all order by all
    """
    # Four policies and two phases each.
    assert query(switched, sql).rows() == [(1, US, 8), (1, 5 * US, 8), (2, 5 * US, 8)]


@pytest.mark.verify
def test_one_policy_is_a_run_with_the_plans_steps(switched, monkeypatch, capsys):
    words = ("--reconfigure", "10us", "-w", switched)
    policy = ("--policy", "every", "--as", "paid")
    assert run_command(monkeypatch, "predict", "stages", *words, *policy) == 0
    assert "predicted with reconfigure=10us, circuits=1, policy=every" in capsys.readouterr().err
    assert run_command(monkeypatch, "predict", "stages", *words, "--format", "json") == 0
    rows = json.loads(capsys.readouterr().out)
    planned = {row["phase"]: row for row in rows if row["policy"] == "every"}
    sql = """
        select name, max(s.start_ps + s.duration_ps) as end_ps from device_steps s
        join runs r using (run_id) where r.name in ('stages', 'paid') group by name
    """
    ends = dict(query(switched, sql).rows())
    added = sum(row["added_ps"] * row["steps"] for row in planned.values())
    # Means are rounded to a picosecond; nothing but steps lies before the last end.
    assert abs(ends["paid"] - ends["stages"] - added) <= 4
    assert query(switched, "select source from runs where name = 'paid'").rows() == [("predicted",)]
    # Devices are alike: each waits for circuits as long as its steps take longer, and all else is as it was.
    sql = """
        select phase, part, sum(predicted_ps) - sum(measured_ps) from predicted_split
        join runs using (run_id) where name = 'paid' group by all
    """
    for phase, part, more in query(switched, sql).rows():
        expected = planned[phase]["added_ps"] if part == "circuit wait" else 0
        assert abs(more - expected) <= 2, (phase, part)
    assert run_command(monkeypatch, "summary", "paid", "-w", switched) == 0
    said = capsys.readouterr().out
    assert "waits for circuits" in said
    assert "replayed with reconfigure=10us, circuits=1, policy=every; no time of it was" in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--circuits", "2"), "circuits need the time of a change"),
        (("--rails",), "circuits need the time of a change"),
        (("--reconfigure", "1us", "--policy", "often"), "often is not one of never, every, fits"),
        (("--reconfigure", "1us", "--advice"), "advice does not cover circuits"),
        (("--reconfigure", "1us", "--as", "name"), "a plan is not a run"),
        (("--reconfigure", "1us", "--reconfigure", "2us", "--policy", "fits"), "one time"),
        (("--format", "json"), "a replay is a run, not rows"),
    ],
)
def test_words_that_mean_nothing_together(switched, monkeypatch, capsys, words, why):
    assert run_command(monkeypatch, "predict", "stages", *words, "-w", switched) == 2
    assert why in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("text", ["10", "-1us", "+1us", "soon"])
def test_a_change_takes_a_time(text):
    with pytest.raises(WarehouseError, match="is not a time; write 10ms"):
        parse_delay(text)


def test_circuits_in_words_name_all_of_them():
    given = Reconfigure(parse_delay("2.5ms"), 3, True, "fits")
    said = describe(Change(reconfigure=given))
    assert said == "reconfigure=2500us, circuits=3, rails, policy=fits"
