"""Which ops make the difference between two runs: a case with known values, and synthetic runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.kept import audited
from tests.layers import first_few
from tests.synth.answers.all import answers
from tests.synth.cases import CASES
from tests.synth.write import write_run
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql import Warehouse

FOREIGN = Path(__file__).parents[1] / "cases" / "foreign"
US = 10**6  # ps
SQL = """
    select d.* from op_diff_v1 as d
    join runs as b on b.run_id = d.run_id join runs as o on o.run_id = d.other_run_id
    where b.name = 'base' and o.name = 'other'
    order by d.phase, d.rank nulls last
"""


def test_the_op_that_got_slower_is_named_first(tmp_path):
    """One op 50 % slower, fusions renumbered: a step is busy for 350 us where it was for 300."""
    for case, name in (("op_slower_base", "base"), ("op_slower_candidate", "other")):
        ingest_paths([str(FOREIGN / case)], str(tmp_path), name=name)
    with Warehouse(tmp_path) as warehouse:
        rows = warehouse.query(SQL).dicts()
        assert audited(warehouse) == []
    first, *others = [row for row in rows if row["part"] == "op"]
    assert (first["rank"], first["kernel"], first["opcode"]) == (1, "fusion", "fusion")
    assert (first["total_ps"], first["rate_ps"]) == (50 * US, 50 * US)
    assert [row["total_ps"] for row in others] == [0] * len(others)
    assert sum(row["step_ps"] for row in [first, *others]) == 300 * US
    # Four steps start 1,000 us apart, and the first period is its window: 3 x 700 / 4 and 3 x 650 / 4.
    between = {row["part"]: (row["step_ps"], row["other_step_ps"], row["rank"]) for row in rows}
    assert between["between"] == (525 * US, 487.5 * US, None)
    assert between["idle"] == (0, 0, None)


@pytest.mark.parametrize(
    ("name", "changes"),
    first_few(
        [
            ("dp_tp", {"fusions": 2}),
            ("tp4", {"layers": 3}),
            ("tp_overlapped_and_hidden", {"batch": 16}),
        ],
        1,
    ),
)
def test_parts_add_up_to_the_difference_of_the_closed_forms(name, changes, tmp_path):
    """The mean periods are those of the descriptions, and each part is of one kind alone."""
    base = CASES[name]
    runs = {"base": base, "other": replace(base, **changes)}
    for each, run in runs.items():
        write_run(run, tmp_path / each)
        ingest_paths([str(tmp_path / each)], str(tmp_path / "wh"), name=each)
    with Warehouse(tmp_path / "wh") as warehouse:
        rows = warehouse.query(SQL).dicts()
    periods = {each: mean_periods(run) for each, run in runs.items()}
    assert {row["phase"] for row in rows} == set(periods["base"]) == set(periods["other"])
    for phase, before in periods["base"].items():
        mine = [row for row in rows if row["phase"] == phase]
        assert sum(row["step_ps"] for row in mine) == pytest.approx(before, rel=1e-12)
        kinds = ("count_ps", "rate_ps", "new_ps", "gone_ps")
        whole = sum(row[kind] for row in mine for kind in kinds)
        assert whole == pytest.approx(periods["other"][phase] - before, rel=1e-9)
        for row in mine:
            assert sum(row[kind] for kind in kinds) == pytest.approx(row["total_ps"], abs=1e-3)


def mean_periods(run):
    """Phase -> the mean period of its steps, from the description."""
    found = {}
    for row in answers(run)["device_time"]:
        found.setdefault(row["phase"], []).append(row["period_ps"])
    return {phase: sum(periods) / len(periods) for phase, periods in found.items()}
