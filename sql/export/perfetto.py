"""Writes a run as a Perfetto trace: work of devices and hosts, by lines, axes and counters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import polars as pl

from xlahouse.sql.export.perfetto_proto import (
    ANNOTATIONS,
    CLEARED,
    COUNTER,
    EXPLICIT,
    NEEDED,
    PERFETTO,
    event,
    event_bytes,
    packet,
)
from xlahouse.sql.export.perfetto_slices import edges, lanes
from xlahouse.sql.export.perfetto_sources import NUMBERS, SliceSource, sources
from xlahouse.sql.warehouse import Warehouse

SLICES_AT_ONCE = 250_000  # slices that are in memory as events at once
_UNITS = {"_bytes": "bytes", "_bytes_per_s": "bytes/s", "_ratio": "ratio"}


@dataclass
class PerfettoWriter:
    """A trace under construction."""

    file: IO[bytes]  # open for writing
    shift_ns: int  # added to every time
    tracks: dict[tuple[object, ...], int] = field(default_factory=dict)  # key -> uuid
    names: dict[str, dict[str, int]] = field(default_factory=dict)  # table -> text -> number
    slices: int = 0  # written so far

    def track(self, key: tuple[object, ...], parent: int = 0, **described: object) -> int:
        """The uuid of a track; its first use writes its description."""
        if key not in self.tracks:
            self.tracks[key] = uuid = len(self.tracks) + 1
            rank = len(self.tracks)
            self.file.write(
                packet(
                    track_descriptor=PERFETTO.message("Track")(
                        uuid=uuid, parent_uuid=parent, sibling_order_rank=rank, **described
                    )
                )
            )
        return self.tracks[key]

    def interned(self, table: str, texts: pl.Series) -> pl.Series:
        """Numbers of texts, which are written where they are met first; NULL stays NULL."""
        known = self.names.setdefault(table, {})
        new = [text for text in texts.unique(maintain_order=True) if text and text not in known]
        known |= {text: len(known) + place for place, text in enumerate(new, start=1)}
        if new:
            name = PERFETTO.message("InternedName")
            entries = [name(iid=known[text], name=text.encode()) for text in new]
            data = PERFETTO.message("InternedData")(**{table: entries})
            self.file.write(packet(interned_data=data, sequence_flags=NEEDED))
        return texts.replace_strict(known, default=None, return_dtype=pl.UInt64)


def write_perfetto(
    warehouse: Warehouse,
    run: str,
    path: Path,
    on_progress: Callable[[str], None] = lambda line: None,
) -> int:
    """Write a run's trace for ui.perfetto.dev; returns how many slices it has.

    Each device is a process with its steps, a track a line of its plane, its collectives by axis
    (arrows join the participants of an instance) and its counters; each host is one with its
    phases and threads. Times are cut to nanoseconds, and shifted where they would be negative.

    Args:
        warehouse: that has the run.
        run: its id, prefix or name.
        path: the file; it is there whole, or not at all.
        on_progress: called with the name of each part when it begins.

    Raises:
        WarehouseError: there is no such run.
    """
    run_id = warehouse.resolve_run(run)
    draft = path.with_name(f".{path.name}.partial")
    try:
        with draft.open("wb") as file:
            writer = PerfettoWriter(file, _shift_ns(warehouse, run_id))
            file.write(packet(sequence_flags=CLEARED))
            for source in sources(warehouse, run_id):
                on_progress(source.title)
                _write_source(writer, warehouse, run_id, source)
            _write_counters(writer, warehouse, run_id)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return writer.slices


def _shift_ns(warehouse: Warehouse, run_id: str) -> int:
    """A shift that makes every time at least 1: Perfetto has no time 0 or before."""
    tables = ("ops", "launches", "phases", "host_events", "counters", "collectives")
    parts = " union all ".join(
        f"select min(start_ps) as start_ps from {table} where run_id = $run" for table in tables
    )
    earliest = warehouse.query(f"select min(start_ps) from ({parts})", {"run": run_id}).rows[0][0]
    return 1 + max(0, -((earliest or 0) // 1000))


def _write_source(
    writer: PerfettoWriter, warehouse: Warehouse, run_id: str, source: SliceSource
) -> None:
    """A source's slices, track by track, each in chunks by start."""
    frame = warehouse.query(source.sql, {"run": run_id, **source.parameters}).pl()
    if frame.is_empty():
        return
    process = writer.track(
        source.process,
        process=PERFETTO.message("Process")(
            pid=source.pid, process_name=source.process_name.encode()
        ),
        child_ordering=EXPLICIT,
    )
    for (track,), slices in frame.group_by(["track"], maintain_order=True):
        ordered = slices.sort("start_ps", "duration_ps", descending=[False, True])
        spread = ordered.with_columns(lanes(ordered, source.nested))
        for (lane,), rows in spread.group_by(["lane"], maintain_order=True):
            name = f"{track} ({lane})" if lane else str(track)
            uuid = writer.track((source.process, track, lane), process, name=name.encode())
            for chunk in rows.with_columns(track_uuid=pl.lit(uuid, pl.UInt64)).iter_slices(
                SLICES_AT_ONCE
            ):
                writer.file.write(event_bytes(edges(_described(writer, chunk), writer.shift_ns)))
        writer.slices += slices.height


