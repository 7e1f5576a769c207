"""Writes a replayed run into the warehouse, as a run of source `predicted`."""

from __future__ import annotations

import datetime
import hashlib
from functools import partial
from importlib.metadata import version
from typing import NamedTuple

import polars as pl
from msgspec.structs import replace

from xlahouse.capture.commands import RUN, filled
from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.events.codes_of_files import PREDICTED
from xlahouse.ingest.replay.moved import LEFT_OUT, MADE, MOVED, write_replayed
from xlahouse.ingest.schema import INGEST_VERSION, TABLES
from xlahouse.ingest.store.settings import Peaks, RunSettings, read_settings, write_settings
from xlahouse.ingest.store.store import Store
from xlahouse.ingest.tables.rows import issue_rows
from xlahouse.sql.predict.changes import Change, describe
from xlahouse.sql.predict.costs import Facts, costs_of
from xlahouse.sql.predict.keeping import keep_rows
from xlahouse.sql.predict.loading import Parent, table_of
from xlahouse.sql.predict.split import TABLE, split_of

ENGINE_VERSION = 3  # of ingest/replay: another one may give other times


class Prediction(NamedTuple):
    """A predicted run in the warehouse."""

    run_id: str  # of the predicted run
    name: str  # of the predicted run
    change: str  # in words
    rests_on: pl.DataFrame  # rows of transfer_costs
    unchanged: bool  # the warehouse had it already


def run_id_of(parent_run_id: str, change: str) -> str:
    """The id of a prediction: a hash of parent, change and engine."""
    return _digest(parent_run_id, change, ENGINE_VERSION, INGEST_VERSION)


def _digest(*parts: object) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:12]


def predict_run(parent: Parent, change: Change, name: str | None) -> Prediction:
    """Replay a run with a change and write it; the same prediction twice is one run.

    Raises:
        WarehouseError: what the change needs is not known, or another run has the name or the id.
    """
    said = describe(change)
    run_id = run_id_of(parent.row["run_id"], said)
    root = parent.warehouse.root
    store = Store(root)
    store.check_layout()
    known = store.run_row(run_id)
    if known is not None and known["parent_run_id"] != parent.row["run_id"]:
        raise WarehouseError(f"{run_id} ({known['name']}) is another run; it stays as it is")
    name = name or (known["name"] if known else f"{parent.row['name']} ({said})")
    _check_name(parent, run_id, name, said)
    facts = Facts(parent)
    costs, rests_on = costs_of(facts, change)
    if known is not None and known["ingest_version"] == INGEST_VERSION and store.is_whole(known):
        if known["name"] != name:
            store.rename_run(known, name)
        return Prediction(run_id, name, said, rests_on, unchanged=True)
    store.create(version("xlahouse"))
    writer = store.begin(run_id)
    try:
        times = parent.schedule.replay(costs)
        later = write_replayed(parent.schedule, times, parent.whole, writer)
        for table in TABLES:
            if table.name not in (*LEFT_OUT, *MOVED, *MADE, "issues"):
                rows = table_of(parent.warehouse, table.name, parent.row["run_id"], whole=True)
                writer.write(table.name, rows)
        writer.write("transfer_costs", rests_on)
        writer.write("issues", _issues(parent, said))
        writer.commit(_row(parent, run_id, name, said, later))
    except BaseException:
        writer.abandon()
        raise
    split = split_of(root, parent.row["run_id"], run_id, change.reconfigure is not None)
    keep_rows(parent.warehouse, {"run_id": run_id, "name": name}, {TABLE: split})
    settings = _settings(read_settings(root, parent.row["run_id"]), facts, change)
    if settings != RunSettings():
        write_settings(root, run_id, settings)
    return Prediction(run_id, name, said, rests_on, unchanged=False)


def _settings(settings: RunSettings, facts: Facts, change: Change) -> RunSettings:
    """The parent's settings, with the peaks that the change is about: utilizations are over these."""
    if change.chip is not None:
        settings = replace(settings, device_kind=change.chip, peaks=None)
    own = facts.chip
    times = change.ici.times if change.ici is not None else None
    if times is not None and own is not None and change.chip is None:
        link = own.ici_bytes_per_s * times
        settings = replace(settings, peaks=replace(settings.peaks or Peaks(), ici_bytes_per_s=link))
    return settings


def _check_name(parent: Parent, run_id: str, name: str, change: str) -> None:
    taken = parent.warehouse.query(
        "select run_id, parent_run_id = $parent and change = $change as older from runs "
        "where name = $name and run_id <> $run",
        {"name": name, "run": run_id, "parent": parent.row["run_id"], "change": change},
    ).rows
    if taken:
        other, older = taken[0]
        again = f", or drop this prediction of an older xlahouse: `xlahouse drop {other}`"
        raise WarehouseError(
            f"{name} is the name of run {other}; give another with --as{again if older else ''}"
        )


def _issues(parent: Parent, change: str) -> pl.DataFrame:
    """The parent's findings, whose commands are about the parent, and that no time was measured."""
    named = partial(filled, words={RUN: parent.row["name"]})
    found = table_of(parent.warehouse, "issues", parent.row["run_id"], whole=True).with_columns(
        pl.col("message").map_elements(named, pl.String)
    )
    detail = f"{PREDICTED.meaning}: {parent.row['name']} replayed with {change}"
    unmet = parent.schedule.unmet
    if unmet:
        detail += (
            f"; {unmet} transfers contradict that their members wait, and keep their measured time"
        )
    own = issue_rows([PREDICTED.found(parent.row["name"], detail=detail)])
    return pl.concat([found, own.select(found.columns)], how="vertical_relaxed")


def _row(parent: Parent, run_id: str, name: str, change: str, later: int) -> dict[str, object]:
    row = parent.row
    besides_mesh = row.get("setup_besides_mesh")  # older runs have none
    return dict(row) | {
        "run_id": run_id,
        "name": name,
        "source": "predicted",
        "parent_run_id": row["run_id"],
        "change": change,
        # One setup's predictions with different changes are not repeats of each other.
        "setup": _digest(row["setup"] or row["run_id"], change),
        "setup_besides_mesh": besides_mesh and _digest(besides_mesh, change),
        "source_files": [],
        "duration_ps": None if row["duration_ps"] is None else row["duration_ps"] + later,
        "measured_ttft_s": None,
        "measured_tpot_s": None,
        "ingest_version": INGEST_VERSION,
        "ingested_at": datetime.datetime.now(datetime.UTC),
        "options": "{}",
    }
