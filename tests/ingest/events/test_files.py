"""Files are handed to Arrow in ways that a process survives."""

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from xlahouse.ingest.events.files import open_native, read_parquet

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
