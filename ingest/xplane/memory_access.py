"""Reads the memory_access_breakdown of ops: how many of an op's bytes are in HBM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import polars as pl
from google.protobuf.message import DecodeError

from xlahouse.ingest.events.proto import message_class

HBM = 1  # memory_space of MemoryAccessed (openxla/xla, op_metrics.proto); other spaces are on chip or host


class MemoryAccessed(Protocol):
    """Bytes that an op moves to or from one memory."""

    @property
    def memory_space(self) -> int:
        """Which memory."""

    @property
    def bytes_accessed(self) -> int:
        """Bytes read and written there."""


class MemoryAccessBreakdown(Protocol):
    """Stat `memory_access_breakdown` of an op's kind."""

    @property
    def memory_accessed(self) -> Sequence[MemoryAccessed]:
        """An entry for each memory."""


def hbm_bytes(blobs: pl.DataFrame) -> pl.DataFrame:
    """(owner, hbm_bytes) from (owner, memory_access_breakdown).

    An empty breakdown is 0 bytes; a damaged one is NULL.
    """
    found = [_of_blob(blob) for blob in blobs["memory_access_breakdown"]]
    return pl.DataFrame([blobs["owner"], pl.Series("hbm_bytes", found, pl.Float64)])


def _of_blob(blob: bytes | None) -> float | None:
    if blob is None:
        return None
    try:
        breakdown: MemoryAccessBreakdown = message_class("MemoryAccessBreakdown").FromString(blob)
    except DecodeError:
        return None
    parts = (part for part in breakdown.memory_accessed if part.memory_space == HBM)
    return float(sum(part.bytes_accessed for part in parts))
