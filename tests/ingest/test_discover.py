"""Which files are one run."""

from __future__ import annotations

import gzip
import os

import pyarrow as pa
import pytest

from tests.ingest.traces import rows, tpu_trace, write
from xlahouse.capture.errors import TraceFormatError, XlahouseError
from xlahouse.ingest.discover import find_runs, run_id_of
from xlahouse.ingest.events.codes_of_files import OTHER_CONTAINER
from xlahouse.ingest.events.run_files import RunFiles
from xlahouse.ingest.events.trace_bytes import SourceFile
from xlahouse.ingest.run import IngestError, ingest_paths


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
        (["x/a.txt", "x/a.json"], "x", r"no \.xplane\.pb files and no Chrome traces"),
        (["a.txt"], "a.txt", r"neither an \.xplane\.pb file nor a Chrome trace"),
    ],
)
def test_nothing_to_read_is_an_error(tmp_path, names, point, message):
    touch(tmp_path, *names)
    with pytest.raises(XlahouseError, match=message):
        find_runs(str(tmp_path / point))


def test_a_chrome_trace_is_a_run_where_no_xplane_of_its_host_stands_beside_it(tmp_path):
    session = "log/plugins/profile/s1"
    touch(
        tmp_path,
        f"{session}/a.xplane.pb",
        f"{session}/a.trace.json.gz",
        f"{session}/b.trace.json.gz",
        f"{session}/perfetto_trace.json.gz",  # JAX's copy of a host's trace
        "loose/c.trace.json.zst",
        "loose/metadata_1.json",
    )
    (tmp_path / "loose/kineto.json").write_bytes(b'{"schemaVersion": 1, "traceEvents": []}')
    found = {run.name: run for run in find_runs(str(tmp_path)).runs}
    assert sorted(found) == ["a", "c", "kineto"]
    names = [path.rpartition("/")[2] for path in found["a"].paths]
    assert names == ["a.xplane.pb", "b.trace.json.gz"]
    spare = f"{tmp_path}/{session}/a"
    assert found["a"].spares == ((f"{spare}.xplane.pb", f"{spare}.trace.json.gz"),)


def test_a_spare_takes_the_place_of_an_xplane_that_cannot_be_read():
    run = RunFiles("r", ("a.xplane.pb", "b.xplane.pb"), spares=(("a.xplane.pb", "a.trace.json"),))
    errors = [TraceFormatError("a.xplane.pb", "the file is empty")]
    instead = run.instead_of(errors)
    assert instead.paths == ("a.trace.json", "b.xplane.pb")
    assert instead.replaced == (("a.xplane.pb", "the file is empty"),)
    assert instead.instead_of(errors) is None
    assert run.instead_of([TraceFormatError("b.xplane.pb", "no spare")]) is None


def test_identity_is_contents_wherever_and_in_whatever_order():
    a, b = SourceFile("/x/a", 1, "aa"), SourceFile("/y/b", 1, "bb")
    assert run_id_of([a, b], b"m") == run_id_of([b, SourceFile("/elsewhere", 9, "aa")], b"m")
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


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("a.riegeli", "a Riegeli file"),
        ("b.perfetto-trace", "a Perfetto trace"),
        ("c.nsys-rep", "an Nsight Systems report"),
        ("d.sqlite", "an SQLite database"),
    ],
)
def test_traces_of_other_kinds_are_named(tmp_path, name, what):
    path = write(tmp_path / "in" / name, b"\x83\xaf\x70")
    for place in (path, str(tmp_path / "in")):
        with pytest.raises(XlahouseError, match=f"{name}: {what}.*not read; export"):
            find_runs(place)


def test_traces_of_other_kinds_beside_a_run_are_its_finding_elsewhere_a_problem(tmp_path):
    session = tmp_path / "in/plugins/profile/s"
    for name in ("a.xplane.pb", "b.xplane.riegeli", "sessions.db"):
        write(session / name, tpu_trace())
    write(tmp_path / "in/else/c.nsys-rep", b"x")
    with pytest.raises(IngestError) as error:
        ingest_paths([str(tmp_path / "in")], str(tmp_path / "wh"))
    (problem,) = error.value.problems
    assert problem.startswith(f"{tmp_path}/in/else/c.nsys-rep: an Nsight Systems report, which is")
    assert [result.name for result in error.value.results] == ["a"]
    issues = rows(tmp_path / "wh", "issues").filter(code="other_container")
    assert issues.select("source", "severity", "count").rows() == [
        (str(session / "b.xplane.riegeli"), "warning", 1)
    ]
    found = OTHER_CONTAINER.found("", detail="a Riegeli file, which is not read")
    assert issues["message"].item() == found.message


@pytest.mark.parametrize(
    "pack", [gzip.compress, lambda raw: pa.compress(raw, "zstd", asbytes=True)]
)
@pytest.mark.parametrize("name", ["h.xplane.pb", "h.xplane.pb.gz", "h.xplane.pb.zst"])
def test_packed_xplanes_are_read_whatever_their_name(tmp_path, name, pack):
    path = write(tmp_path / name, pack(tpu_trace()))
    (result,) = ingest_paths([path], str(tmp_path / "wh"))
    assert (result.name, result.rows["ops"], result.issues.get("error")) == ("h", 1, None)
