"""Stats in columns: what profilers attach to planes, events and kinds of events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

VALUES = ("double_value", "uint64_value", "int64_value", "str_value", "bytes_value", "ref_value")


@dataclass(frozen=True)
class Stats:
    """XStats of many owners in long form: owner, name, and one value column of VALUES that is set."""

    frame: pl.DataFrame

    def numbers(self, name: str, dtype: Any = pl.Int64) -> pl.DataFrame:
        """(owner, name) of a numeric stat; where it repeats on an owner, the first."""
        return self._column(name, pl.coalesce(*(_cast(v, dtype) for v in VALUES[:3])))

    def texts(self, name: str) -> pl.DataFrame:
        """(owner, name) of a stat that holds text, itself or by reference."""
        return self._column(name, pl.coalesce(pl.col("ref_text"), text(pl.col("str_value"))))

    def blobs(self, name: str) -> pl.DataFrame:
        """(owner, name) of a stat that holds bytes, under whichever of both types."""
        return self._column(name, pl.coalesce("bytes_value", "str_value"))

    def _column(self, name: str, value: pl.Expr) -> pl.DataFrame:
        rows = self.frame.filter(pl.col("name") == name).select("owner", value.alias(name))
        owners = rows["owner"]
        if rows.height < 2 or (owners.null_count() == 0 and owners.diff().min() > 0):  # type: ignore[operator]
            return rows  # each once and in order, as profilers write them
        return rows.unique("owner", keep="first").sort("owner")

    def as_json(self, owners: pl.Series) -> pl.DataFrame:
        """(owner, args): all stats of each of these owners as a JSON object."""
        wanted = self.frame.filter(pl.col("owner").is_in(owners.implode()))
        names = wanted.select("name").unique()
        keys = names.with_columns(
            key=pl.concat_str(json_string(pl.col("name").cast(pl.String)), pl.lit(":"))
        )
        pairs = wanted.join(
            keys, on="name", how="left", nulls_equal=True, maintain_order="left"
        ).select("owner", pair=pl.concat_str("key", value_json()))
        return _joined(pairs)


def _joined(pairs: pl.DataFrame) -> pl.DataFrame:
    """(owner, pair) with the pairs of an owner in a row -> (owner, args)."""
    runs = pairs["owner"].rle().struct.unnest()
    ends = runs["len"].cast(pl.Int64).cum_sum()
    offsets = pa.array(pl.concat([pl.Series([0], dtype=pl.Int64), ends]).to_numpy())
    values = pairs["pair"].to_arrow(compat_level=pl.CompatLevel.oldest())  # offsets, no views
    lists = pa.LargeListArray.from_arrays(offsets, values)
    rows = pl.DataFrame(pl.from_arrow(pa.RecordBatch.from_arrays([lists], ["pair"])))
    args = pl.concat_str(pl.lit("{"), pl.col("pair").list.join(","), pl.lit("}"))
    return rows.select(owner=runs["value"], args=args)


def stats_of(owners: pl.DataFrame, names: pl.DataFrame) -> Stats:
    """Stats in long form.

    Args:
        owners: owner, stats (list of XStat).
        names: stat_id, name.
    """
    return named_stats(owners.explode("stats").drop_nulls("stats").unnest("stats"), names)


def named_stats(rows: pl.DataFrame, names: pl.DataFrame) -> Stats:
    """Stats by name. Names are few, so they are categorical and comparisons run on codes.

    Args:
        rows: owner, and the fields of XStat.
        names: stat_id, name.
    """
    texts = names.with_columns(pl.col("name").cast(pl.Categorical))
    frame = rows.join(
        texts, left_on="metadata_id", right_on="stat_id", how="left", maintain_order="left"
    ).join(
        names.select(ref_value=pl.col("stat_id").cast(pl.UInt64), ref_text="name"),
        on="ref_value",
        how="left",
        maintain_order="left",
    )
    return Stats(frame)


def _cast(column: str, dtype: Any) -> pl.Expr:
    if dtype == pl.UInt64 and column == "int64_value":
        return pl.col(column).reinterpret(signed=False)
    return pl.col(column).cast(dtype, strict=False)


def value_json() -> pl.Expr:
    """The value of a stat in long form as JSON."""
    words = pl.coalesce(
        pl.col("ref_text"), text(pl.col("str_value")), pl.col("bytes_value").bin.encode("hex")
    )
    return pl.coalesce(
        finite_json(pl.col("double_value")),
        pl.col("uint64_value").cast(pl.String),
        pl.col("int64_value").cast(pl.String),
        json_string(words),
        pl.lit('""'),
    )


def finite_json(number: pl.Expr) -> pl.Expr:
    """JSON has no word for inf and nan: they become strings."""
    written = number.cast(pl.String)
    quoted = pl.concat_str(pl.lit('"'), written, pl.lit('"'))
    return pl.when(number.is_finite()).then(written).otherwise(quoted)


def json_string(words: pl.Expr) -> pl.Expr:
    """Text -> a JSON string literal; control characters become spaces."""
    escaped = words.str.replace_all("\\", "\\\\", literal=True).str.replace_all(
        '"', '\\"', literal=True
    )
    return pl.concat_str(
        pl.lit('"'), escaped.str.replace_all(r"[\x00-\x1f]", " "), pl.lit('"'), ignore_nulls=False
    )


def text(column: pl.Expr) -> pl.Expr:
    """Bytes -> text; the rare invalid UTF-8 is replaced instead of lost."""
    return column.map_batches(_decode_series, return_dtype=pl.String)


def _decode_series(raw: pl.Series) -> pl.Series:
    try:
        return raw.cast(pl.String)
    except pl.exceptions.ComputeError:
        return raw.map_elements(
            lambda value: bytes(value).decode("utf-8", "replace"), return_dtype=pl.String
        )
