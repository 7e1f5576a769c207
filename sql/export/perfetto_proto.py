"""The parts of Perfetto's trace format that an export writes, and frames of events as its bytes.

Field numbers: google/perfetto, protos/perfetto/trace (trace.proto, trace_packet.proto,
track_event/*.proto, interned_data/interned_data.proto).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Protocol

import polars as pl

from xlahouse.ingest.events.protobuf import Messages

if TYPE_CHECKING:
    import pyarrow as pa

SEQUENCE = 1  # everything is written as by one producer
CLEARED, NEEDED = 1, 2  # SEQ_INCREMENTAL_STATE_CLEARED, SEQ_NEEDS_INCREMENTAL_STATE
BEGIN, END, COUNTER = 1, 2, 4  # TrackEvent.Type
EXPLICIT = 3  # TrackDescriptor.ChildTracksOrdering

PERFETTO = Messages(
    {
        "InternedName": """
        1 iid uint64
        2 name bytes
    """,
        "InternedData": """
        1 event_categories InternedName*
        2 event_names InternedName*
        3 debug_annotation_names InternedName*
        29 debug_annotation_string_values InternedName*
    """,
        "Process": """
        1 pid int32
        6 process_name bytes
    """,
        "Counter": "6 unit_name bytes",
        "Track": """
        1 uuid uint64
        2 name bytes
        3 process Process
        5 parent_uuid uint64
        8 counter Counter
        11 child_ordering int32
        12 sibling_order_rank int32
    """,
        "Annotation": """
        1 name_iid uint64
        4 int_value int64?
        17 string_value_iid uint64?
    """,
        "Event": """
        3 category_iids uint64*
        4 debug_annotations Annotation*
        9 type int32
        10 name_iid uint64
        11 track_uuid uint64
        44 double_counter_value double?
        47 flow_ids fixed64*
    """,
        "Packet": """
        8 timestamp uint64
        10 trusted_packet_sequence_id uint32
        11 track_event Event
        12 interned_data InternedData
        13 sequence_flags uint32
        60 track_descriptor Track
    """,
        "EventPacket": """
        8 timestamp uint64
        10 trusted_packet_sequence_id uint32
        11 track_event Event
        13 sequence_flags uint32
    """,
        "Trace": "1 packet Packet*",
        "Events": "1 packet EventPacket*",
    },
    "xlahouse.perfetto",
)


ANNOTATIONS = pl.List(
    pl.Struct({"name_iid": pl.UInt64, "int_value": pl.Int64, "string_value_iid": pl.UInt64})
)
_UNSET: dict[str, pl.Expr] = {
    "category_iids": pl.lit([], pl.List(pl.UInt64)),
    "debug_annotations": pl.lit([], ANNOTATIONS),
    "name_iid": pl.lit(0, pl.UInt64),
    "double_counter_value": pl.lit(None, pl.Float64),
    "flow_ids": pl.lit([], pl.List(pl.UInt64)),
}


def event(kind: int, track_uuid: pl.Expr, **fields: pl.Expr) -> pl.Expr:
    """The struct of an event of a track; other fields of `Event` are unset."""
    values = _UNSET | {"type": pl.lit(kind, pl.Int32), "track_uuid": track_uuid} | fields
    return pl.struct(value.alias(name) for name, value in values.items())


def packet(**fields: object) -> bytes:
    """A trace of one packet; a file of such one after the other is a trace too."""
    made = PERFETTO.message("Packet")(trusted_packet_sequence_id=SEQUENCE, **fields)
    encoded: bytes = PERFETTO.message("Trace")(packet=[made]).SerializeToString()
    return encoded


def event_bytes(events: pl.DataFrame) -> bytes:
    """A trace of events in the order of the rows.

    Args:
        events: timestamp (ns, UInt64) and track_event, a struct with the fields of `Event`.
    """
    fields = pl.struct(
        "timestamp",
        pl.lit(SEQUENCE, pl.UInt32).alias("trusted_packet_sequence_id"),
        "track_event",
        pl.lit(NEEDED, pl.UInt32).alias("sequence_flags"),
    )
    packets = events.select(packet=fields).select(pl.col("packet").implode())
    batch = packets.to_arrow().combine_chunks().to_batches()[0]
    data: bytes = _encoder().record_batch_to_array(batch)[0].as_py()
    return data


class _Encoder(Protocol):
    def record_batch_to_array(self, batch: pa.RecordBatch) -> pa.Array: ...


@cache
def _encoder() -> _Encoder:
    encoder: _Encoder = PERFETTO.columns("Events")
    return encoder
