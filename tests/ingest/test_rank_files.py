"""One file a rank on one host, `<host>_<rank>.xplane.pb`: the rank is part of a device's identity."""

from __future__ import annotations

import pytest

from tests.ingest.build import PlaneBuilder, space
from tests.ingest.traces import all_reduce_module, rows, write
from xlahouse.ingest.run import ingest_paths

US = 1_000_000


def rank_trace(rank, devices=((0,), (1,)), hostnames=("hostA",)):
    """An all-reduce between devices 0 and 1 on a plane that is number 0 in its process."""
    plane = PlaneBuilder("/device:TPU:0", device_type_string="TPU v6 Lite")
    plane.event(plane.line("XLA Modules"), "jit_f(77)", 1 * US, 5 * US)
    text = "%all-reduce.1 = f32[256]{0} all-reduce(f32[256]{0} %x)"
    meta = {"program_id": 77, "hlo_category": "all-reduce"}
    start = (2 + rank) * US
    plane.event(plane.line("XLA Ops"), text, start, 5 * US - start, "all-reduce.1", meta)
    metadata = PlaneBuilder("/host:metadata")
    module = all_reduce_module(devices=devices)
    metadata.metadata("jit_f(77)", meta={"Hlo Proto": module.serialize()})
    return space(metadata.plane, plane.plane, hostnames=hostnames)


def ingested(folder, *traces, stem="hostA"):
    session = folder / "t/plugins/profile/s1"
    for rank, raw in enumerate(traces):
        write(session / f"{stem}_{rank}.xplane.pb", raw)
    (result,) = ingest_paths([str(folder / "t")], str(folder / "w"))
    return result


@pytest.mark.parametrize("hostnames", [("hostA",), ()])
def test_ranks_of_one_job_are_devices_of_one_world(tmp_path, hostnames):
    result = ingested(tmp_path, *(rank_trace(rank, hostnames=hostnames) for rank in range(2)))
    assert (result.name, result.status) == ("hostA", "complete")
    devices = rows(tmp_path / "w", "devices").sort("device_id")
    columns = ("device_id", "logical_id", "local_ordinal", "world", "host", "process")
    assert devices.select(columns).rows() == [(0, 0, 0, 0, "hostA", 0), (1, 1, 0, 0, "hostA", 1)]
    found = rows(tmp_path / "w", "collectives").sort("device_id")
    assert found.select("device_id", "group_size").rows() == [(0, 2), (1, 2)]
    (run,) = rows_of_runs(tmp_path / "w")
    assert (run["device_count"], run["expected_device_count"], run["host_count"]) == (2, 2, 1)
    codes = set(rows(tmp_path / "w", "issues")["code"])
    assert "device_number_assumed" in codes
    assert not codes & {"devices_missing", "devices_repeated"}


def test_a_program_of_one_device_a_rank_stays_a_world_of_its_own(tmp_path):
    """Each rank serves by itself: device 0 of its program is its own."""
    ingested(tmp_path, *(rank_trace(rank, devices=((0,),)) for rank in range(2)))
    devices = rows(tmp_path / "w", "devices")
    assert sorted(devices.filter("traced")["world"].to_list()) == [0, 1]
    assert "devices_repeated" in set(rows(tmp_path / "w", "issues")["code"])


def test_a_rank_that_is_not_here_is_counted(tmp_path):
    """Of four devices that the program runs on, two are here; names state ranks 0 and 1."""
    four = ((0,), (1,), (2,), (3,))
    ingested(tmp_path, *(rank_trace(rank, devices=four) for rank in range(2)))
    (run,) = rows_of_runs(tmp_path / "w")
    assert (run["device_count"], run["expected_device_count"]) == (2, 4)


def rows_of_runs(root):
    import polars as pl

    return [
        row
        for path in root.glob("tables/runs/*.parquet")
        for row in pl.read_parquet(path).to_dicts()
    ]
