"""Launch numbers, instances, enqueue links and steps."""

from __future__ import annotations

import polars as pl

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.producers import linked
from xlahouse.ingest.tables.launches import finish_launches, phase_rows

HOSTS = pl.DataFrame(
    {"device_id": [0, 1], "host": ["h", "h"]}, schema_overrides={"device_id": pl.Int64}
)


def frame(rows, columns):
    return frames.conform(pl.DataFrame(rows) if rows else frames.empty(columns), columns)


def launches(*rows):
    """(device, program, start, duration, more)"""
    names = ("device_id", "program_id", "start_ps", "duration_ps")
    return frame([dict(zip(names, row[:4], strict=True)) | row[4] for row in rows], frames.LAUNCHES)


def markers(*rows):
    names = ("phase", "request", "step", "start_ps", "duration_ps")
    return frame(
        [dict(zip(names, row, strict=True)) | {"host": "h"} for row in rows], frames.MARKERS
    )


def finish(found, marks=None):
    marks = frames.empty(frames.MARKERS) if marks is None else marks
    return finish_launches(found, marks, HOSTS)


def test_numbers_and_instances_without_markers_are_steps():
    done = finish(
        launches((1, 7, 12, 5, {}), (0, 7, 10, 5, {}), (0, 7, 30, 5, {}), (1, 7, 31, 5, {}))
    )
    columns = ["device_id", "launch", "launch_instance", "phase", "request", "step"]
    assert done.select(columns).rows() == [
        (0, 0, 0, "step", None, 0),
        (0, 1, 1, "step", None, 1),
        (1, 0, 0, "step", None, 0),
        (1, 1, 1, "step", None, 1),
    ]


def test_a_launch_belongs_to_the_marker_that_holds_its_enqueue():
    marks = markers(
        ("request", 0, None, 0, 100), ("prefill", 0, 0, 0, 50), ("decode", 0, 1, 50, 50)
    )
    found = launches(
        (0, 7, 60, 5, {"enqueue_ps": 49}),  # enqueued at 49: prefill, though it starts in decode
        (0, 7, 70, 5, {"enqueue_ps": 50}),  # enqueued at 50: decode; half open
        (0, 7, 80, 5, {}),  # no link: its start counts
        (0, 7, 300, 5, {}),  # after every marker
    )
    done = finish(found, marks)
    assert done.select("enqueue_ps", "phase", "request", "step").rows() == [
        (49, "prefill", 0, 0),
        (50, "decode", 0, 1),
        (None, "decode", 0, 1),
        (None, None, None, None),
    ]


def test_a_host_without_markers_has_the_steps_of_the_others():
    """Device 1 is on a host of its own, whose process marks nothing."""
    hosts = HOSTS.with_columns(host=pl.Series(["h", "other"]))
    marks = markers(("prefill", 0, 0, 0, 50), ("decode", 0, 1, 50, 50))
    found = launches(
        (0, 7, 10, 5, {}),
        (1, 7, 12, 5, {}),  # the same instance as the one on device 0
        (0, 7, 60, 5, {}),
        (1, 7, 61, 5, {}),
        (1, 7, 80, 5, {}),  # only here, within the decode of a host that says nothing of this one
    )
    done = finish_launches(found, marks, hosts)
    columns = ["device_id", "start_ps", "phase", "request", "step"]
    assert done.select(columns).rows() == [
        (0, 10, "prefill", 0, 0),
        (0, 60, "decode", 0, 1),
        (1, 12, "prefill", 0, 0),
        (1, 61, "decode", 0, 1),
        (1, 80, None, None, None),
    ]


def test_steps_that_hosts_do_not_agree_on_are_unknown_elsewhere():
    hosts = pl.DataFrame({"device_id": [0, 1, 2], "host": ["h", "g", "other"]})
    first = markers(("prefill", 0, 0, 0, 50))
    second = markers(("decode", 0, 1, 0, 50)).with_columns(host=pl.lit("g"))
    found = launches((0, 7, 10, 5, {}), (1, 7, 11, 5, {}), (2, 7, 12, 5, {}))
    done = finish_launches(found, pl.concat([first, second]), hosts)
    assert done["step"].to_list() == [0, 1, None]


