"""The parts of a Chakra execution trace that an export writes.

Field numbers: mlcommons/chakra, schema/protobuf/et_def.proto. A file is a GlobalMetadata and then
its nodes, each message with its length before it. Names of attributes: ASTRA-sim's workload layer.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import IO

import polars as pl

from xlahouse.ingest.events.protobuf import Messages

VERSION = "0.0.4"  # of the schema
COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7  # NodeType
# CollectiveCommType of our kinds of collective.
COMM_TYPES = {
    "all-reduce": 0,
    "all-gather": 2,
    "collective-broadcast": 5,
    "all-to-all": 6,
    "ragged-all-to-all": 6,
    "reduce-scatter": 7,
}

CHAKRA = Messages(
    {
        "Attribute": """
            1 name bytes
            7 int32_val int32?
            9 int64_val int64?
            13 uint64_val uint64?
            27 bool_val bool?
            29 string_val bytes?
        """,
        "Metadata": """
            1 version bytes
            2 attr Attribute*
        """,
        "Node": """
            1 id uint64
            2 name bytes
            3 type int32
            4 ctrl_deps uint64*
            5 data_deps uint64*
            6 start_time_micros uint64
            7 duration_micros uint64
            10 attr Attribute*
        """,
    },
    "xlahouse.chakra",
)
_VALUES = {
    "int32_val": pl.Int32,
    "int64_val": pl.Int64,
    "uint64_val": pl.UInt64,
    "bool_val": pl.Boolean,
    "string_val": pl.Binary,
}
ATTRIBUTES = pl.List(pl.Struct({"name": pl.Binary, **_VALUES}))


def attribute(name: str, field: str, value: pl.Expr) -> pl.Expr:
    """An attribute of a node with its value in one of the fields; NULL where the value is."""
    fields = [
        (value.cast(kind) if other == field else pl.lit(None, kind)).alias(other)
        for other, kind in _VALUES.items()
    ]
    made = pl.struct(pl.lit(name).cast(pl.Binary).alias("name"), *fields)
    return pl.when(value.is_not_null()).then(made)


def write_trace(file: IO[bytes], nodes: Iterable[pl.DataFrame], about: dict[str, str]) -> None:
    """Write a device's trace.

    Args:
        file: where to.
        nodes: frames whose columns are the fields of `Node`.
        about: attributes of the trace as a whole.
    """
    made = CHAKRA.message("Attribute")
    attributes = [made(name=k.encode(), string_val=v.encode()) for k, v in about.items()]
    metadata = CHAKRA.message("Metadata")(version=VERSION.encode(), attr=attributes)
    _write(file, metadata.SerializeToString())
    encoder = CHAKRA.columns("Node")
    for frame in nodes:
        for batch in frame.to_arrow().to_batches():
            for message in encoder.record_batch_to_array(batch):
                _write(file, message.as_py())


def _write(file: IO[bytes], message: bytes) -> None:
    length = len(message)
    prefix = bytearray()
    while length > 127:
        prefix.append(length & 127 | 128)
        length >>= 7
    prefix.append(length)
    file.write(bytes(prefix) + message)
