"""Which files are one run."""

from __future__ import annotations

import os

import pytest

from xlahouse.capture.errors import XlahouseError
from xlahouse.ingest.discover import Source, find_runs, run_id_of


def touch(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def runs(path):
    return [
        (run.name, len(run.paths), run.manifest_path is not None)
        for run in find_runs(str(path)).runs
    ]


def test_sessions_of_a_capture_are_one_run_with_its_manifest(tmp_path):
    base = "m/tp4/batch_1_seq_8"
    touch(
        tmp_path,
        f"{base}/trace_20260101.trace/plugins/profile/s1/a.xplane.pb",
        f"{base}/trace_20260101.trace/plugins/profile/s2/b.xplane.pb",
        f"{base}/trace_20260101.trace/plugins/profile/s2/b.trace.json.gz",
        f"{base}/metadata_20260101.json",
    )
    assert runs(tmp_path) == [("trace_20260101.trace", 2, True)]


def test_a_profile_session_is_a_run_and_loose_files_are_one_each(tmp_path):
    touch(
        tmp_path,
        "log/plugins/profile/s1/a.xplane.pb",
        "log/plugins/profile/s1/b.xplane.pb",
        "log/plugins/profile/s2/a.xplane.pb",
        "loose/c.xplane.pb",
        "loose/d.xplane.pb",
    )
    assert sorted(runs(tmp_path)) == [
        ("a", 1, False),
        ("a", 2, False),
        ("c", 1, False),
        ("d", 1, False),
    ]


def test_a_capture_in_progress_is_not_a_run_yet(tmp_path):
    inside = "plugins/profile/s/a.xplane.pb"
    touch(tmp_path, f"m/.trace_1.trace.partial/{inside}", f"m/trace_2.trace/{inside}")
    assert [run.name for run in find_runs(str(tmp_path)).runs] == ["trace_2.trace"]


def test_one_file(tmp_path):
    touch(tmp_path, "a.xplane.pb", "b.xplane.pb")
    assert runs(tmp_path / "a.xplane.pb") == [("a", 1, False)]


@pytest.mark.parametrize(
    ("names", "point", "message"),
    [
        ([], "absent", "no such file or folder"),
        (["x/a.txt"], "x", r"no \.xplane\.pb files"),
        (["x/a.trace.json.gz"], "x", "1 Chrome traces, which are not read yet"),
        (["a.txt"], "a.txt", r"not an \.xplane\.pb file"),
    ],
)
def test_nothing_to_read_is_an_error(tmp_path, names, point, message):
    touch(tmp_path, *names)
    with pytest.raises(XlahouseError, match=message):
        find_runs(str(tmp_path / point))


def test_identity_is_contents_wherever_and_in_whatever_order():
    a, b = Source("/x/a", 1, "aa"), Source("/y/b", 1, "bb")
    assert run_id_of([a, b], b"m") == run_id_of([b, Source("/elsewhere", 9, "aa")], b"m")
    assert run_id_of([a, b], b"m") != run_id_of([a, b], b"other manifest")
    assert run_id_of([a], b"") != run_id_of([b], b"")


def test_what_is_no_regular_file_is_left_out_and_said(tmp_path):
    touch(tmp_path, "good.xplane.pb")
    os.mkfifo(tmp_path / "pipe.xplane.pb")
    found = find_runs(str(tmp_path))
    assert [run.name for run in found.runs] == ["good"]
    assert len(found.problems) == 1
    assert "pipe.xplane.pb: not a regular file" in found.problems[0]


def test_a_folder_that_cannot_be_listed_is_said(tmp_path, monkeypatch):
    touch(tmp_path, "a/x.xplane.pb", "b/y.xplane.pb")
    scandir = os.scandir

    def deny(path):
        if str(path).endswith("/b"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", deny)  # root may list everything, so the refusal is played
    found = find_runs(str(tmp_path))
    assert [run.name for run in found.runs] == ["x"]
    assert found.problems == [f"{tmp_path}/b: Permission denied; it is left out"]
