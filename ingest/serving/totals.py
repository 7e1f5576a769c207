"""What all steps of a request add up to, once, so that latencies need no pass over step_requests."""

from __future__ import annotations

import polars as pl

_REQUEST = "request"


def totals(named: pl.DataFrame) -> pl.DataFrame:
    """The served_requests table without run_id.

    Args:
        named: from requests_of_steps.
    """
    rows = named.sort("request", "step").with_columns(_after_prompt())
    prompt = pl.col("prompt_tokens")
    tokens = pl.col("tokens")
    later = pl.int_range(pl.len()).over(_REQUEST) > 0
    decode = later & (prompt == 0).fill_null(False)
    unclear = ~pl.col("after") & (prompt.is_null() | pl.col("may_skip"))
    single = (prompt == 0).fill_null(False) | (tokens == 1).fill_null(False)
    unknown = tokens.is_null() | ((tokens > 1) & prompt.is_null())
    step = pl.col("step")
    found = rows.group_by(_REQUEST, maintain_order=True).agg(
        pl.col("request_id").first(),
        first_step=step.first(),
        last_step=step.last(),
        steps=pl.len().cast(pl.Int64),
        is_begun=pl.col("is_first").fill_null(False).any(),
        is_ended=pl.col("is_last").fill_null(False).any(),
        lacks_tokens=tokens.is_null().any(),
        may_skip=pl.col("may_skip").any(),
        prompt_step=step.filter(~pl.col("after") & (prompt > 0)).max(),
        prompt_end=(tokens.filter(~pl.col("after") & (prompt > 0))).last(),
        seen_decode=pl.col("after").any(),
        unclear=unclear.any() | (pl.col("first_after") & pl.col("may_skip")).any(),
        decode_steps=decode.sum().cast(pl.Int64),
        decode_tokens=tokens.filter(decode).sum(),
        other_steps=(later & ~decode).sum().cast(pl.Int64),
        single_tokens=tokens.filter(single).sum(),
        unknown=unknown.any(),
    )
    complete = (
        (pl.col("seen_decode") | pl.col("is_ended")) & pl.col("is_begun") & ~pl.col("unclear")
    )
    found = found.with_columns(token_step=pl.when(complete).then("prompt_step"))
    has_first = pl.col("token_step").is_not_null()
    first = (has_first & (pl.col("prompt_end") > 1)).fill_null(False).cast(pl.Int64)
    told = ~pl.col("unknown") & ~pl.col("may_skip") & (has_first | pl.col("prompt_step").is_null())
    times = ~pl.col("lacks_tokens") & ~pl.col("may_skip")
    whole = has_first | (~pl.col("is_begun") & (pl.col("other_steps") == 0))
    return found.with_columns(
        output_tokens=pl.when(told).then(pl.col("single_tokens") + first),
        decode_tokens=pl.when(times & whole).then("decode_tokens"),
    ).drop("prompt_step", "prompt_end", "unclear", "other_steps", "single_tokens", "unknown")


def _after_prompt() -> list[pl.Expr]:
    """after: from the first step on that has no token of the prompt; first_after: that step."""
    none = (pl.col("prompt_tokens") == 0).fill_null(False).cast(pl.Int64).cum_sum().over(_REQUEST)
    first = (none == 1) & (pl.col("prompt_tokens") == 0).fill_null(False)
    return [(none > 0).alias("after"), first.alias("first_after")]
