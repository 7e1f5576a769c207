"""Files of a run that repeat others: the same bytes, or the same devices at another time."""

from __future__ import annotations

import polars as pl

from tests.ingest.chrome.test_kineto import nccl, of_rank
from tests.ingest.traces import rows, tpu_trace, write
from xlahouse.ingest.run import ingest_paths


def codes(wh):
    return dict(rows(wh, "issues").group_by("code").agg(pl.col("count").sum()).rows())


def test_a_copy_of_a_file_is_read_once_and_said_to_be_one(tmp_path):
    session = tmp_path / "plugins" / "profile" / "s"
    for name, number in (("a", 0), ("b", 0), ("c", 1)):
        write(session / f"{name}.xplane.pb", tpu_trace(number))
    ingest_paths([str(tmp_path)], str(tmp_path / "wh"))
    assert rows(tmp_path / "wh", "devices").select("device_id", "world").rows() == [(0, 0), (1, 0)]
    assert rows(tmp_path / "wh", "collectives")["instance"].to_list() == [0, 0]
    assert rows(tmp_path / "wh", "coverage")["events_read"].sum() == 4  # a launch and an op each
    (issue,) = rows(tmp_path / "wh", "issues").filter(pl.col("code") == "duplicate_file").to_dicts()
    assert issue["source"].endswith("b.xplane.pb")
    assert "a.xplane.pb" in issue["message"]
    assert "devices_missing" not in codes(tmp_path / "wh")


def test_each_of_two_empty_files_is_one_that_cannot_be_read(tmp_path):
    session = tmp_path / "plugins" / "profile" / "s"
    for name, raw in (("a", tpu_trace()), ("b", b""), ("c", b"")):
        write(session / f"{name}.xplane.pb", raw)
    ingest_paths([str(tmp_path)], str(tmp_path / "wh"))
    found = codes(tmp_path / "wh")
    assert (found["unreadable_file"], found.get("duplicate_file")) == (2, None)


def test_two_files_of_one_rank_are_a_finding_that_says_which_stands_apart(tmp_path):
    """The first by path takes part in the other rank's transfers; the other is a device of its own."""
    for name, rank, start in (("a", 0, 10), ("b", 0, 50), ("c", 1, 11)):
        write(tmp_path / f"{name}.json", of_rank(rank, nccl(start, 8)))
    ingest_paths([str(tmp_path)], str(tmp_path / "wh"), name="x")
    devices = rows(tmp_path / "wh", "devices").filter("traced")
    assert devices.select("device_id", "world", "host").rows() == [
        (0, 0, "a"),
        (1, 0, "c"),
        (2, 1, "b"),
    ]
    found = rows(tmp_path / "wh", "collectives").select("device_id", "instance").rows()
    assert found == [(0, 0), (1, 0), (2, 1)]
    (issue,) = (
        rows(tmp_path / "wh", "issues").filter(pl.col("code") == "devices_repeated").to_dicts()
    )
    assert (issue["severity"], issue["count"]) == ("warning", 1)
    assert "(0)" in issue["message"]
    assert "b.json" in issue["message"]
    assert "a.json" not in issue["message"]


def test_processes_that_both_number_their_devices_from_0_are_said_to_be_kept_apart(tmp_path):
    write(tmp_path / "p" / "h.xplane.pb", tpu_trace())
    write(tmp_path / "q" / "h.xplane.pb", tpu_trace(hlo=False))
    ingest_paths([str(tmp_path)], str(tmp_path / "wh"), name="x")
    (issue,) = (
        rows(tmp_path / "wh", "issues").filter(pl.col("code") == "devices_repeated").to_dicts()
    )
    assert (issue["severity"], issue["count"]) == ("info", 1)
    assert "q/h.xplane.pb" in issue["message"]
