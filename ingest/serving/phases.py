"""Which steps of a server are prefills, decodes, or both."""

from __future__ import annotations

import polars as pl

PROMPT_BOUNDS = ("least_prompt_tokens", "most_prompt_tokens")


def with_phase(steps: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Steps with `named` (how many of the requests), PROMPT_BOUNDS and `phase`: prefill, decode, mixed, or
    step where the trace does not tell.

    The name of a step decides; then the prompts' tokens, where those of all requests are known; then
    requests that are seen to begin in the step, and whether others go on; and a step with as many tokens
    as requests is a decode.

    Args:
        steps: step, kind, requests, tokens.
        named: from requests_of_steps.
    """
    prompt = pl.col("prompt_tokens")
    found = named.group_by("step").agg(
        named=pl.len().cast(pl.Int64),
        known=prompt.is_not_null().sum(),
        prompts=(prompt > 0).sum(),
        least_prompt_tokens=prompt.sum(),
        others=(pl.col("tokens") - prompt).sum(),
        begin=pl.col("is_first").fill_null(False).sum(),
        go_on=(~pl.col("is_first")).fill_null(False).sum(),
    )
    names = ("named", "known", "prompts", "begin", "go_on", "least_prompt_tokens", "others")
    counts = [pl.col(name).fill_null(0) for name in names]
    joined = steps.join(found, on="step", how="left", maintain_order="left").with_columns(counts)
    whole = pl.col("named") >= pl.col("requests")
    told = whole & (pl.col("known") == pl.col("named")) & (pl.col("named") > 0)
    return joined.with_columns(
        most_prompt_tokens=pl.col("tokens") - pl.col("others"),
        phase=pl.when(pl.col("kind").is_not_null())
        .then("kind")
        .when(told & (pl.col("prompts") == pl.col("named")))
        .then(pl.lit("prefill"))
        .when(told & (pl.col("prompts") == 0))
        .then(pl.lit("decode"))
        .when(told)
        .then(pl.lit("mixed"))
        .when(whole & (pl.col("begin") == pl.col("requests")) & (pl.col("begin") > 0))
        .then(pl.lit("prefill"))
        .when((pl.col("begin") > 0) & (pl.col("go_on") > 0))
        .then(pl.lit("mixed"))
        .when((pl.col("begin") == 0) & (pl.col("tokens") == pl.col("requests")))
        .then(pl.lit("decode"))
        .otherwise(pl.lit("step")),
    )
