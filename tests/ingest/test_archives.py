"""Archives of profile folders are read as the folders that they hold."""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest

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
        assert (
            not file.is_file()
            or f"{tempfile.gettempdir()}/xlahouse-".encode() not in file.read_bytes()
        )


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


def test_a_damaged_archive_costs_itself_alone(tmp_path):
    raw = (CASE / "p.tar.gz").read_bytes()
    (tmp_path / "bad.tar.gz").write_bytes(raw[: len(raw) // 2])
    (tmp_path / "bad.zip").write_bytes(b"no archive")
    with pytest.raises(IngestError, match="damaged") as refused:
        ingest_paths(
            [str(tmp_path / "bad.tar.gz"), str(tmp_path / "bad.zip"), str(CASE / "p.tar.gz")],
            str(tmp_path / "w"),
        )
    assert len(refused.value.problems) == 2
    assert len(refused.value.results) == 1


@pytest.mark.parametrize("damage", ["header", "cut at a member", "cut in a header"])
def test_a_tar_that_ends_before_its_end_is_damaged(damage, tmp_path):
    """tarfile gives the members before the damage, and says nothing."""
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        for name in ("a", "b"):
            info = tarfile.TarInfo(f"{name}.xplane.pb")
            archive.addfile(info)
    raw = bytearray(path.read_bytes())
    second = tarfile.BLOCKSIZE
    assert raw[second : second + 1] == b"b"
    if damage == "header":
        raw[second] ^= 1
    else:
        del raw[second if damage == "cut at a member" else second + 100 :]
    path.write_bytes(raw)
    with tarfile.open(path) as archive:
        assert archive.getnames() == ["a.xplane.pb"]
    with pytest.raises(
        IngestError, match=r"a\.tar: this archive is damaged.*no file and no end at byte 512"
    ):
        ingest_paths([str(path)], str(tmp_path / "w"))


def test_what_zipfile_does_not_foresee_costs_the_archive(tmp_path):
    """A name that is flagged as UTF-8 and is not: zipfile raises UnicodeDecodeError."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("é.xplane.pb", b"")
    path.write_bytes(path.read_bytes().replace("é".encode(), b"\xff\xff"))
    with pytest.raises(UnicodeDecodeError), zipfile.ZipFile(path):
        pass
    with pytest.raises(IngestError, match=r"a\.zip: this archive is damaged"):
        ingest_paths([str(path)], str(tmp_path / "w"))
