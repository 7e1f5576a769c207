"""Files are handed to Arrow in ways that a process survives."""

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xlahouse.ingest.events.files import open_native, read_parquet
from xlahouse.ingest.events.trace_bytes import AHEAD, SMALL_FILE, TraceFile, identify

TABLE = pa.table({"text": ["a", "b", None], "number": [1, 2, 3]})


@pytest.fixture(params=["local", "memory"])
def place(request, tmp_path):
    """(file system, path of a Parquet file)."""
    if request.param == "local":
        system, path = fsspec.filesystem("file"), str(tmp_path / "t.parquet")
    else:
        system, path = fsspec.filesystem("memory"), "/files/t.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(TABLE, sink)
    system.makedirs(path.rpartition("/")[0], exist_ok=True)
    system.pipe_file(path, sink.getvalue().to_pybytes())
    return system, path


def test_a_file_is_read(place):
    assert read_parquet(*place).equals(TABLE)


def test_arrow_never_holds_bytes_of_python(place):
    """Its threads release them in their own time, which aborts a process that is ending."""
    system, path = place
    before = pa.total_allocated_bytes()
    with open_native(system, path) as file:
        held = pa.total_allocated_bytes() - before
        assert isinstance(file, pa.OSFile) or held >= system.size(path)
        assert not isinstance(file, pa.PythonFile)


def test_a_missing_file_is_told_as_such(place):
    system, path = place
    with pytest.raises(FileNotFoundError):
        read_parquet(system, f"{path}.gone")


def test_small_pieces_of_a_large_file_are_its_bytes(tmp_path):
    """In any order, across the bytes that are read at once, and up to the file's end."""
    raw = bytes(range(256)) * (SMALL_FILE // 256 + 3)
    (tmp_path / "f").write_bytes(raw)
    file = TraceFile(identify(str(tmp_path / "f")), str(tmp_path / "f"))
    starts = (0, 5, AHEAD - 3, AHEAD, 2 * AHEAD + 7, 1, len(raw) - 9, len(raw))
    for start in starts:
        piece = bytearray(min(9, len(raw) - start))
        file.read_into(memoryview(piece), start)
        assert piece == raw[start : start + 9]
    file.check()
