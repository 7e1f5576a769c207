"""Keeps the rows of many runs in one file, so that a warehouse of thousands opens by reading one.

The runs' own rows are authoritative: an entry of the index holds only while the row's file has the
stamp (size, and time or tag of its last change) that it had when the index was written.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import fsspec
    import pyarrow as pa

    from xlahouse.ingest.table import FileEntry

INDEX = "index/runs.parquet"
PACK = "index/pack.json"  # describes the files that hold the rows of many small runs (packs.py)
STAMP = "row_stamp"
# Fewer new rows than this are as fast to read one by one, so the index is not rewritten for each run.
LEAST_NEW, LEAST_NEW_SHARE = 32, 0.1
TAGS = ("ETag", "etag", "md5Hash", "LastModified", "last_modified", "updated", "mtime", "created")


def stamped_rows(root: str) -> dict[str, str | None]:
    """run_id -> stamp of its row's file, None where the store reports nothing that changes with it."""
    if "://" in root:
        from xlahouse.ingest.events.files import open_fs

        system, path = open_fs(root)
        folder = f"{path.rstrip('/')}/tables/runs"
        system.invalidate_cache()
        found = system.ls(folder, detail=True) if system.isdir(folder) else []
        named = {str(info["name"]).rpartition("/")[2]: _stamp(info) for info in found}
    else:
        folder = f"{root}/tables/runs"
        named = {}
        if os.path.isdir(folder):
            for entry in os.scandir(folder):
                facts = entry.stat()
                named[entry.name] = f"{facts.st_size}-{facts.st_mtime_ns}"
    return {run_id: named[f"{run_id}.parquet"] for run_id in present_runs(named)}


def row_path(run_id: str) -> str:
    """Where a run's row is, relative to the warehouse."""
    return f"tables/runs/{run_id}.parquet"


def dropped_path(run_id: str) -> str:
    """The file that marks a run as dropped, relative to the warehouse."""
    return f"tables/runs/{run_id}.dropped"


def present_runs(names: Collection[str]) -> list[str]:
    """Ids of the runs that were not dropped, sorted, from the names of the files in tables/runs."""
    rows = sorted(name.removesuffix(".parquet") for name in names if name.endswith(".parquet"))
    return [run_id for run_id in rows if f"{run_id}.dropped" not in names]


def _stamp(info: dict[str, object]) -> str | None:
    tag = next((info[name] for name in TAGS if info.get(name)), None)
    return None if tag is None else f"{info.get('size')}-{tag}"


def write_index(root: str, always: bool = False) -> int:
    """Rewrite the index where it lacks many runs; the number of runs that it then holds.

    With `always` it is written where it lacks any run, or holds one that was dropped.
    Rows that cannot be read are left out; opening the warehouse reports them.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from xlahouse.ingest.events.files import open_fs, write_whole

    system, path = open_fs(root)
    base = path.rstrip("/")
    stamps = stamped_rows(root)
    indexed = _stamps_in(_read_index(system, f"{base}/{INDEX}", ["run_id", STAMP]))
    kept = {run_id for run_id, stamp in indexed.items() if stamp == stamps.get(run_id)}
    new = [run_id for run_id, stamp in stamps.items() if stamp is not None and run_id not in kept]
    few = 1 if always else max(LEAST_NEW, LEAST_NEW_SHARE * len(kept))
    if len(new) < few and not (always and len(kept) < len(indexed)):
        return len(kept)
    rows = [] if not kept else _rows_of(_read_index(system, f"{base}/{INDEX}"), stamps)
    for run_id in new:
        row = _read_row(system, f"{base}/{row_path(run_id)}", run_id)
        if row is not None:
            rows.append(row.append_column(STAMP, pa.array([stamps[run_id]])))
    if not rows:
        if system.exists(f"{base}/{INDEX}"):
            system.rm_file(f"{base}/{INDEX}")
        return 0
    table = pa.concat_tables(rows).combine_chunks().sort_by("run_id")
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    write_whole(system, f"{base}/{INDEX}", sink.getvalue().to_pybytes())
    return int(table.num_rows)


def _stamps_in(index: pa.Table | None) -> dict[str, str]:
    """run_id -> stamp of its row in the index."""
    if index is None:
        return {}
    return dict(zip(index["run_id"].to_pylist(), index[STAMP].to_pylist(), strict=True))


def _rows_of(index: pa.Table | None, stamps: dict[str, str | None]) -> list[pa.Table]:
    """The rows of the index that are current."""
    import pyarrow as pa

    current = [stamps.get(run_id) == stamp for run_id, stamp in _stamps_in(index).items()]
    return [] if index is None else [index.filter(pa.array(current, pa.bool_()))]


def names_of_runs(root: str) -> set[str]:
    """Names of the runs of a warehouse; runs whose row is damaged are left out."""
    from xlahouse.ingest.events.files import open_fs

    system, base = open_fs(root)
    stamps = stamped_rows(root)
    index = _read_index(system, f"{base}/{INDEX}", ["run_id", STAMP, "name"]) if stamps else None
    indexed = [] if index is None else index["name"].to_pylist()
    known = {
        run_id: name
        for (run_id, stamp), name in zip(_stamps_in(index).items(), indexed, strict=True)
        if stamp == stamps.get(run_id)
    }
    rows = (
        _read_row(system, f"{base}/{row_path(run_id)}", run_id)
        for run_id in stamps
        if run_id not in known
    )
    return {*known.values(), *(row["name"][0].as_py() for row in rows if row is not None)}


def indexed_files(
    system: fsspec.AbstractFileSystem, base: str
) -> list[tuple[str, str, int | None, list[FileEntry]]]:
    """(run_id, stamp of its row, ingest_version, files) of the runs in the index."""
    columns = ["run_id", STAMP, "ingest_version", "files"]
    found = _read_index(system, f"{base}/{INDEX}", columns)
    if found is None:
        return []
    return list(zip(*(found[name].to_pylist() for name in columns), strict=True))


def _read_index(
    system: fsspec.AbstractFileSystem, path: str, columns: list[str] | None = None
) -> pa.Table | None:
    """Columns of the index, None: all; None where it is missing, damaged or has other columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from xlahouse.ingest.events.files import open_native
    from xlahouse.ingest.schema import BY_NAME

    try:
        with open_native(system, path) as opened:
            file = pq.ParquetFile(opened)
            if file.schema_arrow.names != [*BY_NAME["runs"].schema.names, STAMP]:
                return None
            return file.read(columns)
    except (OSError, pa.ArrowException):
        return None


def _read_row(system: fsspec.AbstractFileSystem, path: str, run_id: str) -> pa.Table | None:
    """The one row of a run with the schema's columns; None where it is damaged."""
    import pyarrow as pa

    from xlahouse.ingest.events.files import read_parquet
    from xlahouse.ingest.schema import BY_NAME

    schema = BY_NAME["runs"].schema
    try:
        row = read_parquet(system, path)
        if row.schema.equals(schema):  # as mostly, and quicker than column by column
            return row if row["run_id"].to_pylist() == [run_id] else None
        names = set(row.column_names)
        present = [field for field in schema if field.name in names]
        if any(row.schema.field(field.name).type != field.type for field in present):
            return None
        if row["run_id"].to_pylist() != [run_id]:
            return None
    except (OSError, pa.ArrowException, KeyError, ValueError):
        return None
    for field in schema:
        if field not in present:
            row = row.append_column(field, pa.nulls(1, field.type))
    return row.select(schema.names)
