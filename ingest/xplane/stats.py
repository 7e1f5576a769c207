"""Stats in columns: the facts that profilers attach to planes, events and kinds of events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from xlahouse.ingest.events.frames import ColumnTypes, Dtype, empty, same
from xlahouse.ingest.events.spans import starts_of_runs

StatValue: TypeAlias = float | int | str | bytes | None
VALUES = ("double_value", "uint64_value", "int64_value", "str_value", "bytes_value", "ref_value")
# Columns of stats in long form.
STATS: ColumnTypes = {
    "metadata_id": pl.Int64,
    **dict(
        zip(VALUES, (pl.Float64, pl.UInt64, pl.Int64, pl.Binary, pl.Binary, pl.UInt64), strict=True)
    ),
    "owner": pl.Int64,
}


@dataclass(frozen=True)
class Stats:
    """XStats of many owners in long form.

    A plane's stats are few and read by many names, so a lookup uses columns alone:
    a query over frames takes a hundred times as long to start.
    """

    rows: pl.DataFrame  # owner, metadata_id, and the VALUES, one of which is set
    names: pl.DataFrame  # stat_id, name

    def numbers(self, name: str, dtype: Dtype = pl.Int64) -> pl.DataFrame:
        """(owner, name) of a numeric stat; where it repeats on an owner, the first."""
        if name not in self._ids:
            return self._none(name, dtype)
        chosen = self._chosen(name)
        values = (_cast(self.rows[value].filter(chosen), dtype) for value in VALUES[:3])
        return self._column(name, chosen, _first_set(values))

    def texts(self, name: str) -> pl.DataFrame:
        """(owner, name) of a stat that holds text, itself or by reference."""
        if name not in self._ids:
            return self._none(name, pl.String)
        chosen = self._chosen(name)
        words = as_text(self.rows["str_value"].filter(chosen))
        return self._column(name, chosen, _first_set(iter((self._referred(chosen), words))))

    def blobs(self, name: str) -> pl.DataFrame:
        """(owner, name) of a stat that holds bytes, of either type."""
        if name not in self._ids:
            return self._none(name, pl.Binary)
        chosen = self._chosen(name)
        values = (self.rows[value].filter(chosen) for value in ("bytes_value", "str_value"))
        return self._column(name, chosen, _first_set(values))

    def value(self, name: str) -> StatValue:
        """The first value of a stat, as a Python value; None without such a stat."""
        if name not in self._ids:
            return None
        chosen = self._chosen(name)
        if not chosen.any():
            return None
        values = (self.rows[value].filter(chosen) for value in VALUES[:5])
        first = (values[0] for values in (self._referred(chosen), *values))
        found: StatValue = next((value for value in first if value is not None), None)
        return found

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The rows, with each stat's `name`, and `ref_text`, the text of a reference."""
        names = self.names.with_columns(pl.col("name").cast(pl.Categorical))
        return self._with_ref_text(
            self.rows.join(
                names, left_on="metadata_id", right_on="stat_id", how="left", maintain_order="left"
            )
        )

    def _with_ref_text(self, rows: pl.DataFrame) -> pl.DataFrame:
        if rows["ref_value"].null_count() == rows.height:
            return rows.with_columns(ref_text=pl.lit(None, pl.String))
        return rows.join(self._referable, on="ref_value", how="left", maintain_order="left")

    @cached_property
    def _ids(self) -> dict[str | None, list[int]]:
        """The ids of each name."""
        ids: dict[str | None, list[int]] = {}
        for stat_id, name in self.names.iter_rows():
            ids.setdefault(name, []).append(stat_id)
        return ids

    @property
    def _referable(self) -> pl.DataFrame:
        same_bits = pl.col("stat_id").reinterpret(signed=False)  # damage may have negative ids
        return self.names.select(ref_value=same_bits, ref_text="name")

    def _none(self, name: str, dtype: Dtype) -> pl.DataFrame:
        """(owner, name) of a stat that no owner has."""
        return empty({"owner": pl.Int64, name: dtype})

    def _chosen(self, name: str) -> pl.Series:
        """Which rows are stats of this name."""
        found = self.rows["metadata_id"]
        masks = [found == stat_id for stat_id in self._ids.get(name, ())]
        return reduce(or_, masks) if masks else pl.Series(np.zeros(len(found), np.bool_))

    def _referred(self, chosen: pl.Series) -> pl.Series:
        """The texts that these rows refer to."""
        references = self.rows["ref_value"].filter(chosen)
        if references.null_count() == len(references):
            return references.cast(pl.String)
        return pl.DataFrame([references]).join(
            self._referable, on="ref_value", how="left", maintain_order="left"
        )["ref_text"]

    def _column(self, name: str, chosen: pl.Series, values: pl.Series) -> pl.DataFrame:
        rows = pl.DataFrame([self.rows["owner"].filter(chosen), values.alias(name)])
        owner = rows["owner"].to_numpy()
        if (np.diff(owner) > 0).all():
            return rows  # each once and in order, as profilers write events
        order = np.argsort(owner, kind="stable")
        return rows[order.take(starts_of_runs(owner.take(order)))]

    def as_json(self, owners: pl.Series) -> pl.DataFrame:
        """(owner, args): all stats of each of these owners as a JSON object."""
        if owners.is_empty():
            return empty({"owner": pl.Int64, "args": pl.String})
        mine = np.isin(self.rows["owner"].to_numpy(), owners.to_numpy())
        rows = self.rows if mine.all() else self.rows[np.flatnonzero(mine)]
        keys = self.names.select(
            "stat_id", key=pl.concat_str(json_string(pl.col("name")), pl.lit(":"))
        )
        named = rows.join(
            keys, left_on="metadata_id", right_on="stat_id", how="left", maintain_order="left"
        )
        pairs = self._with_ref_text(named).select("owner", pair=pl.concat_str("key", value_json()))
        return _joined(pairs)


