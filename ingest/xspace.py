"""Decodes an XSpace, one plane at a time, into columns."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from xlahouse.capture.errors import TraceFormatError
from xlahouse.ingest.proto import arrow_decoder
from xlahouse.ingest.wire import ABSOLUTE_NS, SpaceBytes

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
        rows = self.frame.lazy().filter(pl.col("name") == name)
        return (
            rows.select("owner", value.alias(name)).unique("owner", keep="first").sort("owner")
        ).collect()

    def as_json(self, owners: pl.Series) -> pl.DataFrame:
        """(owner, args): all stats of each of these owners as a JSON object."""
        number = pl.coalesce(
            pl.col("double_value").cast(pl.String),
            pl.col("uint64_value").cast(pl.String),
            pl.col("int64_value").cast(pl.String),
        )
        words = pl.coalesce(
            pl.col("ref_text"), text(pl.col("str_value")), pl.col("bytes_value").bin.encode("hex")
        )
        value = pl.coalesce(_finite(number), json_string(words), pl.lit('""'))
        pair = pl.concat_str(json_string(pl.col("name").cast(pl.String)), pl.lit(":"), value)
        wanted = self.frame.join(owners.alias("owner").to_frame(), on="owner", how="semi")
        pairs = wanted.select("owner", pair=pair).group_by("owner", maintain_order=True)
        joined = pl.col("pair").list.join(",")
        return pairs.agg("pair").select(
            "owner", args=pl.concat_str(pl.lit("{"), joined, pl.lit("}"))
        )


def _cast(column: str, dtype: Any) -> pl.Expr:
    if dtype == pl.UInt64 and column == "int64_value":
        return pl.col(column).reinterpret(signed=False)
    return pl.col(column).cast(dtype, strict=False)


def _finite(number: pl.Expr) -> pl.Expr:
    """JSON has no word for inf and nan: they become strings."""
    odd = number.is_in(["inf", "-inf", "NaN"])
    return pl.when(odd).then(pl.concat_str(pl.lit('"'), number, pl.lit('"'))).otherwise(number)


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


@dataclass(frozen=True)
class Plane:
    """A decoded plane. Times are picoseconds since the profile's start.

    lines: line (position), name. events: event (row number in file order), line, metadata_id,
    start_ps, duration_ps. metadata: metadata_id, name, display_name.
    """

    name: str
    lines: pl.DataFrame
    events: pl.DataFrame
    metadata: pl.DataFrame
    event_stats: Stats
    metadata_stats: Stats
    plane_stats: Stats

    @cached_property
    def named_events(self) -> pl.DataFrame:
        """Events with their line's name as `thread`, and their own `name` and `display_name`."""
        return self.events.join(
            self.lines.select("line", thread="name"), on="line", how="left", maintain_order="left"
        ).join(self.metadata, on="metadata_id", how="left", maintain_order="left")

    def stat(self, name: str) -> Any:
        """A stat of the plane itself, as Python value; None where it is absent."""
        rows = self.plane_stats.frame.filter(pl.col("name") == name)
        if rows.is_empty():
            return None
        row = rows.row(0, named=True)
        values = (row["ref_text"], *(row[value] for value in VALUES[:5]))
        return next((value for value in values if value is not None), None)


def decode_planes(
    space: SpaceBytes, path: str, start_ns: int = 0
) -> Iterator[Plane | TraceFormatError]:
    """Decode planes one by one; a damaged plane comes as the error that says so.

    Args:
        space: the file.
        path: its name, for errors.
        start_ns: the profile's start, UNIX ns; lines whose times are UNIX time are counted from it.
    """
    for payload in space.planes:
        try:
            with _quiet_stderr():
                batch = arrow_decoder("XPlane").list_to_record_batch([bytes(payload)])
            plane = _plane(pl.DataFrame(pl.from_arrow(batch)), start_ns)
        except BaseException as error:
            # The decoder panics on some damage; a panic is no Exception, so that it is not swallowed
            # by accident. Here it means the same as an error.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            yield TraceFormatError(path, f"a plane is damaged and left out: {error}")
            continue
        yield plane


@contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Keep what native code prints on its way to a panic from the user's terminal."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)


def _plane(row: pl.DataFrame, start_ns: int) -> Plane:
    names = (
        row.select(pl.col("stat_metadata").explode().struct.unnest())
        .select(stat_id="key", name=text(pl.col("value").struct.field("name")))
        .unique("stat_id", keep="last")
    )
    metadata = (
        row.select(pl.col("event_metadata").explode().struct.unnest())
        .drop_nulls("key")
        .select("key", pl.col("value").struct.unnest())
        .unique("key", keep="last", maintain_order=True)
    )
    raw_lines = row.select(pl.col("lines").explode().struct.unnest()).drop_nulls("id")
    lines = raw_lines.with_row_index("line")
    line_names = (
        pl.when(pl.col("display_name").bin.size() > 0).then("display_name").otherwise("name")
    )
    events = (
        lines.select("line", "timestamp_ns", pl.col("events"))
        .explode("events")
        .drop_nulls("events")
        .unnest("events")
        .with_row_index("event")
    )
    return Plane(
        name=row["name"][0].decode("utf-8", "replace"),
        lines=lines.select("line", name=text(line_names)),
        events=events.select(
            "event",
            "line",
            "metadata_id",
            start_ps=_relative(pl.col("timestamp_ns"), start_ns) * 1000 + pl.col("offset_ps"),
            duration_ps="duration_ps",
        ),
        metadata=metadata.select(
            metadata_id="key", name=text(pl.col("name")), display_name=text(pl.col("display_name"))
        ),
        event_stats=_stats(events.select(owner="event", stats="stats"), names),
        metadata_stats=_stats(metadata.select(owner="key", stats="stats"), names),
        plane_stats=_stats(row.select(owner=pl.lit(0), stats="stats"), names),
    )


def _relative(timestamp_ns: pl.Expr, start_ns: int) -> pl.Expr:
    """A line's time since the profile's start; NULL where no number can hold it in ps."""
    absolute = timestamp_ns >= ABSOLUTE_NS
    since = pl.when(absolute).then(timestamp_ns - start_ns).otherwise(timestamp_ns)
    return pl.when(since.is_between(-ABSOLUTE_NS, ABSOLUTE_NS)).then(since)


def _stats(owners: pl.DataFrame, names: pl.DataFrame) -> Stats:
    """Stats in long form. Names are few, so they are categorical and comparisons run on codes."""
    texts = names.with_columns(pl.col("name").cast(pl.Categorical))
    frame = (
        owners.explode("stats")
        .drop_nulls("stats")
        .unnest("stats")
        .join(texts, left_on="metadata_id", right_on="stat_id", how="left", maintain_order="left")
        .join(
            names.select(ref_value=pl.col("stat_id").cast(pl.UInt64), ref_text="name"),
            on="ref_value",
            how="left",
            maintain_order="left",
        )
    )
    return Stats(frame)
