"""Pairing, groups, payload of permutes, and arrival at barriers."""

from __future__ import annotations

import polars as pl
import pytest

from xlahouse.ingest.hlo.group_rows import PAIR_COLUMNS
from xlahouse.ingest.tables.collectives import find_collectives
from xlahouse.ingest.tables.transfer_pairs import find_transfers
from xlahouse.ingest.tables.transfers import Transfers

GROUPS = pl.DataFrame(
    [
        (1, "ar", group, position, device, device)
        for group, position, device in ((0, 0, 0), (0, 1, 1))
    ],
    schema={
        "program_id": pl.UInt64,
        "op": pl.String,
        "group_index": pl.Int64,
        "position": pl.Int64,
        "logical_id": pl.Int64,
        "device_id": pl.Int64,
    },
    orient="row",
)
NO_PAIRS = pl.DataFrame(schema=PAIR_COLUMNS)
# Launch k of each device is one execution.
LAUNCHES = pl.DataFrame(
    [(device, launch, launch) for device in range(8) for launch in range(8)],
    schema={"device_id": pl.Int64, "launch": pl.Int64, "launch_instance": pl.Int64},
    orient="row",
)


def op(device, name, start, duration, role="sync", category="collective", **more):
    return {
        "device_id": device,
        "launch": 0,
        "program_id": 1,
        "op": name,
        "category": category,
        "on_async_line": False,
        "role": role,
        "start_op": None,
        "kind": "all-reduce" if category == "collective" else None,
        "payload_bytes": 64 if category == "collective" else None,
        "start_ps": start,
        "duration_ps": duration,
    } | more


def ops(*rows):
    schema = {
        "device_id": pl.Int64,
        "launch": pl.Int64,
        "program_id": pl.UInt64,
        "start_op": pl.String,
        "kind": pl.String,
        "payload_bytes": pl.Int64,
    }
    return pl.DataFrame(rows, schema_overrides=schema)


def find(rows, groups=GROUPS, pairs=NO_PAIRS):
    given = ops(*rows)
    category = pl.col("category")
    transfers = find_transfers(
        given.with_row_index("row").filter(category == "collective"),
        given.filter(~category.is_in(["wait", "control"])),
        given.filter(pl.col("op") == "barrier-cores").select("device_id", "launch", "start_ps"),
    )
    return find_collectives(Transfers.of_rows(*transfers), groups, pairs, LAUNCHES, "run")


def test_synchronous():
    found = find([op(0, "ar", 100, 10), op(1, "ar", 103, 7)])
    columns = [
        "device_id",
        "instance",
        "group_index",
        "group_size",
        "arrival_ps",
        "is_async",
        "issue_ps",
    ]
    assert found.rows.select(columns).rows() == [
        (0, 0, 0, 2, 100, False, None),
        (1, 0, 0, 2, 103, False, None),
    ]
    assert found.issues == []


def test_start_and_done_pair_by_order_within_the_launch():
    # twice in a loop; the second pair's start lies before the first one's done
    rows = [
        op(0, "ar", 100, 2, "start"),
        op(0, "ar", 110, 3, "start"),
        op(0, "ar-done", 120, 5, "done", start_op="ar"),
        op(0, "ar-done", 130, 1, "done", start_op="ar"),
    ]
    found = find(rows)
    columns = ["op", "start_ps", "duration_ps", "issue_ps", "wait_ps", "is_async"]
    # in flight from the start of the start to the end of the done: 125 - 100 and 131 - 110
    assert found.rows.select(columns).rows() == [
        ("ar", 100, 25, 2, 5, True),
        ("ar", 110, 21, 3, 1, True),
    ]


def test_a_zero_length_start_listed_after_its_done_still_pairs():
    rows = [
        op(0, "ar-done", 120, 5, "done", start_op="ar"),
        op(0, "ar", 120, 0, "start"),
    ]
    assert find(rows).rows.select("start_ps", "duration_ps", "wait_ps").rows() == [(120, 5, 5)]


def test_a_launch_seen_from_its_middle_pairs_what_it_can():
    # the first done's start was missed; three whole pairs follow, 5.0005 us from start to end each
    rows = [op(0, "ar-done", 1_000_000, 500, "done", start_op="ar")]
    for turn in (1, 2, 3):
        rows.append(op(0, "ar", turn * 10_000_000, 1, "start"))
        rows.append(op(0, "ar-done", turn * 10_000_000 + 5_000_000, 500, "done", start_op="ar"))
    found = find(rows)
    assert found.rows["duration_ps"].to_list() == [5_000_500] * 3
    assert [(issue.code, issue.count) for issue in found.issues] == [("async_unpaired", 1)]


def test_two_missed_dones_and_a_start_without_end():
    rows = [
        op(0, "ar-done", 10, 1, "done", start_op="ar"),
        op(0, "ar", 20, 1, "start"),
        op(0, "ar-done", 30, 1, "done", start_op="ar"),
        op(0, "ar-done", 40, 1, "done", start_op="ar"),
        op(0, "ar", 50, 1, "start"),
    ]
    found = find(rows)
    assert found.rows.select("start_ps", "duration_ps").rows() == [(20, 11)]
    assert found.issues[0].count == 3


def test_half_a_pair_is_left_out_and_reported():
    found = find([op(0, "ar-done", 120, 5, "done", start_op="ar")])
    assert found.rows.is_empty()
    assert [(issue.code, issue.count) for issue in found.issues] == [("async_unpaired", 1)]


def test_no_group_means_no_instance_and_an_issue():
    found = find([op(0, "ar", 100, 10)], groups=GROUPS.clear())
    assert found.rows.select("group_index", "group_size", "instance").rows() == [(None, None, None)]
    assert [issue.code for issue in found.issues] == ["collective_without_group"]


def test_permute_sends_only_from_sources_of_another_device():
    pairs = pl.DataFrame([(1, "ar", 0, 1), (1, "ar", 1, 1)], schema=PAIR_COLUMNS, orient="row")
    rows = [op(device, "ar", 100, 10, kind="collective-permute") for device in (0, 1)]
    assert find(rows, pairs=pairs).rows.select("device_id", "payload_bytes").rows() == [
        (0, 64),
        (1, 0),
    ]


@pytest.mark.parametrize(
    ("between", "arrival"),
    [
        ([], 50),
        ([op(0, "dependency-wait", 95, 2, category="wait")], 50),
        ([op(0, "while", 94, 100, category="control")], 50),
        ([op(0, "dot", 95, 2, category="compute")], 100),  # the barrier was for something else
    ],
)
def test_arrival_is_the_barrier_directly_before(between, arrival):
    barrier = op(0, "barrier-cores", 50, 40, category="wait")
    found = find([barrier, *between, op(0, "ar", 100, 10)])
    assert found.rows["arrival_ps"].to_list() == [arrival]
