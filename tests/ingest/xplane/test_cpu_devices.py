"""Which devices the places of an execution are: as events say, or as the program's assignment does."""

from __future__ import annotations

import polars as pl
import pytest

from tests.ingest.build import ModuleBuilder, PlaneBuilder, shape, space
from tests.ingest.traces import rows, write
from tests.ingest.xplane.test_cpu import WAIT, Host, launch, run_on_two, seen_in_part
from xlahouse.ingest.hlo.program import parse_program
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.xplane.cpu.devices import _assigned


def module(devices):
    built = ModuleBuilder("m", devices=devices)
    entry = built.computation("main")
    x = built.add(entry, "x", "parameter", shape("f32", 4))
    built.add(entry, "dot", "add", shape("f32", 4), x, x)
    return built.serialize()


def ingested(tmp_path, host, devices=None):
    """The warehouse of a capture. The program's plane comes last, as it may."""
    metadata = PlaneBuilder("/host:metadata")
    metadata.metadata("m(5)", meta={"Hlo Proto": module(devices)})
    planes = [host.built.plane, *([metadata.plane] if devices is not None else [])]
    ingest_paths([write(tmp_path / "h.xplane.pb", space(*planes))], str(tmp_path / "wh"))
    return tmp_path / "wh"


def placed(wh):
    return rows(wh, "ops").select("device_id", "op", "start_ps").sort(pl.all()).rows()


def codes(wh):
    return dict(rows(wh, "issues").group_by("code").agg(pl.col("count").sum()).rows())


def run_twice_on_the_first(host, first=None, second=None):
    """An execution whose first place runs at 151 and 170, whose second one at 161."""
    run_on_two(host, first, second)
    host.op("pool-c", "add", 170, 5, 11)
    return host


def test_ops_that_do_not_say_their_device_are_of_the_one_that_others_at_their_place_say(tmp_path):
    host = run_twice_on_the_first(Host(), {"device_ordinal": 3}, {"device_ordinal": 1})
    wh = ingested(tmp_path, host)
    assert placed(wh) == [(1, "dot", 161_000), (3, "add", 170_000), (3, "dot", 151_000)]
    launches = rows(wh, "launches").select("device_id", "start_ps", "duration_ps").sort("device_id")
    assert launches.rows() == [(1, 161_000, 5_000), (3, 151_000, 24_000)]
    assert rows(wh, "launches")["launch_instance"].to_list() == [0, 0]


def test_ops_that_say_their_device_need_no_execution(tmp_path):
    host = Host()
    host.op("t1", "dot", 151, 5, 10, device_ordinal=1)
    host.op("t2", "dot", 161, 5, 20, device_ordinal=0)
    host.op("t2", "add", 171, 5, 20)  # of which nothing is known
    wh = ingested(tmp_path, host)
    assert placed(wh) == [(0, "dot", 161_000), (1, "dot", 151_000)]
    assert rows(wh, "host_events")["name"].to_list() == ["add"]
    assert (codes(wh)["device_unknown"], codes(wh)["op_outside_launch"]) == (1, 2)


@pytest.mark.parametrize(
    ("devices", "first", "second"),
    [
        ([[2], [3]], 2, 3),
        ([[3], [2]], 3, 2),
        ([[3, 2]], 3, 2),  # two replicas
        ([[0], [1]], 0, 1),
        ([[4], [5], [6], [7]], 0, 1),  # which two of them are this process's is not told
        ([[2], [2]], 0, 1),  # damaged
        ([], 0, 1),
    ],
)
def test_a_program_runs_where_its_assignment_says(tmp_path, devices, first, second):
    wh = ingested(tmp_path, run_twice_on_the_first(Host()), devices)
    assert ("device_number_assumed" in codes(wh)) is (len(devices) > 2)
    assert placed(wh) == sorted(
        [(first, "dot", 151_000), (first, "add", 170_000), (second, "dot", 161_000)]
    )


def test_what_an_event_says_wins_over_the_assignment(tmp_path):
    wh = ingested(tmp_path, run_twice_on_the_first(Host(), {"device_ordinal": 6}), [[2], [3]])
    assert placed(wh) == [(3, "dot", 161_000), (6, "add", 170_000), (6, "dot", 151_000)]


def test_places_count_replica_after_replica():
    """devices[partition][replica]: replica 0 is on 0 and 2."""
    program = parse_program(module([[0, 1], [2, 3]]), 5, "m")
    assert [device for _, device, _ in _assigned(program)] == [0, 2, 1, 3]


def test_a_place_that_seems_to_be_two_devices_is_a_finding(tmp_path):
    host = run_twice_on_the_first(Host(), {"device_ordinal": 1})
    host.op("pool-c", "mul", 180, 5, 12, device_ordinal=0)
    wh = ingested(tmp_path, host)
    (issue,) = rows(wh, "issues").filter(pl.col("code") == "device_conflict").to_dicts()
    assert (issue["severity"], issue["count"]) == ("error", 1)


def test_a_meeting_of_the_devices_that_a_program_is_assigned_to_is_none_of_others(tmp_path):
    host = run_twice_on_the_first(Host())
    for thread, at in (("pool-c", 172), ("pool-a", 168)):
        host.event(thread, "Rendezvous", at, 2, name="x global_devices=[2,3] op_id=1", id=1)
    assert "device_conflict" not in codes(ingested(tmp_path, host, [[2], [3]]))
    assert "device_conflict" in codes(ingested(tmp_path / "not", host))


def test_an_execution_of_which_a_part_is_seen_is_numbered_as_its_program_is(tmp_path):
    """Of the second execution the helper of its first place alone is in the trace."""
    host = run_twice_on_the_first(Host())
    seen_in_part(host, [(321, 22)], 22)
    assert (2, "dot", 341_000) in placed(ingested(tmp_path, host, [[2], [3]]))


def test_launches_of_processes_that_share_no_collective_are_not_matched(tmp_path):
    """Devices 0 and 1 are of one process, 2 and 3 of the other, which starts 5 ns later: by its own clock,
    which nothing compares with the first one's."""
    for number, late in enumerate((0, 5)):
        host = Host()
        for again in (0, 300):
            at = 100 + again + late
            numbers = tuple(range(1 + again, 6 + again))
            launch(host, at, numbers, [("pool-c", at + 50), ("pool-a", at + 60)])
            for thread, when, device in (("pool-c", at + 51, 0), ("pool-a", at + 61, 1)):
                ordinal = {"device_ordinal": 2 * number + device}
                host.op(thread, "dot", when, 20, 10 + again + device, **ordinal)
                host.event(thread, WAIT, when + 21, 10)
        environment = PlaneBuilder("Task Environment", profile_start_time=1_700_000_000 * 10**9)
        raw = space(host.built.plane, environment.plane, hostnames=(f"host{number}",))
        write(tmp_path / "plugins" / "profile" / "s" / f"{number}.xplane.pb", raw)
    ingest_paths([str(tmp_path)], str(tmp_path / "wh"))
    found = rows(tmp_path / "wh", "launches").sort("device_id", "launch")
    assert found.select("device_id", "launch_instance", "start_ps").rows() == [
        (0, 0, 151_000), (0, 2, 451_000), (1, 0, 161_000), (1, 2, 461_000),
        (2, 1, 156_000), (2, 3, 456_000), (3, 1, 166_000), (3, 3, 466_000),
    ]  # fmt: skip
