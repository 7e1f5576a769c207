"""Rows of replica groups within their limit: the largest are left out, whatever the order."""

from __future__ import annotations

import polars as pl
import pytest

from tests.ingest.build import ModuleBuilder, shape
from xlahouse.ingest.hlo.program import parse_program
from xlahouse.ingest.hlo.program_facts import gather

SIZES = (8, 2, 4, 8)


def program():
    module = ModuleBuilder()
    entry = module.computation("main")
    operand = module.add(entry, "p", "parameter", shape("f32", 8))
    for number, size in enumerate(SIZES):
        built = module.add(entry, f"ar.{number}", "all-reduce", shape("f32", 8), operand)
        listed = built.collective_device_list.iota_replica_group_list
        listed.num_replica_groups, listed.num_devices_per_group = 1, size
        listed.iota_reshape_dims.append(size)
    return parse_program(module.serialize(), 7, "m")


@pytest.mark.parametrize(
    ("limit", "kept"),
    [(22, ["ar.0", "ar.1", "ar.2", "ar.3"]), (21, ["ar.1", "ar.2"]), (5, ["ar.1"]), (1, [])],
)
def test_the_largest_are_left_out(limit, kept, monkeypatch):
    monkeypatch.setenv("XLAHOUSE_LIMITS", f"group_members={limit}")
    facts = gather([program()], "run")
    assert facts.groups["op"].unique(maintain_order=True).to_list() == kept
    counts = {issue.code: issue.count for issue in facts.issues}
    assert counts.get("limit_exceeded", 0) == len(SIZES) - len(kept)
    assert facts.ops["kind"].drop_nulls().to_list() == ["all-reduce"] * 4


def test_members_keep_their_places():
    rows = gather([program()], "run").groups.filter(pl.col("op") == "ar.2")
    assert rows.rows() == [(7, "ar.2", 0, place, place) for place in range(4)]


def test_of_ops_of_one_name_the_first_counts():
    """A member of a group twice would count its bytes twice."""
    module = ModuleBuilder()
    entry = module.computation("main")
    operand = module.add(entry, "p", "parameter", shape("f32", 8))
    for groups in ([[0, 1]], [[0, 1, 2, 3]]):
        module.add(entry, "ar", "all-reduce", shape("f32", 8), operand, groups=groups)
    facts = gather([parse_program(module.serialize(), 7, "m")], "run")
    assert facts.groups.rows() == [(7, "ar", 0, place, place) for place in range(2)]
    assert facts.ops.filter(pl.col("op") == "ar").height == 1
