"""Writes the stats of events as JSON objects: once for all events whose stats have the same names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.op_events import number_keys
from xlahouse.ingest.xplane.event_chunks import EventChunk, places_of
from xlahouse.ingest.xplane.stat_bytes import (
    BYTES,
    DOUBLE,
    MOST_IDS,
    NOTHING,
    ODD,
    REFERENCE,
    TEXT,
    UNSIGNED,
    VALUE_KINDS,
)
from xlahouse.ingest.xplane.stats import finite_json, json_string, value_json
from xlahouse.ingest.xplane.xspace import Plane

NO_TEXT = '""'


@dataclass(frozen=True)
class StatNames:
    """Names of a plane's stats."""

    ids: Integers  # ascending
    keys: list[str]  # `"name":` of each
    words: pl.Series  # the names as JSON strings; then the text for no name

    @classmethod
    def of(cls, plane: Plane) -> StatNames:
        """The names of a plane's stats."""
        names = plane.stat_names.sort("stat_id")
        words = names.select(json_string(pl.col("name"))).to_series()
        keys = [f"{word}:" for word in words]
        return cls(names["stat_id"].to_numpy(), keys, pl.concat([words, pl.Series([NO_TEXT])]))


@dataclass(frozen=True)
class ArgsWriter:
    """Writes the args of one chunk's events."""

    chunk: EventChunk  # whose events they are
    names: StatNames  # of stats, by id
    texts: pl.Series  # JSON of each stat that holds text or bytes
    text_at: Integers  # places of these among the stats
    codes: Integers  # of each stat a number for its name and kind of value
    name_and_kind: Integers  # of each such number

    @classmethod
    def of(cls, chunk: EventChunk, names: StatNames) -> ArgsWriter:
        """Prepare what the events of a chunk share."""
        stats = chunk.stats
        distinct, codes = number_keys(
            stats.ids.astype(np.int64) * VALUE_KINDS + stats.kinds, MOST_IDS * VALUE_KINDS
        )
        ids, kinds = np.divmod(distinct, VALUE_KINDS)
        name_and_kind = places_of(ids, names.ids) * VALUE_KINDS + kinds
        text_at = np.flatnonzero((stats.kinds == TEXT) | (stats.kinds == BYTES))
        texts = pl.Series([], dtype=pl.String)
        if len(text_at):
            texts = chunk.stats_at(text_at).frame.select(value_json()).to_series()
        return cls(chunk, names, texts, text_at, codes, name_and_kind)

    def args(self, rows: Integers) -> pl.Series:
        """JSON of chosen events, NULL where an event has no stats.

        Args:
            rows: places of events in the chunk.
        """
        ends = self.chunk.core.stat_ends
        first = np.where(rows > 0, ends[rows - 1], 0)
        count = ends[rows] - first
        parts, places = [pl.Series([None], dtype=pl.String)], np.zeros(len(rows), np.int64)
        size = 1
        for members, text in self._patterns(first, count):
            parts.append(text)
            places[members] = np.arange(size, size + len(members))
            size += len(members)
        return pl.concat(parts).gather(places).alias("args")

    def _patterns(self, first: Integers, count: Integers) -> Iterator[tuple[Integers, pl.Series]]:
        """(places among the events; their JSON) of the events whose stats are alike.

        Args:
            first: where the stats of each event begin.
            count: how many it has.
        """
        for length in np.flatnonzero(np.bincount(count, minlength=1)).tolist():
            if not length:
                continue
            members = np.flatnonzero(count == length)
            begin = first[members]
            key = self.codes[begin]
            distinct = np.arange(len(self.name_and_kind))
            for further in range(1, length):
                key = key * len(self.name_and_kind) + self.codes[begin + further]
                distinct, key = number_keys(key, len(distinct) * len(self.name_and_kind))
            for alike in _groups(key, len(distinct)):
                yield members[alike], self._alike(begin[alike], length)

    def _alike(self, begin: Integers, length: int) -> pl.Series:
        """JSON of events whose `length` stats from `begin` on have the same names and kinds."""
        pattern = [
            divmod(int(self.name_and_kind[self.codes[begin[0] + n]]), VALUE_KINDS)
            for n in range(length)
        ]
        if any(kind == ODD for _, kind in pattern):
            return self._decoded(begin, length)
        parts: list[str | pl.Series] = ["{"]
        for number, (name, kind) in enumerate(pattern):
            if name < len(self.names.keys):  # else its name is not known
                comma = "," if len(parts) > 1 else ""
                parts += [comma + self.names.keys[name], self._values(begin + number, kind)]
        return _joined([*parts, "}"], len(begin))

    def _values(self, at: Integers, kind: int) -> str | pl.Series:
        """Stats of one kind as JSON, numbers as numbers; one text where they are all the same."""
        stats = self.chunk.stats
        if kind == NOTHING:
            return NO_TEXT
        if kind in (TEXT, BYTES):
            return self.texts.gather(np.searchsorted(self.text_at, at))
        if kind == DOUBLE:
            numbers = pl.DataFrame({"number": stats.doubles(at)})
            return numbers.select(finite_json(pl.col("number"))).to_series()
        values = stats.integers(at)
        if kind == REFERENCE:
            return self._referred(values)
        if kind == UNSIGNED:
            values = values.view(np.uint64)
        if (values == values[0]).all():
            return str(values[0])
        return pl.Series(values)

    def _referred(self, ids: Integers) -> str | pl.Series:
        place = places_of(ids, self.names.ids)
        if (place == place[0]).all():
            return str(self.names.words[int(place[0])])
        return self.names.words.gather(place)

    def _decoded(self, begin: Integers, length: int) -> pl.Series:
        """JSON of events that have an odd stat."""
        at = (begin[:, None] + np.arange(length)).ravel()
        owners = pl.Series("owner", self.chunk.owners[begin])
        written = self.chunk.stats_at(at).as_json(owners)
        return owners.to_frame().join(written, on="owner", how="left", maintain_order="left")[
            "args"
        ]


def _groups(key: Integers, size: int) -> Iterator[Integers]:
    """Places of each key's members, in order."""
    if size == 1:
        yield np.arange(len(key))
        return
    small = key.astype(np.uint16) if size <= 1 << 16 else key  # sorted by digits, not by comparing
    order = np.argsort(small, kind="stable")
    yield from (
        part
        for part in np.split(order, np.cumsum(np.bincount(key, minlength=size))[:-1])
        if len(part)
    )


def _joined(parts: list[str | pl.Series], height: int) -> pl.Series:
    """Texts and numbers side by side as one text a row."""
    columns: dict[str, pl.Series] = {}
    pieces: list[pl.Expr] = []
    for is_text, some in groupby(parts, lambda part: isinstance(part, str)):
        if is_text:
            pieces.append(pl.lit("".join(map(str, some))))
            continue
        for part in some:
            name = str(len(columns))
            columns[name] = pl.Series(part)
            pieces.append(pl.col(name))
    whole = pl.concat_str(pieces)
    if not columns:
        return pl.select(whole).to_series().new_from_index(0, height)
    return pl.DataFrame(columns).select(whole).to_series()
