"""Decoding an xplane to columns, beside walking its protobuf objects in Python."""

from __future__ import annotations

from tests.bench.registry import Benchmark, register
from tests.samples import SAMPLES
from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.xplane.wire import split_space
from xlahouse.ingest.xplane.xspace import decode_planes

SAMPLE = SAMPLES / "tpu/v6e_4dev_jax_psum_offload.xplane.pb"


def read_sample() -> object:
    return SAMPLE.read_bytes() if SAMPLE.is_file() else f"no sample trace at {SAMPLE}"


def columns(raw: bytes) -> int:
    return sum(plane.named_events.height for plane in decode_planes(split_space(raw, "f"), "f"))


def objects(raw: bytes) -> int:
    rows = []
    for payload in split_space(raw, "f").planes:
        plane = message_class("XPlane").FromString(bytes(payload))
        names = {entry.key: entry.value.name for entry in plane.event_metadata}
        stats = {entry.key: entry.value.name for entry in plane.stat_metadata}
        for line in plane.lines:
            for event in line.events:
                found = {stats[s.metadata_id]: s.int64_value for s in event.stats}
                start = line.timestamp_ns * 1000 + event.offset_ps
                rows.append((names[event.metadata_id], start, event.duration_ps, found))
    return len(rows)


register(
    Benchmark(
        "decode xplane",
        read_sample,
        columns,
        {"protobuf objects": objects},
        quick=True,
        same=frozenset({"protobuf objects"}),
    )
)
