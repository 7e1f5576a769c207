"""Transfers of keys and values between servers that prefill and servers that decode."""

from __future__ import annotations

import polars as pl

from xlahouse.ingest.serving.names import AWAIT_PULL, PULL

_KINDS = {PULL: "pull", AWAIT_PULL: "await_pull"}


def transfer_rows(found: pl.DataFrame, requests: pl.DataFrame) -> pl.DataFrame:
    """The kv_transfers table without run_id.

    Args:
        found: frames.KV_TRANSFERS.
        requests: step_requests, which number the requests of the run's steps.
    """
    if found.is_empty():
        return found
    numbers = requests.select("request_id", "request").unique("request_id", maintain_order=True)
    return (
        found.with_columns(kind=pl.col("name").replace_strict(_KINDS, return_dtype=pl.String))
        .join(numbers, on="request_id", how="left", maintain_order="left")
        .select(
            "host",
            "thread",
            "kind",
            "request",
            "request_id",
            "uuid",
            "bytes",
            "dimensions",
            "source",
            "start_ps",
            "duration_ps",
        )
    )