def late_replicas(linked=True, steps=(1, 2, 3)):
    """Launches of 60 every 100. Device 1, of another replica, starts 70 after device 0, and is busy beside
    its next launch from 80 to 140 of each period."""
    return launches(
        *((0, 7, 100 * k + 10, 60, {"enqueue_ps": 100 * k} if linked else {}) for k in (1, 2, 3)),
        *((1, 7, 100 * k + 80, 60, {"enqueue_ps": 100 * k} if linked else {}) for k in steps),
    )


def instances(done):
    """Launch instances of device 0, and of device 1, in order of time."""
    return [done.filter(device_id=device)["launch_instance"].to_list() for device in (0, 1)]


DECODES = markers(*(("decode", 0, k, 100 * k, 50) for k in (1, 2, 3)))


def test_markers_name_the_launches_of_replicas_however_late_one_is():
    assert instances(finish(late_replicas())) == [[0, 1, 2], [1, 2, 3]]  # by time
    assert instances(finish(late_replicas(), DECODES)) == [[0, 1, 2], [0, 1, 2]]


def test_a_replica_that_lost_a_launch_keeps_the_names_of_the_rest():
    done = finish(late_replicas(steps=(2, 3)), DECODES)
    assert instances(done) == [[0, 1, 2], [1, 2]]


def test_a_launch_without_a_link_is_named_by_no_marker():
    """By their starts, at 180, 280 and 380, device 1's would be in no marker: a start tells little."""
    marks = markers(*(("decode", 0, k, 100 * k, 100) for k in (1, 2, 3)))
    assert instances(finish(late_replicas(linked=False), marks)) == [[0, 1, 2], [1, 2, 3]]


def test_replicas_that_serve_different_requests_launch_apart():
    marks = markers(("decode", 0, 1, 0, 50), ("decode", 1, 1, 50, 50))
    found = launches((0, 7, 60, 20, {"enqueue_ps": 10}), (1, 7, 61, 20, {"enqueue_ps": 60}))
    assert instances(finish(found)) == [[0], [0]]
    assert instances(finish(found, marks)) == [[0], [1]]


def test_launches_of_one_step_are_named_in_turn_where_replicas_have_as_many():
    """Two launches a step, of 40; device 1 is 70 late, so that its first overlaps with device 0's second."""
    marks = markers(("prefill", 0, 0, 0, 50))
    enqueued = {"enqueue_ps": 1}
    first = [(0, 7, 10, 40, enqueued), (0, 7, 70, 40, enqueued)]
    late = [(1, 7, 80, 40, enqueued), (1, 7, 150, 40, enqueued)]
    assert instances(finish(launches(*first, *late))) == [[0, 1], [1, 2]]
    assert instances(finish(launches(*first, *late), marks)) == [[0, 1], [0, 1]]
    # Which of the two device 1 lost, no name tells: time decides.
    assert instances(finish(launches(*first, late[0]), marks)) == [[0, 1], [1]]


def test_markers_name_launches_of_clocks_that_cannot_be_compared():
    """The second host's clock is 1000 behind, and its devices 2 and 3 meet each other alone."""
    hosts = pl.DataFrame({"device_id": [0, 1, 2, 3], "host": ["h", "h", "g", "g"]})
    circles = pl.DataFrame(
        [(7, 0, 0), (7, 1, 0), (7, 2, 2), (7, 3, 2)],
        {"program_id": pl.UInt64, "device_id": pl.Int64, "circle": pl.Int64},
        orient="row",
    )
    rows = [(d, 7, 100 * k + 1000 * (d > 1), 60, {}) for k in (1, 2, 3) for d in range(4)]
    late = DECODES.with_columns(pl.col("start_ps") + 1000, host=pl.lit("g"))
    marks = pl.concat([DECODES, late])
    component_of = {0: 0, 1: 0, 2: 1, 3: 1}
    done = finish_launches(launches(*rows), marks, hosts, component_of, circles)
    assert done["launch_instance"].to_list() == [0, 1, 2] * 4


