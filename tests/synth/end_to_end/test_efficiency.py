"""Synthetic runs, ingested: ops, layers, programs and shares of peaks equal their closed forms."""

from __future__ import annotations

import pytest

from tests.synth.end_to_end.ingested import assert_same, every_run

pytestmark = pytest.mark.xdist_group("synthetic")


@every_run
def test_mfu(ingested):
    found = ingested.rows("select * from mfu_v2 where phase is not null")
    expected = ingested.expected["mfu"]
    assert_same(found, expected, list(expected[0]))


@every_run
def test_mbu(ingested):
    expected = ingested.expected["mbu"]
    found = ingested.rows("select * from mbu_v2 where phase is not null")
    assert_same(found, expected, list(expected[0]))


@every_run
def test_op_profile(ingested):
    """Without the cost of ops that are not compute: no view uses it."""
    found = ingested.rows("select * from op_profile_v1 where phase is not null")
    for row in found:
        row["category"] = row["category"].replace("host_transfer", "copy")
    expected = ingested.expected["op_profile"]
    columns = [name for name in expected[0] if name != "flops"]
    assert_same(found, expected, columns)
    compute = [[row for row in rows if row["category"] == "compute"] for rows in (found, expected)]
    assert_same(*compute, [*columns, "flops"])


@every_run
def test_self_time_by_category(ingested):
    """Copies to the host count with the others here; loops hold what is counted elsewhere."""
    found = ingested.rows(
        """
        select run_id, phase, replace(category, 'host_transfer', 'copy') as category,
            sum(executions) as executions, sum(self_ps) as self_ps
        from layer_breakdown_v1 where phase is not null and category <> 'control' group by all
        """
    )
    columns = ("phase", "category", "executions", "self_ps")
    assert_same(found, ingested.expected["category_time"], columns)


@every_run
def test_layer_breakdown(ingested):
    if ingested.run.loop or "pp" in ingested.run.axes:
        return  # a loop's body names no layer, a stacked program local ones
    found = ingested.rows(
        "select * from layer_breakdown_v1 where phase is not null and category = 'compute'"
    )
    columns = ("phase", "layer", "component", "executions", "self_ps")
    assert_same(found, ingested.expected["layer_time"], columns)


@every_run
def test_module_breakdown(ingested):
    found = ingested.rows(
        "select * from module_breakdown_v1"
        " where phase is not null and launches > 0 and module <> 'jit_iota'"
    )
    columns = ("phase", "program_id", "launches", "launch_ps")
    assert_same(found, ingested.expected["module_launches"], columns)


@every_run
def test_roofline(ingested):
    found = ingested.rows(
        "select * from roofline_v2 where category in ('compute', 'collective')"
        " and module <> 'jit_iota' and opcode not like '%-start'"
    )
    columns = ("program_id", "op", "category", "devices", "executions", "observed_ps")
    assert_same(found, ingested.expected["roofline"], (*columns, "flops", "math_ps"))
