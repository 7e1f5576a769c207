"""Archives of profile folders are read as the folders that they hold."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.ingest.traces import tpu_trace, write
from xlahouse.capture.scratch import scratch_folder
from xlahouse.ingest import archives
from xlahouse.ingest.run import IngestError, ingest_paths
from xlahouse.sql.warehouse import Warehouse

CASE = Path(__file__).parents[1] / "cases" / "foreign" / "zipped_profile"
SESSION = "2024_09_04_00_57_49"


def rows(folder, sql):
    with Warehouse(str(folder)) as warehouse:
        return warehouse.query(sql).rows


@pytest.fixture
def session(tmp_path):
    """The session's folder, unpacked by Python's own zipfile."""
    with zipfile.ZipFile(CASE / f"{SESSION}.zip") as archive:
        archive.extractall(tmp_path / "folder")
    return tmp_path / "folder"


def written(path, number):
    """A trace of its own content."""
    write(path, tpu_trace().replace(b"jit_f", b"jit_%d" % number))


@pytest.fixture
def logs(tmp_path):
    """A folder of two sessions, a capture, and a trace by itself."""
    folder = tmp_path / "logs"
    for number, name in enumerate(
        (
            "plugins/profile/s1/h",
            "plugins/profile/s2/h",
            "trace_1.trace/plugins/profile/s1/h",
            "alone",
        )
    ):
        written(folder / f"{name}.xplane.pb", number)
    return folder


def ids_and_names(results):
    return sorted((run.run_id, run.name) for run in results)


def packed(folder, kind, to):
    return shutil.make_archive(str(to), kind, folder)


@pytest.mark.parametrize("name", ["p.tar.gz", f"{SESSION}.zip"])
def test_an_archive_is_the_run_of_its_folder(name, session, tmp_path):
    (of_folder,) = ingest_paths([str(session)], str(tmp_path / "w"))
    (of_archive,) = ingest_paths([str(CASE / name)], str(tmp_path / "v"))
    assert of_archive == of_folder
    ((source,),) = rows(tmp_path / "v", "select distinct source from coverage")
    assert source.startswith(f"{CASE / name}/")
    assert source.endswith(f"{SESSION}/h.xplane.pb")


def test_commands_of_findings_name_the_archive(tmp_path):
    """A path within it cannot be ingested."""
    archive = CASE / f"{SESSION}.zip"
    ingest_paths([str(archive)], str(tmp_path))
    ((message,),) = rows(tmp_path, "select message from issues where code = 'no_hlo'")
    assert f"`xlahouse ingest {archive} --run RUN " in message


@pytest.mark.parametrize("kind", ["zip", "tar", "gztar"])
def test_every_kind_is_read(kind, session, tmp_path):
    archive = packed(session, kind, tmp_path / "packed")
    (run,) = ingest_paths([archive], str(tmp_path / "w"))
    assert run.run_id == ingest_paths([str(session)], str(tmp_path / "v"))[0].run_id


def test_archives_in_a_folder_are_read_and_no_name_of_a_temporary_file_is_kept(tmp_path):
    (run,) = ingest_paths([str(CASE)], str(tmp_path / "w"), name="run")
    assert run.name == "run"
    codes = rows(tmp_path / "w", "select code from issues where code = 'duplicate_file'")
    assert codes == [("duplicate_file",)]  # both archives hold the same file
    for file in (tmp_path / "w").rglob("*"):
        assert not file.is_file() or scratch_folder().encode() not in file.read_bytes()


def test_a_folder_beside_an_archive_without_traces_is_read(session, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("no trace")
    packed(tmp_path / "other", "zip", session / "notes")
    assert len(ingest_paths([str(session)], str(tmp_path / "w"))) == 1


def test_an_archive_without_traces_is_named(tmp_path):
    (tmp_path / "other").mkdir()
    archive = packed(tmp_path / "other", "zip", tmp_path / "notes")
    with pytest.raises(IngestError, match=r"notes\.zip: no \.xplane\.pb files"):
        ingest_paths([archive], str(tmp_path / "w"))


@pytest.mark.parametrize("name", ["../evil.xplane.pb", "/evil.xplane.pb"])
def test_no_file_is_written_outside(name, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(name, b"x")
    with tarfile.open(tmp_path / "b.tar", "w") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    for archive in ("a.zip", "b.tar"):
        with pytest.raises(IngestError, match="would lie outside"):
            ingest_paths([str(tmp_path / archive)], str(tmp_path / "w"))


def test_links_are_left_out(session, tmp_path):
    with tarfile.open(tmp_path / "b.tar", "w") as tar:
        tar.add(session, "profile")
        link = tarfile.TarInfo("profile/link.xplane.pb")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    assert len(ingest_paths([str(tmp_path / "b.tar")], str(tmp_path / "w"))) == 1


@pytest.mark.parametrize("limit", ["archive_bytes", "archive_files"])
def test_what_an_archive_may_hold_is_bounded(limit, monkeypatch, tmp_path):
    monkeypatch.setenv("XLAHOUSE_LIMITS", f"{limit}=1")
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.writestr("a.txt", b"1")
        archive.writestr("b.txt", b"2")
    with pytest.raises(IngestError, match=f"p.zip: more than 1 .*--limits {limit}=NUMBER"):
        ingest_paths([str(tmp_path / "p.zip")], str(tmp_path / "w"))


@pytest.mark.parametrize("depth", [0, 2])
def test_a_small_archive_fills_no_disk(depth, monkeypatch, tmp_path):
    monkeypatch.setattr(archives, "ANY_RATIO", 1 << 16)
    raw = bytes(1 << 20)
    for level in range(depth, -1, -1):
        path = tmp_path / ("p.zip" if level == 0 else f"q{level}.zip")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("in.zip" if level < depth else "zeros", raw)
        raw = path.read_bytes()
        if level:
            path.unlink()
    with pytest.raises(IngestError, match=r"p\.zip.*--limits unpacked_ratio=NUMBER"):
        ingest_paths([str(tmp_path)], str(tmp_path / "w"))


def test_each_archive_beyond_the_room_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(archives, "ANY_RATIO", 1 << 16)
    with zipfile.ZipFile(tmp_path / "p.zip", "w", zipfile.ZIP_DEFLATED) as outer:
        for name in ("a.zip", "b.zip"):
            with zipfile.ZipFile(tmp_path / name, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("h.xplane.pb", tpu_trace() + bytes(1 << 20))
            outer.write(tmp_path / name, name)
    with pytest.raises(IngestError) as error:
        ingest_paths([str(tmp_path / "p.zip")], str(tmp_path / "w"))
    text = str(error.value)
    assert all(f"p.zip/{name}: more than" in text for name in ("a.zip", "b.zip"))


ENDED = """
import os, signal, sys
from xlahouse.ingest.archives import unpacked
try:
    with unpacked([sys.argv[1]], []) as given:
        print(given[0].path)
        os.kill(os.getpid(), signal.SIGTERM)
        print("still here")