def test_a_host_without_markers_follows_time_where_that_gives_one_name():
    """Device 2 is on a host of its own, whose process marks nothing, and runs beside device 1."""
    hosts = pl.concat([HOSTS, pl.DataFrame({"device_id": [2], "host": ["other"]})])
    beside = launches(*((2, 7, 100 * k + 81, 60, {"enqueue_ps": 9}) for k in (1, 2, 3)))
    done = finish_launches(pl.concat([late_replicas(), beside]), DECODES, hosts)
    own, late = instances(done)
    assert own == late
    # Its first is beside the second of device 0 and the first of device 1, which have two names; its last is
    # beside device 1's alone.
    assert done.filter(device_id=2)["step"].to_list() == [None, None, 3]
    assert done.filter(device_id=2)["launch_instance"].to_list()[2] == own[2]


def test_phases_are_the_markers_or_else_the_instances():
    found = launches((0, 7, 10, 5, {}), (1, 7, 12, 5, {}))
    rows = phase_rows(frames.empty(frames.MARKERS), finish(found))
    assert rows.select("phase", "request", "step", "start_ps", "duration_ps", "source").rows() == [
        ("step", None, 0, 10, 7, "module")
    ]
    marks = markers(("prefill", 3, 0, 0, 50))
    assert phase_rows(marks, finish(found, marks))["source"].to_list() == ["marker"]


def test_known_instances_are_kept_and_renumbered_by_time():
    keys = [{"instance_key": key, "launch_key": key} for key in (900, 900, 20)]
    found = launches((0, 7, 10, 5, keys[0]), (1, 7, 40, 5, keys[1]), (0, 7, 60, 5, keys[2]))
    assert finish(found).sort("start_ps")["launch_instance"].to_list() == [0, 0, 1]


def test_the_innermost_open_marker_counts():
    # an outer marker goes on after one inside it has ended; of two that cross, at 26, none decides
    marks = markers(("warmup", 7, 0, 0, 100), ("decode", 0, 1, 10, 20), ("decode", 0, 2, 25, 30))
    times = (5, 10, 26, 40, 54, 55, 100)
    found = launches(*((0, 7, at, 1, {}) for at in times))
    steps = finish(found, marks).sort("start_ps").select("phase", "step").rows()
    assert steps == [
        ("warmup", 0),
        ("decode", 1),
        ("decode", None),
        ("decode", 2),
        ("decode", 2),
        ("warmup", 0),
        (None, None),
    ]


def test_of_enqueues_of_one_id_the_latest_before_the_launch_counts():
    """Ids are used again: 9 was enqueued at 10, 100 and 300. 8 starts before its only enqueue."""
    producers = pl.DataFrame(
        [
            (12, 9, 300, "a"),
            (12, 9, 10, "b"),
            (12, 9, 100, "c"),
            (12, 8, 70, "d"),
            (7, 9, 40, "e"),
        ],
        schema=frames.PRODUCERS,
        orient="row",
    )
    launches = pl.DataFrame(
        {
            "start_ps": [150, 20, 300, 5, 60, 400, 500],
            "link_type": [12, 12, 12, 12, 12, 12, None],
            "link": [9, 9, 9, 9, 8, 1, None],
            "enqueue_ps": [None, None, None, None, None, None, 1],
        }
    )
    found = linked(frames.conform(launches, frames.LAUNCHES), producers)
    assert found["start_ps"].to_list() == launches["start_ps"].to_list()
    assert found["enqueue_ps"].to_list() == [100, 10, 300, 10, 70, None, 1]
    assert found["enqueue_thread"].to_list() == ["c", "b", "a", "b", "d", None, None]
