"""Ops of the TPU sample against what xprof 2.24.2 (hlo_stats) says of it: a difference is explained."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest

from tests.ingest.traces import rows
from tests.samples import sample
from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.xplane.wire import split_space

TRACE = "tpu/v6e_4dev_jax_psum_offload.xplane.pb"
# op -> (occurrences, total_self_time in us): columns of xprof 2.24.2's hlo_stats of TRACE.
XPROF = {
    "all-reduce": (12, 1460345.25875),
    "broadcast.2": (1, 4443.76625),
    "broadcast_add_fusion": (400, 3190582.365),
    "broadcast_add_fusion.1": (400, 3262107.41375),
    "copy-done": (400, 75671038.51375),
    "copy-done.3": (400, 1.1475),
    "copy-start.4": (400, 2.4),
}


@pytest.fixture(scope="module")
def traced():
    """Per op, the sums of duration_ps and of device_duration_ps, by walking protobuf objects."""
    durations, on_device = Counter(), Counter()
    for payload in split_space(sample(TRACE).read_bytes(), TRACE).planes:
        plane = message_class("XPlane").FromString(bytes(payload))
        if not plane.name.startswith(b"/device:TPU"):
            continue
        stats = {entry.key: entry.value.name for entry in plane.stat_metadata}
        names = {entry.key: entry.value.name.decode() for entry in plane.event_metadata}
        for line in plane.lines:
            for event in line.events if line.name == b"XLA Ops" else ():
                op = names[event.metadata_id].split(" ", 1)[0].removeprefix("%")
                durations[op] += event.duration_ps
                for stat in event.stats:
                    if stats[stat.metadata_id] == b"device_duration_ps":
                        on_device[op] += stat.uint64_value or stat.int64_value
    return durations, on_device


def test_counts_are_xprofs_and_times_differ_by_the_clock_alone(sample_warehouse, traced):
    """xprof sums device_duration_ps, the device's own clock; ours is duration_ps (no op nests here)."""
    durations, on_device = traced
    ops = rows(sample_warehouse(TRACE), "ops").filter(pl.col("line") == "XLA Ops")
    found = ops.group_by("op").agg(count=pl.len(), self_ps=pl.col("self_ps").sum())
    ours = {op: (count, self_ps) for op, count, self_ps in found.rows()}
    assert len(ours) == 17  # as many rows as xprof's table has
    for op, (count, self_us) in XPROF.items():
        assert ours[op] == (count, durations[op])
        assert on_device[op] / 1e6 == pytest.approx(self_us, rel=1e-9)
