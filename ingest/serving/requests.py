"""The requests of each step of a server, and how many tokens each has there."""

from __future__ import annotations

import polars as pl


def requests_of_steps(marks: pl.DataFrame, steps: pl.DataFrame, own: pl.DataFrame) -> pl.DataFrame:
    """step, position, engine, request, request_id, tokens, prompt_tokens, is_first, is_last, may_skip.

    A request's tokens are stated; or are one where a step has as many tokens as requests; or all of the
    step's where it is alone. Its prompt's part is stated; or it is all tokens of the step in which the
    trace sees it begin, and of the steps after it until one has one token, unless the server is seen to
    give several tokens to requests that were past their prompt. Everything else is NULL.
    In the first step of the trace, requests begin whose own marker is seen to open before.

    Args:
        marks: one marker of each step, with `step`, `engine` and `process`.
        steps: step, engine, requests, tokens, start_ps, by step.
        own: from own_markers.
    """
    named = _named(marks)
    steps = _with_counts(steps, named)
    of_step = steps.select(
        *("step", "requests", "tokens", "start_ps", "named", "nth"),
        *("cut_before", "cut", "last_cut", "last"),
    )
    key = ["engine", "request"]
    rows = (
        named.join(of_step.rename({"tokens": "all_tokens"}), on="step", maintain_order="left")
        .join(own, on=["process", "request_id"], how="left", maintain_order="left")
        .sort("engine", "request", "step")
        .with_columns(
            previous=pl.col("cut_before").shift(1).over(key) + pl.col("cut").shift(1).over(key),
            turn=pl.int_range(pl.len()).over(key),
            turns=pl.len().over(key),
        )
    )
    alone = (pl.col("requests") == 1) & (pl.col("named") == 1)
    rows = rows.with_columns(
        tokens=pl.when(pl.col("id_tokens").is_not_null())
        .then("id_tokens")
        .when(pl.col("all_tokens") == pl.col("requests"))
        .then(1)
        .when(alone)
        .then("all_tokens"),
        is_first=pl.when(pl.col("turn") > 0)
        .then(False)
        .when(
            (pl.col("cut_before") == 0)
            & ((pl.col("nth") > 0) | (pl.col("came_ps") <= pl.col("start_ps")))
        )
        .then(True),
        is_last=pl.when(pl.col("turn") < pl.col("turns") - 1)
        .then(False)
        .when(
            (pl.col("step") < pl.col("last")) & (pl.col("last_cut").fill_null(-1) <= pl.col("step"))
        )
        .then(True),
        may_skip=(pl.col("turn") > 0) & (pl.col("cut_before") > pl.col("previous")),
    )
    rows = rows.with_columns(prompt_tokens=_prompt_tokens(rows))
    names = ("step", "position", "engine", "request", "request_id", "tokens", "prompt_tokens")
    return rows.sort("step", "position").select(*names, "is_first", "is_last", "may_skip")


def own_markers(markers: pl.DataFrame) -> pl.DataFrame:
    """process, request_id, came_ps: when the first marker of each request opens.

    Args:
        markers: frames.MARKERS with `process`.
    """
    return (
        markers.filter((pl.col("phase") == "request") & pl.col("request").is_not_null())
        .group_by("process", request_id=pl.col("request").cast(pl.String))
        .agg(came_ps=pl.col("start_ps").min())
    )


def _named(marks: pl.DataFrame) -> pl.DataFrame:
    """step, engine, process, position, request_id, request, id_tokens, id_prompt_tokens: an id of a step
    once."""
    lists = ["ids", "id_tokens", "id_prompt_tokens"]
    told = marks.drop_nulls("ids").filter(pl.col("ids").list.len() > 0)
    rows = (
        told.select("step", "engine", "process", *lists)
        .explode(lists)
        .rename({"ids": "request_id"})
        .with_columns(position=pl.int_range(pl.len()).over("step"))
        .sort("step", "position")
        .unique(["step", "request_id"], keep="first", maintain_order=True)
    )
    whole = rows["request_id"].str.contains(r"^(0|[1-9][0-9]{0,14})$").all()
    if whole:
        return rows.with_columns(request=pl.col("request_id").cast(pl.Int64))
    numbers = rows.select("request_id").unique(maintain_order=True).with_row_index("request")
    return rows.join(
        numbers.with_columns(pl.col("request").cast(pl.Int64)),
        on="request_id",
        maintain_order="left",
    )


def _with_counts(steps: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """Steps with how many requests are named, their place in the engine's, and steps that lack ids."""
    counts = named.group_by("step").agg(named=pl.len().cast(pl.Int64))
    found = steps.join(counts, on="step", how="left", maintain_order="left").with_columns(
        pl.col("named").fill_null(0)
    )
    cut = (pl.col("named") < pl.col("requests")).cast(pl.Int64)
    found = found.with_columns(cut=cut, nth=pl.int_range(pl.len()).over("engine"))
    return found.with_columns(
        cut_before=pl.col("cut").cum_sum().over("engine") - pl.col("cut"),
        last_cut=pl.col("step").filter(pl.col("cut") == 1).max().over("engine"),
        last=pl.col("step").max().over("engine"),
    )


def _prompt_tokens(rows: pl.DataFrame) -> pl.Series:
    """Tokens of the prompt among each row's. rows: by engine, request and step."""
    key = ["engine", "request"]
    known = pl.col("id_prompt_tokens").is_not_null()
    one = (pl.col("tokens") == 1) & ~pl.col("is_first").fill_null(True)
    began = pl.col("is_first").fill_null(False).cast(pl.Int64).cum_max().over(key) == 1
    # its prompt was complete in the step before this one
    past = one.fill_null(False).cast(pl.Int64).cum_max().shift(1).over(key).fill_null(0) == 1
    unknown = (
        pl.col("tokens").is_null().cast(pl.Int64).cum_max().shift(1).over(key).fill_null(0) == 1
    )
    several = rows.select(
        "engine", wide=past & (pl.col("all_tokens") > pl.col("requests")), past=past, step="step"
    )
    speculating = (
        several.with_columns(all_past=pl.col("past").all().over("step"))
        .filter(pl.col("wide") & pl.col("all_past"))["engine"]
        .unique()
    )
    certain = (
        began & ~pl.col("engine").is_in(speculating.implode()) & ~unknown & ~pl.col("may_skip")
    )
    return rows.select(
        pl.when(known)
        .then("id_prompt_tokens")
        .when(pl.col("is_first"))
        .then("tokens")
        .when(one)
        .then(0)
        .when(certain & ~past)
        .then("tokens")
    ).to_series()
