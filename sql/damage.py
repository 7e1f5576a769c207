"""Finds the damaged files of a warehouse, one by one, after reading all at once has failed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from xlahouse.capture.errors import (
    DamagedFileError,
    LowMemoryError,
    WarehouseError,
    lacks_memory,
    one_line,
)
from xlahouse.ingest.events.files import open_fs, read_parquet
from xlahouse.ingest.schema import BY_NAME, INGEST_VERSION
from xlahouse.ingest.store.run_index import row_path
from xlahouse.sql.blame import engine_errors
from xlahouse.sql.listing import Listing, run_of
from xlahouse.sql.types import quote

if TYPE_CHECKING:
    import duckdb
    from fsspec import AbstractFileSystem

    from xlahouse.sql.warehouse import Warehouse

# Kinds of DuckDB's errors that a query can cause by itself; that of a damaged file often has no kind.
_OF_QUERIES = re.compile(
    r"(?:Binder|Catalog|Conversion|Invalid Input|Not implemented|Out of Memory|Out of Range|Parser) Error"
)
# A query's own fault as a rule, or that of a file whose column has another type.
_OF_TYPES = re.compile(
    r"Conversion Error|Binder Error: (?:No function matches|Cannot (?:compare|mix))"
)


def damaged_file(
    error: Exception, files: Iterable[str], connection: duckdb.DuckDBPyConnection
) -> str | None:
    """The file of tables for which a query failed; None where the query is at fault.

    Args:
        error: DuckDB's, or Arrow's, which has only its text.
        files: of the tables that the query reads.
        connection: to read each file by itself, where the error names none.
    """
    text = str(error)
    named = next((file for file in files if file in text), None)
    if named is None and _OF_TYPES.match(text):
        return _of_another_type(files, connection)
    if (
        named is not None
        or _OF_QUERIES.match(text)
        or not isinstance(error, (*engine_errors(), OSError))
    ):
        return named
    for file in files:
        try:
            reading = f"select max(hash(t)) from read_parquet({quote(file)}) as t"
            connection.execute(reading).fetchall()
        except engine_errors() as found:
            return None if lacks_memory(found) else file
    return None


def _of_another_type(files: Iterable[str], connection: duckdb.DuckDBPyConnection) -> str | None:
    """The first file that has a column of another type than its table, as only damage gives it."""
    listed = ", ".join(map(quote, files))
    sql = f"select file_name, name, type from parquet_schema([{listed}]) where type is not null"
    try:
        found = connection.execute(sql).fetchall() if listed else []
    except engine_errors():
        return None
    for file, name, kind in found:
        table = BY_NAME.get(file.split("/")[-3])
        place = table.schema.get_field_index(name) if table else -1
        expected = _stored(table.schema.field(place).type) if table and place >= 0 else None
        if expected is not None and kind != expected:
            return str(file)
    return None


def _stored(kind: pa.DataType) -> str | None:
    """Parquet's type of a column of that type; None where it has several."""
    if pa.types.is_int64(kind) or pa.types.is_timestamp(kind):
        return "INT64"
    if pa.types.is_string(kind):
        return "BYTE_ARRAY"
    return {pa.float64(): "DOUBLE", pa.bool_(): "BOOLEAN"}.get(kind)


def without_run(
    listing: Listing, damage: DamagedFileError, asked: Collection[str] | None
) -> Listing:
    """The other runs, where a file of one is damaged; the last line of `damaged` is about it.

    Args:
        listing: all runs.
        damage: of a file.
        asked: the runs that a query is about; None: any.

    Raises:
        DamagedFileError: the query is about this run, or there is no other.
    """
    run_id, names = run_of(damage.file), listing.names
    if run_id not in names or len(names) == 1 or (asked is not None and run_id in asked):
        raise damage
    line = (
        f"{damage.file} is damaged ({damage.reason}): its run {names[run_id] or run_id} is left out; "
        "ingest the run again"
    )
    return listing.without(run_id, line)


def changed_files(warehouse: Warehouse) -> list[str]:
    """A line for each file of a run that is gone or damaged, or has other rows than its ingest wrote.

    Raises:
        WarehouseError: the warehouse cannot be read.
    """
    from xlahouse.ingest.store.store import Store

    store = Store(warehouse.root)
    listed = "select coalesce(name, run_id) as run, files, file_crcs from runs order by run, run_id"
    return [
        f"{row['run']}: {path} is not as it was written: {fault}; ingest the run again"
        for row in warehouse.query(listed).dicts()
        for path, fault in store.faults_of(row)
    ]


def damaged_rows(root: str, run_ids: Iterable[str]) -> dict[str, str]:
    """run_id -> the line on its damaged row, for rows that cannot be used."""
    system, path = open_fs(root)
    schema = BY_NAME["runs"].schema
    found = {}
    for run_id in run_ids:
        try:
            _check_row(system, f"{path.rstrip('/')}/{row_path(run_id)}", run_id, schema)
        except FileNotFoundError:
            continue  # dropped this moment: gone, not damaged
        except WarehouseError as error:
            found[run_id] = str(error)
    return found


def _check_row(system: AbstractFileSystem, name: str, run_id: str, schema: pa.Schema) -> None:
    """Refuse a file that is not one run's row of the schema's types; older rows may lack columns.

    Raises:
        WarehouseError: states the fault.
    """
    try:
        row = read_parquet(system, name)
    except FileNotFoundError:
        raise
    except Exception as error:  # of Parquet, or of the object store
        if lacks_memory(error):
            raise LowMemoryError from error
        raise _damaged(name, one_line(error)) from error
    version = _version(row)
    if version > INGEST_VERSION and not _fits(row, schema):
        raise WarehouseError(
            f"{name} was written by a newer xlahouse (ingest version {version}; this one reads "
            f"{INGEST_VERSION}): its run is left out; update xlahouse"
        )
    for field in schema:
        if field.name not in row.column_names:
            continue
        kind = (
            row.schema.field(field.name).type if row.column_names.count(field.name) == 1 else None
        )
        if kind is None or not kind.equals(field.type):
            raise _damaged(name, f"{field.name} is {kind or 'there twice'}, not {field.type}")
    if row.num_rows != 1 or "run_id" not in row.column_names or row["run_id"][0].as_py() != run_id:
        raise _damaged(name, "it is not the row of this one run")
    files = row["files"][0].as_py() if "files" in row.column_names else None
    for file in files or ():
        if not str(file["path"]).startswith("tables/") or ".." in file["path"].split("/"):
            raise _damaged(name, f"it lists {file['path']}, which is not of this warehouse")


def _version(row: pa.Table) -> int:
    """The version of the ingest that wrote a row; 0 where it is not stated."""
    if row.column_names.count("ingest_version") != 1 or row.num_rows != 1:
        return 0
    found = row["ingest_version"][0].as_py()
    return found if isinstance(found, int) else 0


def _fits(row: pa.Table, schema: pa.Schema) -> bool:
    """Whether the columns that a row shares with the schema have its types."""
    kinds = dict(zip(row.schema.names, row.schema.types, strict=True))
    return all(kinds.get(field.name, field.type).equals(field.type) for field in schema)


def _damaged(name: str, reason: str) -> WarehouseError:
    return WarehouseError(
        f"{name} is damaged ({reason}): its run is left out; remove the file and ingest the run again"
    )
