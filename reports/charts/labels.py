"""Names that have to fit beside or above a bar."""

from __future__ import annotations

import polars as pl

NAME_ABOVE = 46  # characters above a bar, on a phone
NAME_BESIDE = 30  # characters beside a bar


def clipped(name: pl.Expr, most: int, end: int = 0) -> pl.Expr:
    """The name, or its start, an ellipsis and its last `end` characters: at most `most` in all."""
    start = name.str.head(most - 1 - end)
    parts = [start, pl.lit("…")]
    if end:  # no dots beside the ellipsis
        parts = [
            start.str.strip_chars_end("."),
            pl.lit("…"),
            name.str.tail(end).str.strip_chars_start("."),
        ]
    return pl.when(name.str.len_chars() > most).then(pl.concat_str(parts)).otherwise(name)


def clip(name: str, most: int) -> str:
    """The name, or its start and an ellipsis: `most` characters in all."""
    return name if len(name) <= most else f"{name[: most - 1]}…"
