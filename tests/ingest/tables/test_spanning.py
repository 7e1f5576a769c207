"""`--group all`: collectives whose group no trace states span all ranks, as the user states."""

from __future__ import annotations

import json

import pytest

from tests.ingest.chrome_build import document, event
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.warehouse import Warehouse

RANKS, HERE = 4, 2
KERNEL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)"


def rank_file(folder, rank, described):
    """One all-reduce of 256 floats, described without members, or by its kernel's name alone."""
    told = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 256, "Seq": 1}
    args = {"device": 0, "stream": 7, **(told if described else {})}
    ran = event(KERNEL, 100 + rank, 20 - rank, pid=0, tid=7, cat="kernel", args=args)
    info = {"distributedInfo": {"rank": rank, "world_size": RANKS}, "schemaVersion": 1}
    tail = f',"baseTimeNanoseconds":1700000000000000000,{json.dumps(info)[1:]}'
    (folder / f"rank{rank}.json").write_bytes(document(ran, tail=tail))


@pytest.mark.parametrize("described", [True, False])
def test_all_ranks_are_one_group_where_the_user_says_so(tmp_path, described):
    """Two of four ranks are here: the group has four members, and both have a part in one instance."""
    (tmp_path / "in").mkdir()
    for rank in range(HERE):
        rank_file(tmp_path / "in", rank, described)
    for name, stated in (("as traced", False), ("stated", True)):
        ingest_paths(
            [str(tmp_path / "in")], str(tmp_path / name), name="r", all_in_one_group=stated
        )
        with Warehouse(str(tmp_path / name)) as warehouse:
            sql = "select device_id, group_size, count(distinct instance) over () from collectives"
            size = RANKS if stated else None
            found = warehouse.query(f"{sql} order by device_id").rows
            assert [row[:2] for row in found] == [(rank, size) for rank in range(HERE)]
            codes = {code for (code,) in warehouse.query("select code from issues").rows}
            assert ("group_stated" in codes) == stated
            assert ("collective_without_group" in codes) != stated
            if stated:
                members = "select count(*), max(logical_id) from replica_groups"
                assert warehouse.query(members).rows == [(RANKS, RANKS - 1)]
                instances = "select count(distinct instance), count(*) from collectives"
                assert warehouse.query(instances).rows == [(1, HERE)]


def test_a_run_is_read_again_when_the_statement_changes(tmp_path):
    rank_file(tmp_path, 0, described=False)
    path, folder = str(tmp_path / "rank0.json"), str(tmp_path / "w")
    ingest_paths([path], folder)
    (again,) = ingest_paths([path], folder, all_in_one_group=True)
    assert not again.unchanged
    with Warehouse(folder) as warehouse:
        assert warehouse.query("select group_size from collectives").rows == [(RANKS,)]
