"""The HBM part of what ops move, from the profiler's own breakdown."""

from __future__ import annotations

import polars as pl
import pytest

from tests.ingest.traces import op_rows
from tests.samples import sample
from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.xplane.memory_access import hbm_bytes
from xlahouse.ingest.xplane.read import read_xplane


def breakdown(*parts: tuple[int, int]) -> bytes:
    message = message_class("MemoryAccessBreakdown")()
    for space, size in parts:
        message.memory_accessed.add(memory_space=space, bytes_accessed=size)
    return bytes(message.SerializeToString())


@pytest.mark.parametrize(
    ("blob", "expected"),
    [
        (breakdown((1, 100), (1, 28)), 128.0),  # read and written
        (breakdown((1, 100), (3, 64)), 100.0),  # the rest on the chip
        (b"", 0.0),
        (b"\x0a\x7f\x08", None),  # cut off
        (None, None),
    ],
)
def test_hbm_part(blob: bytes | None, expected: float | None) -> None:
    blobs = pl.DataFrame(
        {"owner": [7], "memory_access_breakdown": [blob]},
        schema={"owner": pl.Int64, "memory_access_breakdown": pl.Binary},
    )
    assert hbm_bytes(blobs).rows() == [(7, expected)]


def test_v6e_ops_that_end_in_host_memory_read_hbm_and_write_none() -> None:
    path = sample("tpu/v6e_4dev_jax_psum_offload.xplane.pb")
    ops = op_rows(read_xplane(path.read_bytes(), str(path)))
    found = dict(ops.select("op", "hbm_bytes").drop_nulls().unique().rows())
    whole = 5 * 1024 * 1024 * 256 * 4  # of f32[5,1024,1024,256]
    assert found["copy-start.1"] == whole  # from HBM to S(5)
    assert found["copy-done.1"] == 0
    assert found["copy-start.4"] == 0  # from S(5) to HBM
    assert found["copy-done.4"] == whole
    assert found["broadcast.2"] == whole  # writes only
    assert found["broadcast_add_fusion"] == 2 * whole