def of_owners(stat: pl.DataFrame, owners: NDArray[np.int64]) -> pl.Series:
    """A stat of each of these owners, NULL where it has none. stat: owners, ascending, and the stat."""
    own, values = stat.to_series(0).to_numpy(), stat.to_series(1)
    if not len(own):
        return same(values.name, None, values.dtype, len(owners))
    at = np.minimum(np.searchsorted(own, owners), len(own) - 1)
    places, has = pl.Series(at.astype(np.uint32)), own[at] == owners
    if not has.all():
        places = places.zip_with(pl.Series(has), same("", None, pl.UInt32, len(owners)))
    return values[places]


def _joined(pairs: pl.DataFrame) -> pl.DataFrame:
    """(owner, pair) with the pairs of an owner in a row -> (owner, args)."""
    owner = pairs["owner"].to_numpy()
    first = starts_of_runs(owner)
    offsets = pa.array(np.append(first, len(owner)))
    values = pairs["pair"].to_arrow(compat_level=pl.CompatLevel.oldest())  # offsets, no views
    lists = pa.LargeListArray.from_arrays(offsets, values)
    rows = pl.DataFrame(pl.from_arrow(pa.RecordBatch.from_arrays([lists], ["pair"])))
    args = pl.concat_str(pl.lit("{"), pl.col("pair").list.join(","), pl.lit("}"))
    return rows.select(owner=pl.Series(owner[first]), args=args)


def stats_of(owners: NDArray[np.int64], stats: pa.ListArray, names: pl.DataFrame) -> Stats:
    """Stats in long form.

    Args:
        owners: of the stats.
        stats: of each owner, its XStats.
        names: stat_id, name.
    """
    if not len(stats.values):
        return Stats(empty(STATS), names)
    rows = pl.DataFrame(pl.from_arrow(pa.RecordBatch.from_struct_array(stats.values)))
    owner = np.repeat(owners, np.diff(stats.offsets.to_numpy()))
    return Stats(rows.hstack([pl.Series("owner", owner)]), names)


def _first_set(columns: Iterator[pl.Series]) -> pl.Series:
    """The first value that is set of each row, as `pl.coalesce` gives, without a query."""
    first = next(columns)
    while first.null_count() and (column := next(columns, None)) is not None:
        if first.null_count() == len(first):
            first = column
        elif column.null_count() < len(column):
            first = first.zip_with(first.is_not_null(), column)
    return first


def _cast(values: pl.Series, dtype: Dtype) -> pl.Series:
    if dtype == pl.UInt64 and values.dtype == pl.Int64:
        return with_sign(values, False)
    return values.cast(dtype, strict=False)


def with_sign(numbers: pl.Series, signed: bool) -> pl.Series:
    """The same 64 bits as signed or unsigned numbers; a query only where a number changes."""
    limit = numbers.max() if signed else numbers.min()
    changed = isinstance(limit, int) and (limit >= 1 << 63 if signed else limit < 0)
    if changed:
        return numbers.reinterpret(signed=signed)
    return numbers.cast(pl.Int64 if signed else pl.UInt64)


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
    return column.map_batches(as_text, return_dtype=pl.String)


def as_text(raw: pl.Series) -> pl.Series:
    """Bytes -> text; the rare invalid UTF-8 is replaced instead of lost."""
    try:
        return raw.cast(pl.String)
    except pl.exceptions.ComputeError:
        return raw.map_elements(
            lambda value: bytes(value).decode("utf-8", "replace"), return_dtype=pl.String
        )
