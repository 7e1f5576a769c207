"""The types of a warehouse's tables, as DuckDB and Spark name them."""

from __future__ import annotations

from typing import Any, TypeAlias

# A value of an answer: its query decides the type, so the one Any of a row is named here.
Value: TypeAlias = Any
Row: TypeAlias = tuple[Value, ...]
NamedRow: TypeAlias = dict[str, Value]  # by the names of the answer's columns

# The types of ingest/schema.py.
DUCKDB_TYPES = {
    "str": "varchar",
    "bool": "boolean",
    "int": "bigint",
    "uint": "ubigint",
    "float": "double",
    "time": "timestamptz",
    "ints": "bigint[]",
    "mesh": "struct(axis varchar, size bigint)[]",
    "source_files": "struct(path varchar, bytes bigint, sha256 varchar)[]",
    "files": 'struct("table" varchar, path varchar, rows bigint)[]',
}

# Spark has no unsigned 64-bit integer: it reads program_id as a decimal of 20 digits, which holds
# each of them.
SPARK_TYPES = {
    "str": "string",
    "bool": "boolean",
    "int": "bigint",
    "uint": "decimal(20,0)",
    "float": "double",
    "time": "timestamp",
    "ints": "array<bigint>",
    "mesh": "array<struct<axis: string, size: bigint>>",
    "source_files": "array<struct<path: string, bytes: bigint, sha256: string>>",
    "files": "array<struct<`table`: string, path: string, rows: bigint>>",
}


def quote(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


def quote_name(name: str) -> str:
    """A column's name as SQL writes it, whatever it is made of."""
    return '"' + name.replace('"', '""') + '"'