except KeyboardInterrupt:
    print("ended")
"""


def test_what_was_unpacked_is_removed_when_the_process_is_asked_to_end():
    command = [sys.executable, "-c", ENDED, str(CASE / "p.tar.gz")]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    folder, last = ran.stdout.split()
    assert last == "ended"
    assert not Path(folder).exists()


LONG = pytest.mark.verify


@pytest.mark.parametrize(
    ("kind", "top"),
    [
        ("zip", "contents"),
        pytest.param("zip", "folder", marks=LONG),
        pytest.param("tar", "contents", marks=LONG),
        pytest.param("gztar", "contents", marks=LONG),
        pytest.param("gztar", "folder", marks=LONG),
    ],
)
def test_an_archive_of_several_runs_gives_the_runs_of_its_folder(kind, top, logs, tmp_path):
    """As many, with the same ids and names, whether the archive holds the folder or what is in it."""
    of_folder = ids_and_names(ingest_paths([str(logs)], str(tmp_path / "w")))
    assert [name for _, name in of_folder].count("logs.s1") == 1
    assert len({run_id for run_id, _ in of_folder}) == 4
    base = "." if top == "contents" else logs.name
    root = logs if top == "contents" else logs.parent
    archive = shutil.make_archive(str(tmp_path / "packed" / "logs"), kind, root, base)
    assert ids_and_names(ingest_paths([archive], str(tmp_path / "v"))) == of_folder


def test_an_archive_in_an_archive_is_the_folder_that_it_holds(logs, tmp_path):
    of_folder = ids_and_names(ingest_paths([str(logs)], str(tmp_path / "w")))
    (tmp_path / "outer" / "in").mkdir(parents=True)
    packed(logs, "gztar", tmp_path / "outer" / "in" / "logs")
    (tmp_path / "outer" / "bad.zip").write_bytes(b"no archive")
    outer = packed(tmp_path / "outer", "zip", tmp_path / "all")
    with pytest.raises(IngestError) as refused:
        ingest_paths([outer], str(tmp_path / "v"))
    (problem,) = refused.value.problems
    assert problem.startswith(f"{outer}/bad.zip: this archive is damaged")
    assert ids_and_names(refused.value.results) == of_folder
    sources = [name for (name,) in rows(tmp_path / "v", "select distinct source from coverage")]
    assert f"{outer}/in/logs.tar.gz/alone.xplane.pb" in sources
    commands = rows(tmp_path / "v", "select message from issues where message like '%ingest %'")
    assert commands
    assert all(f"xlahouse ingest {outer} " in message for (message,) in commands)


def test_archives_within_archives_end(tmp_path):
    written(tmp_path / "a0.xplane.pb", 0)
    inner = tmp_path / "a0.xplane.pb"
    for depth in range(1, 6):
        outer = tmp_path / f"a{depth}.zip"
        with zipfile.ZipFile(outer, "w") as archive:
            archive.write(inner, inner.name)
        inner = outer
    with pytest.raises(IngestError, match=r"a5.zip/a4.zip/a3.zip/a2.zip: an archive within 3"):
        ingest_paths([str(inner)], str(tmp_path / "w"))
    (run,) = ingest_paths([str(tmp_path / "a3.zip")], str(tmp_path / "w"))
    assert run.name == "a0"


def test_all_archives_in_one_share_its_bounds(monkeypatch, tmp_path):
    """The outer one holds a file and the inner one another: two and one are three files."""
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        archive.writestr("a.txt", b"1")
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.write(tmp_path / "in.zip", "in.zip")
        archive.writestr("b.txt", b"2")
    monkeypatch.setenv("XLAHOUSE_LIMITS", "archive_files=2")
    with pytest.raises(IngestError, match=r"p.zip/in.zip: more than 2 .*archive_files=NUMBER"):
        ingest_paths([str(tmp_path / "p.zip")], str(tmp_path / "w"))


def test_a_broken_archive_below_a_folder_costs_itself(logs, tmp_path):
    of_folder = ids_and_names(ingest_paths([str(logs)], str(tmp_path / "w")))
    (logs / "deep" / "er").mkdir(parents=True)
    (logs / "deep" / "er" / "bad.tgz").write_bytes(b"no archive")
    with pytest.raises(IngestError, match=r"deep/er/bad\.tgz: this archive is damaged") as refused:
        ingest_paths([str(logs)], str(tmp_path / "v"))
    assert ids_and_names(refused.value.results) == of_folder
