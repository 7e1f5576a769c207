"""The floor of an ingest on these libraries: start, hash and decode a trace, and write its rows.

`python -m tests.bench.floor TRACE ROWS` does only that, with a thread per core: every line of every plane
goes through the protobuf decoder once, and the rows of a finished ingest, which `save_rows` stored as
Arrow, are written as Parquet again. Nothing is looked up, joined, nested or sorted.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

from xlahouse.ingest.process import prepare_process


def save_rows(warehouse: Path, folder: Path) -> None:
    """Store the rows of every file of a warehouse as Arrow, texts as dictionaries."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from xlahouse.ingest.tables.pieces import ROW_GROUP

    for number, path in enumerate(sorted((warehouse / "tables").rglob("run_id=*/*.parquet"))):
        with pq.ParquetFile(path) as file:
            schema = file.schema_arrow
        texts = [field.name for field in schema if pa.types.is_string(field.type)]
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            rows = file.read().unify_dictionaries()
        with pa.ipc.new_file(folder / f"{number}.arrow", rows.schema) as sink:
            sink.write_table(rows, max_chunksize=ROW_GROUP)


def work(trace: Path, rows: Path, out: Path) -> None:
    """Hash and decode a trace, and write the rows that `save_rows` stored."""
    import xlahouse.ingest.run  # what the command line loads for an ingest
    import xlahouse.sql.cli.app  # noqa: F401
    from xlahouse.ingest.xplane.wire import split_space

    with trace.open("rb") as file:
        raw = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    tasks = [
        partial(hashlib.sha256, raw),
        *(partial(_decode, plane) for plane in split_space(raw, str(trace)).planes),
        *(partial(_write, path, out) for path in sorted(rows.iterdir())),
    ]
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for done in [pool.submit(task) for task in tasks]:
            done.result()


def _decode(plane: memoryview) -> None:
    from xlahouse.ingest.xplane.decode import decode
    from xlahouse.ingest.xplane.wire import split_plane

    lines, _ = split_plane(plane)
    if lines:
        decode("XLineCore", lines)


def _write(rows: Path, out: Path) -> None:
    import pyarrow as pa

    from xlahouse.ingest.events.files import open_fs
    from xlahouse.ingest.store import parquet_sink

    fs, folder = open_fs(str(out))
    with pa.memory_map(str(rows)) as source, pa.ipc.open_file(source) as file:
        sink = parquet_sink.open_sink(fs, f"{folder}/{rows.stem}.parquet")
        with sink, parquet_sink.open_writer(sink, file.schema) as writer:
            for number in range(file.num_record_batches):
                piece = pa.table(file.get_batch(number))
                writer.write_table(piece, row_group_size=parquet_sink.ROW_GROUP)


def main() -> None:
    prepare_process()
    out = Path(mkdtemp())
    try:
        work(Path(sys.argv[1]), Path(sys.argv[2]), out)
    finally:
        shutil.rmtree(out)


if __name__ == "__main__":
    main()
