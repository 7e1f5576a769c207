"""Traces and warehouses on object stores: a local S3 server stands for them all, and memory:// besides."""

from __future__ import annotations

import logging

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.command import run_command
from tests.ingest.traces import tpu_trace, write
from tests.layers import first_few
from tests.object_store import s3_bucket
from xlahouse.capture.errors import WarehouseError, XlahouseError
from xlahouse.ingest.events.files import open_fs
from xlahouse.ingest.run import IngestError, ingest_paths
from xlahouse.sql import Warehouse

SQL = "select kind, payload_bytes from collectives"


@pytest.fixture(scope="module")
def s3():
    """The URL of an empty bucket on a server of this process."""
    with s3_bucket() as url:
        yield url


@pytest.fixture(params=first_few(["memory", "s3"], 1))
def place(request):
    """The URL of an empty folder."""
    if request.param == "s3":
        return f"{request.getfixturevalue('s3')}/{request.node.name.partition('[')[0]}"
    return f"memory://{request.node.name.partition('[')[0]}"


def put(url, raw):
    with fsspec.open(url, "wb") as file:
        file.write(raw)
    return url


def test_ingest_from_and_to_a_store_and_query_there(place):
    for number in (0, 1):
        session = f"{place}/log/plugins/profile/s"
        put(f"{session}/host{number}.xplane.pb", tpu_trace(number))
    (result,) = ingest_paths([f"{place}/log"], f"{place}/wh")
    assert (result.status, result.rows["collectives"]) == ("complete", 2)
    with Warehouse(f"{place}/wh") as opened:
        assert opened.query(SQL).rows == [("all-reduce", 1024)] * 2
    assert ingest_paths([f"{place}/log"], f"{place}/wh")[0].unchanged


def test_one_file_of_a_store(place):
    path = put(f"{place}/a.xplane.pb", tpu_trace())
    (result,) = ingest_paths([path], f"{place}/wh", name="one")
    assert (result.name, result.rows["ops"]) == ("one", 1)


def test_from_a_store_to_a_folder_and_back(place, tmp_path):
    put(f"{place}/in/a.xplane.pb", tpu_trace())
    ingest_paths([f"{place}/in"], str(tmp_path / "wh"))
    local = tmp_path / "b.xplane.pb"
    local.write_bytes(tpu_trace(1))
    ingest_paths([str(local)], f"{place}/wh")
    for root in (str(tmp_path / "wh"), f"{place}/wh"):
        with Warehouse(root) as opened:
            assert opened.query(SQL).rows == [("all-reduce", 1024)]


def test_a_run_is_there_when_its_row_is(place):
    """Nothing is renamed on a store: what an ingest writes before the row is not a part of the warehouse."""
    put(f"{place}/in/a.xplane.pb", tpu_trace())
    ingest_paths([f"{place}/in"], f"{place}/wh")
    fs, base = open_fs(f"{place}/wh")
    rows_of_runs = fs.glob(f"{base}/tables/runs/*.parquet")
    assert len(rows_of_runs) == 1
    fs.rm(rows_of_runs[0])
    with Warehouse(f"{place}/wh") as opened:
        assert opened.query("select count(*) from ops").rows == [(0,)]
    assert not ingest_paths([f"{place}/in"], f"{place}/wh")[0].unchanged
    with Warehouse(f"{place}/wh") as opened:
        assert opened.query("select count(*) from ops").rows == [(1,)]


def test_hlo_dumps_of_a_store(place):
    from tests.ingest.hlo.test_hlo_dumps import TEXT

    put(f"{place}/in/a.xplane.pb", tpu_trace(hlo=False))
    put(f"{place}/dump/module_0001.jit_f.after_optimizations.txt", TEXT.encode())
    ingest_paths([f"{place}/in"], f"{place}/wh", hlo_dump=f"{place}/dump")
    with Warehouse(f"{place}/wh") as opened:
        assert opened.query("select group_size from collectives").rows == [(2,)]


def test_a_bucket_that_is_not_there_is_one_line(s3):
    with pytest.raises(IngestError) as caught:
        ingest_paths(["s3://no-such-bucket-here/x"], f"{s3}/never")
    assert len(caught.value.problems) == 1
    assert "s3://no-such-bucket-here/x" in str(caught.value)


def test_a_missing_package_is_named(monkeypatch):
    def missing(url):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec, "url_to_fs", missing)
    with pytest.raises(WarehouseError, match=r"pip install 'xlahouse\[s3\]'"):
        open_fs("s3://bucket/x")


class NoCredentials(Exception):
    """What a store's own package raises: neither ours nor Python's."""


class Locked(MemoryFileSystem):
    protocol = "locked"

    def refuse(self, *_, **__):
        logging.getLogger("gcsfs").error("a traceback of its own")
        raise NoCredentials("Unable to locate credentials\nsecond line")

    exists = isdir = isfile = find = ls = info = open = cat_file = pipe_file = makedirs = refuse


@pytest.fixture
def locked():
    fsspec.register_implementation("locked", Locked, clobber=True)
    return "locked://bucket/x"


@pytest.mark.parametrize(
    ("paths", "options", "named"),
    [
        (["locked://bucket/x"], {}, "locked://bucket/x"),
        (["a.xplane.pb"], {"card": "locked://bucket/card.yaml"}, "locked://bucket/card.yaml"),
        (["a.xplane.pb"], {"root": "locked://bucket/x"}, "locked://bucket/x"),
    ],
)
def test_what_a_store_raises_is_one_line(tmp_path, locked, capfd, paths, options, named):
    write(tmp_path / "a.xplane.pb", tpu_trace())
    paths = [path if "://" in path else str(tmp_path / path) for path in paths]
    root = options.pop("root", str(tmp_path / "wh"))
    with pytest.raises(XlahouseError) as error:
        ingest_paths(paths, root, **options)
    assert str(error.value) == (
        f"{named} cannot be reached: Unable to locate credentials; check that it exists, that the "
        "credentials for it are set, and that they grant access"
    )
    assert capfd.readouterr().err == ""
    assert not (tmp_path / "wh").exists()


def test_compact_and_drop_of_a_store_that_is_locked(locked, capsys, monkeypatch):
    for verb in (["drop", "abc", "--yes"], ["compact"]):
        assert run_command(monkeypatch, *verb, "-w", locked) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"xlahouse: {locked} cannot be")
