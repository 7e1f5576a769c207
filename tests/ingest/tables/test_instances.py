"""Instances: which executions on different devices are one."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from xlahouse.ingest.tables.instances import by_first_start, number_instances
from xlahouse.ingest.tables.participants import circles_of


def numbers(rows, key=("op",)):
    frame = pl.DataFrame(rows, schema=["op", "device_id", "start_ps", "duration_ps"], orient="row")
    return together(frame.with_columns(circle=pl.col("device_id")), list(key))


def together(frame, key):
    """Numbers of whole instances."""
    return number_instances(frame, key)[1].to_list()


def test_instances_that_start_together_follow_by_program_not_by_their_number():
    columns = ["device_id", "start_ps", "duration_ps", "program_id", "instance"]
    rows = [(0, 9, 3, 2, 0), (1, 9, 3, 1, 1), (2, 9, 3, 1, 1), (0, 5, 1, 7, 2)]
    launches = pl.DataFrame(rows, schema=columns, orient="row")
    assert by_first_start(launches, "instance")["instance"].to_list() == [2, 1, 1, 0]


def test_overlapping_executions_are_one_instance():
    assert numbers([("a", 0, 0, 10), ("a", 1, 5, 5), ("a", 0, 20, 10), ("a", 1, 21, 9)]) == [
        0,
        0,
        1,
        1,
    ]


def test_a_device_that_repeats_begins_a_new_one():
    # device 0 runs twice before device 1's long execution ends
    assert numbers([("a", 0, 0, 10), ("a", 0, 8, 10), ("a", 1, 9, 20)]) == [0, 1, 1]


def test_a_start_at_the_earliest_end_begins_a_new_one():
    assert numbers([("a", 0, 0, 10), ("a", 1, 10, 10)]) == [0, 1]


def test_an_extra_leading_execution_shifts_nothing():
    # device 0 has one more at its start; pairing by k-th occurrence would be wrong for all
    rows = [
        ("a", 0, 0, 10),
        ("a", 0, 100, 10),
        ("a", 1, 101, 9),
        ("a", 0, 200, 10),
        ("a", 1, 199, 11),
    ]
    assert numbers(rows) == [0, 1, 1, 2, 2]


def test_a_device_that_lags_is_of_the_same_instance():
    # A launch of 100 every 300; device 1 is 120 behind, so no two executions overlap.
    rows = [("a", device, 300 * k + 120 * device, 100) for k in range(3) for device in (0, 1)]
    assert numbers(rows) == [0, 0, 1, 1, 2, 2]
    # Half a period and more: the k-th execution may as well be of the neighbour's next one.
    rows = [("a", device, 300 * k + 150 * device, 100) for k in range(3) for device in (0, 1)]
    assert numbers(rows) == [0, 1, 2, 3, 4, 5]


def test_a_lag_is_not_followed_where_counts_disagree():
    rows = [("a", 0, 300 * k, 100) for k in range(3)] + [
        ("a", 1, 300 * k + 120, 100) for k in (0, 1)
    ]
    assert numbers(rows) == [0, 2, 4, 1, 3]


def test_devices_that_meet_are_not_torn_apart_by_replicas_that_run_ahead():
    # Devices 0 and 2 meet, and so do 1 and 3, whose second execution is 300 to 410. By time 0's second one,
    # from 400, belongs to it, but 2's, from 425, does not, though it waits for 0's in a collective.
    spans = {
        0: ((0, 100), (400, 110), (800, 110)),
        2: ((25, 100), (425, 110), (825, 110)),
        1: ((0, 100), (300, 110), (600, 210)),
        3: ((0, 100), (300, 110), (600, 210)),
    }
    rows = [("a", device, *span) for device, each in spans.items() for span in each]
    columns = ["op", "device_id", "start_ps", "duration_ps"]
    frame = pl.DataFrame(rows, columns, orient="row")
    assert together(frame.with_columns(circle=pl.lit(0)), ["op"]) != [0, 1, 2] * 4
    circles = frame.with_columns(circle=pl.col("device_id") % 2)
    assert together(circles, ["op"]) == [0, 1, 2] * 4
    met, _ = number_instances(circles, ["op"])
    by_circle = frame.with_columns(met).group_by("met").agg(pl.col("device_id").sort())
    assert sorted(by_circle["device_id"].to_list()) == [[0, 2]] * 3 + [[1, 3]] * 3


def test_one_circle_is_an_instance_by_time():
    rows = [("a", device, 300 * k + 150 * device, 100) for k in range(3) for device in (0, 1)]
    frame = pl.DataFrame(rows, ["op", "device_id", "start_ps", "duration_ps"], orient="row")
    met, whole = number_instances(frame.with_columns(circle=pl.lit(0)), ["op"])
    assert met.to_list() == whole.to_list() == [0, 1, 2, 3, 4, 5]


def test_keys_are_apart():
    assert numbers([("a", 0, 0, 10), ("b", 0, 1, 10), ("a", 1, 2, 10)]) == [0, 1, 0]


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 50), st.integers(0, 20)),
        max_size=30,
    ),
    st.randoms(use_true_random=False),
)
def test_no_instance_has_a_device_twice_and_row_order_is_free(rows, random):
    got = numbers(rows)
    seen = {(instance, row[1]) for instance, row in zip(got, rows, strict=True)}
    assert len(seen) == len(rows)
    order = list(range(len(rows)))
    random.shuffle(order)
    shuffled = numbers([rows[index] for index in order])
    by_row = dict(zip(order, shuffled, strict=True))
    same = [(rows[index], got[index]) for index in range(len(rows))]
    assert sorted(same) == sorted((rows[index], by_row[index]) for index in range(len(rows)))


def one_by_one(rows):
    """Numbers by the definition itself: executions of a key in order, an instance at a time."""
    found, number = {}, -1
    found |= in_turn(rows)
    order = sorted(
        range(len(rows)), key=lambda at: (rows[at][0], rows[at][2], rows[at][1], sum(rows[at][2:]))
    )
    for key in sorted({row[0] for row in rows}):
        devices, earliest_end = None, 0
        for at in order:
            op, device, start, duration = rows[at]
            if op != key or (at in found and isinstance(found[at], tuple)):
                continue
            if devices is None or device in devices or start >= earliest_end:
                number, devices, earliest_end = number + 1, set(), start + duration
            devices.add(device)
            earliest_end = min(earliest_end, start + duration)
            found[at] = number
    return alike([found[at] for at in range(len(rows))])


def in_turn(rows):
    """(key, k) of the k-th execution on each device, of keys that all devices execute equally often and
    each k-th time within half a period of the earliest device."""
    found = {}
    for key in {row[0] for row in rows}:
        of_device = {}
        for at, (op, device, start, _) in enumerate(rows):
            if op == key:
                of_device.setdefault(device, []).append((start, at))
        executions = [sorted(times) for times in of_device.values()]
        counts = {len(times) for times in executions}
        if len(counts) > 1 or counts == {1}:
            continue
        turns = list(zip(*executions, strict=True))
        first = [min(start for start, _ in turn) for turn in turns]
        lags = [max(start for start, _ in turn) - first[k] for k, turn in enumerate(turns)]
        periods = [after - before for before, after in pairwise(first)]
        near = [periods[max(0, k - 1) : k + 1] for k in range(len(turns))]
        if all(2 * lag < min(some) for lag, some in zip(lags, near, strict=True)):
            found |= {at: (key, k) for k, turn in enumerate(turns) for _, at in turn}
    return found


def alike(names):
    """Names as numbers in order of their first appearance: which rows are together, and no more."""
    seen = {}
    return [seen.setdefault(name, len(seen)) for name in names]


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 60), st.integers(0, 30)
        ),
        max_size=40,
    ),
    st.sampled_from([1, 1 << 54]),  # times too far apart for one number to hold time and key
)
def test_all_at_once_is_as_one_by_one(rows, scale):
    rows = [(op, device, start * scale, duration * scale) for op, device, start, duration in rows]
    assert alike(numbers(rows)) == one_by_one(rows)


def test_devices_that_a_programs_collectives_connect_are_a_circle():
    # Program 1: 0 meets 1 and 1 meets 2 in all-reduces, 3 alone; a permute from 2 to 3 is not a meeting.
    # In program 2 all meet.
    ops = [(1, "ar.1", "all-reduce"), (1, "cp.2", "collective-permute"), (2, "ar.1", "all-gather")]
    groups = [(1, "ar.1", 0, 0), (1, "ar.1", 0, 1), (1, "ar.1", 1, 1), (1, "ar.1", 1, 2)]
    groups += [(1, "ar.1", 2, 3), (1, "cp.2", 0, 2), (1, "cp.2", 0, 3)]
    groups += [(2, "ar.1", 0, device) for device in range(4)]
    schema = {"program_id": pl.UInt64, "op": pl.String}
    facts = SimpleNamespace(
        ops=pl.DataFrame(ops, schema | {"kind": pl.String}, orient="row"),
        groups=pl.DataFrame(
            groups, schema | {"group_index": pl.Int64, "logical_id": pl.Int64}, orient="row"
        ),
    )
    found = circles_of(facts).sort("program_id", "device_id").rows()
    assert found[:4] == [(1, 0, 0), (1, 1, 0), (1, 2, 0), (1, 3, 3)]
    assert found[4:] == [(2, device, 0) for device in range(4)]
