"""Sums over columns as plain int and float: Polars types a sum as any kind of value."""

from __future__ import annotations

import polars as pl


def total(rows: pl.DataFrame, column: str) -> int:
    """Sum of a column of counts; 0 for no rows."""
    return int(rows[column].sum())


def known_total(rows: pl.DataFrame, column: str) -> float | None:
    """Sum of a column, or None where a part of it is NULL."""
    return None if rows[column].has_nulls() else float(rows[column].sum())


def greatest(rows: pl.DataFrame, column: str) -> float:
    """Greatest value of a column; 0 where none is known."""
    values = rows[column].drop_nulls().cast(pl.Float64).to_list()
    return max(values, default=0.0)
