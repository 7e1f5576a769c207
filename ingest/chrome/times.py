"""Times of a Chrome trace: from microseconds as decimal text to whole picoseconds, without rounding.

A UNIX time in picoseconds does not fit 64 bits, so a time is two numbers: whole microseconds, and the
picoseconds that are left.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

import polars as pl

PS = 1_000_000  # in a microsecond
# Below this many microseconds a double's own spacing, and the product's, are under half a picosecond.
EXACT_US = 2.0**31
_LARGEST = 17  # digits of whole microseconds that fit 64 bits with room for a difference


def from_doubles(times: pl.Series) -> pl.DataFrame:
    """us, ps of microseconds below EXACT_US as doubles; NULL stays NULL."""
    frame = times.alias("t").to_frame().with_columns(t=(pl.col("t") * PS).round())
    whole = pl.col("t").cast(pl.Int64, strict=False)
    return frame.select(us=whole // PS, ps=whole % PS)


def from_whole(times: pl.Series) -> pl.DataFrame:
    """us, ps of whole microseconds; NULL stays NULL."""
    return times.alias("us").to_frame().with_columns(ps=pl.col("us") * 0)


def from_text(times: pl.Series) -> pl.DataFrame:
    """us, ps of microseconds as decimal text, in quotes or not; NULL where it is not a finite number."""
    plain = times.alias("t").to_frame().with_columns(pl.col("t").str.strip_chars('" '))
    split = plain.with_columns(pl.col("t").str.split_exact(".", 1).alias("parts"))
    whole, rest = (pl.col("parts").struct.field(f"field_{number}") for number in (0, 1))
    digits = pl.concat_str(rest.fill_null(""), pl.lit("0000000")).str.slice(0, 7)
    is_plain = pl.col("t").str.contains(rf"^-?[0-9]{{1,{_LARGEST}}}(?:\.[0-9]*)?$")
    sign = pl.when(pl.col("t").str.starts_with("-")).then(-1).otherwise(1)
    seventh = digits.cast(pl.Int64, strict=False)
    parsed = split.select(
        "t",
        us=pl.when(is_plain).then(whole.cast(pl.Int64, strict=False)),
        ps=pl.when(is_plain).then(sign * ((seventh + 5) // 10)),  # the seventh digit rounds
    )
    odd = parsed.filter(pl.col("us").is_null() & pl.col("t").is_not_null())["t"].unique()
    if odd.is_empty():
        return parsed.select("us", "ps")
    rows = [(text, *_parse(text)) for text in odd]
    schema = {"t": pl.String, "odd_us": pl.Int64, "odd_ps": pl.Int64}
    known = pl.DataFrame(rows, schema=schema, orient="row")
    joined = parsed.join(known, on="t", how="left", maintain_order="left")
    return joined.select(us=pl.coalesce("us", "odd_us"), ps=pl.coalesce("ps", "odd_ps"))


def _parse(text: str) -> tuple[int | None, int | None]:
    """(us, ps) of a decimal with an exponent; (None, None) of text that is not a number or too large."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None, None
    if not number.is_finite() or (number and number.adjusted() >= _LARGEST):
        return None, None
    if number.adjusted() < -_LARGEST:
        return 0, 0
    return divmod(round(number * PS), PS)
