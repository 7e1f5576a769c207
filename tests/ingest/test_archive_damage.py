"""Damage in an archive costs a member where the archive can be read beyond it, else the archive."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.ingest.traces import tpu_trace
from xlahouse.ingest.run import IngestError, ingest_paths
from xlahouse.sql.warehouse import Warehouse

CASE = Path(__file__).parents[1] / "cases" / "foreign" / "zipped_profile"


def rows(folder, sql):
    with Warehouse(str(folder)) as warehouse:
        return warehouse.query(sql).rows


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


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize(
    ("names", "costs"),
    [
        (("a", "a/h.xplane.pb", "h.xplane.pb"), "a/h.xplane.pb"),
        (("a/h.xplane.pb", "a", "h.xplane.pb"), "a"),
        ((f"{'long' * 99}.xplane.pb", "h.xplane.pb"), f"{'long' * 99}.xplane.pb"),
    ],
    ids=["folder of a file's name", "file of a folder's name", "long name"],
)
def test_a_member_that_cannot_be_written_costs_itself(kind, names, costs, tmp_path):
    path = tmp_path / f"p.{kind}"
    with tarfile.open(path, "w") if kind == "tar" else zipfile.ZipFile(path, "w") as archive:
        for number, name in enumerate(names):
            raw = tpu_trace().replace(b"jit_f", b"jit_%d" % number)
            if kind == "zip":
                archive.writestr(name, raw)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(raw)
                archive.addfile(info, io.BytesIO(raw))
    with pytest.raises(IngestError) as refused:
        ingest_paths([str(path)], str(tmp_path / "w"))
    (problem,) = refused.value.problems
    assert problem.startswith(f"{path}/{costs}: the ")
    assert problem.endswith("; it is left out")
    traces = [name for name in names if name.endswith(".pb") and name != costs]
    sources = rows(tmp_path / "w", "select distinct source from coverage order by 1")
    assert sources == [(f"{path}/{name}",) for name in traces]


def test_a_damaged_member_of_a_zip_costs_itself(tmp_path):
    path = tmp_path / "p.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(3):
            archive.writestr(
                f"h{number}.xplane.pb", tpu_trace().replace(b"jit_f", b"jit_%d" % number)
            )
    path.write_bytes(path.read_bytes().replace(b"jit_1", b"jit_7", 1))  # its sum is wrong now
    with pytest.raises(IngestError) as refused:
        ingest_paths([str(path)], str(tmp_path / "w"))
    (problem,) = refused.value.problems
    assert problem.startswith(f"{path}/h1.xplane.pb: damaged: Bad CRC-32")
    assert sorted(result.name for result in refused.value.results) == ["h0", "h2"]


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