def _described(writer: PerfettoWriter, slices: pl.DataFrame) -> pl.DataFrame:
    """Slices with their texts as numbers, and other columns as annotations."""
    names = writer.interned("event_names", slices["name"])
    categories = writer.interned("event_categories", slices["category"])
    details = writer.interned("debug_annotation_string_values", slices["detail"])
    labels = writer.interned("debug_annotation_names", pl.Series(["detail", *NUMBERS]))
    numbered = slices.with_columns(
        names.alias("name_iid"), categories.alias("category_iid"), details.alias("detail_iid")
    )
    beside = [_annotation(labels[0], string=pl.col("detail_iid"))] + [
        _annotation(label, number=pl.col(name))
        for label, name in zip(labels[1:], NUMBERS, strict=True)
        if name in slices.columns
    ]
    return numbered.with_columns(
        category_iids=_listed(pl.col("category_iid")),
        flow_ids=_listed(pl.col("flow").cast(pl.UInt64)),
        debug_annotations=pl.concat_list(beside).list.drop_nulls().cast(ANNOTATIONS),
    )


def _annotation(
    label: int, number: pl.Expr | None = None, string: pl.Expr | None = None
) -> pl.Expr:
    """One annotation, NULL where there is no value."""
    value = number if number is not None else string
    assert value is not None
    made = pl.struct(
        name_iid=pl.lit(label, pl.UInt64),
        int_value=pl.lit(None, pl.Int64) if number is None else number.cast(pl.Int64),
        string_value_iid=pl.lit(None, pl.UInt64) if string is None else string,
    )
    return pl.when(value.is_not_null()).then(made)


def _listed(value: pl.Expr) -> pl.Expr:
    """A list of the value, empty where it is NULL."""
    return pl.concat_list(value).list.drop_nulls()


def _write_counters(writer: PerfettoWriter, warehouse: Warehouse, run_id: str) -> None:
    """Samples of counters, each counter a track of its device, or of the run."""
    sql = (
        "select device_id, name, start_ps, value from counters "
        "where run_id = $run and value is not null order by device_id, name, start_ps"
    )
    frame = warehouse.query(sql, {"run": run_id}).pl()
    for (device, name), samples in frame.group_by(["device_id", "name"], maintain_order=True):
        unit = next((unit for end, unit in _UNITS.items() if str(name).endswith(end)), "")
        uuid = writer.track(
            ("counter", device, name),
            writer.tracks.get(("device", device), 0),
            name=str(name).encode(),
            counter=PERFETTO.message("Counter")(unit_name=unit.encode()),
        )
        for chunk in samples.iter_slices(SLICES_AT_ONCE):
            writer.file.write(event_bytes(_samples(chunk, uuid, writer.shift_ns)))


def _samples(samples: pl.DataFrame, uuid: int, shift_ns: int) -> pl.DataFrame:
    track = pl.lit(uuid, pl.UInt64)
    return samples.select(
        timestamp=(pl.col("start_ps") // 1000 + shift_ns).cast(pl.UInt64),
        track_event=event(COUNTER, track, double_counter_value=pl.col("value")),
    )
