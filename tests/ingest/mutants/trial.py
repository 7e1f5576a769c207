"""Ingests one mutant beside a good trace, and says what is wrong with what came of it."""

from __future__ import annotations

import hashlib
import random
import re
import shutil
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from tests.ingest.mutants.kinds import KINDS, Source, events_in
from tests.ingest.mutants.measured import Measured
from tests.ingest.traces import tpu_trace
from xlahouse.capture.errors import XlahouseError
from xlahouse.ingest.discover import run_id_of
from xlahouse.ingest.events.run_files import RunFiles
from xlahouse.ingest.events.trace_bytes import SourceFile
from xlahouse.ingest.one_run import IngestResult, Options
from xlahouse.ingest.run import IngestError, ingest_one, ingest_paths

# A message with the name of an exception shows that some code was not ready for the input.
_UNFORESEEN = re.compile(r"\b[A-Z]\w*(?:Error|Exception|Panic\w*): |Traceback|INTERNAL")
FREE = ("ingested_at", "files", "file_crcs")  # when and by which attempt a row was written


@dataclass(frozen=True)
class Came:
    """What came of a trace: events that were read or rejected, and what was said."""

    events: int
    codes: frozenset[str]
    messages: tuple[str, ...]


@dataclass(frozen=True)
class Mutant:
    """A source with other contents of one file."""

    number: int
    kind: str
    source: Source
    raw: bytes

    def files(self) -> dict[str, bytes]:
        """Path -> contents, in a folder of its own."""
        changed = self.source.changed(self.raw)
        return {path.replace("in/m/", f"{self.folder}/"): raw for path, raw in changed.items()}

    @property
    def folder(self) -> str:
        """Where its files are."""
        return f"in/m{self.number}"


def mutant(number: int, kind: str, draw: random.Random) -> Mutant:
    """The mutant of a kind that the random numbers give."""
    source = draw.choice(KINDS[kind].sources())
    return Mutant(number, kind, source, KINDS[kind].change(source, draw))


@dataclass
class Trial:
    """What is wrong with what came of a mutant, which runs it became, and what they cost."""

    faults: list[str]
    run_ids: list[str]
    seconds: float = 0
    peak_bytes: int = 0


def unforeseen(text: str) -> bool:
    """Whether a message shows an exception that no code foresaw."""
    return _UNFORESEEN.search(text) is not None


def trace_of(error: BaseException) -> str:
    """The end of a traceback, in one line."""
    return " | ".join(traceback.format_exception(error)[-4:]).replace("\n", " ")[-1500:]


def write(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder."""
    for name, raw in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)


@cache
def good_trace() -> bytes:
    """A trace that stands beside mutants."""
    return tpu_trace()


def good_id() -> str:
    """Its run."""
    source = SourceFile("", len(good_trace()), hashlib.sha256(good_trace()).hexdigest())
    return run_id_of([source], b"")


def came_of(root: Path, run_id: str) -> Came:
    """What is in the warehouse of a run."""
    frames = {}
    for table in ("coverage", "issues"):
        files = sorted((root / "tables" / table).glob(f"run_id={run_id}/*.parquet"))
        frames[table] = [pl.read_parquet(file, hive_partitioning=False) for file in files]
    events = sum(
        int(f["events_read"].sum() + f["events_rejected"].sum()) for f in frames["coverage"]
    )
    codes = frozenset(code for f in frames["issues"] for code in f["code"])
    return Came(events, codes, tuple(text for f in frames["issues"] for text in f["message"]))


@cache
def whole(kind: str, source: Source) -> Came:
    """What comes of a source that is not changed."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, source.files)
        given = {key: str(folder / value) for key, value in source.options.items()}
        try:
            results = ingest_paths([str(folder / "in")], str(folder / "w"), **given)
        except IngestError as error:
            return Came(0, frozenset(), tuple(error.problems))
        found = [came_of(folder / "w", result.run_id) for result in results]
    codes = frozenset().union(*(each.codes for each in found))
    return Came(sum(each.events for each in found), codes, ())


def ingest_trials(mutants: list[Mutant], place: Path, root: Path) -> list[Trial]:
    """Ingest mutants and a good trace into a warehouse, at once; one by one if that ends in a traceback."""
    shutil.rmtree(place, ignore_errors=True)
    for one in mutants:
        write(place, one.files())
    write(place, {"in/good/good.xplane.pb": good_trace()})
    options = mutants[0].source.options if len(mutants) == 1 else {}
    given = {key: str(place / value) for key, value in options.items()}
    trials = {one.folder: Trial([], []) for one in mutants}
    results: list[IngestResult] = []

    def each(
        runs: list[RunFiles], root: str, options: Options, workers: int
    ) -> Iterator[IngestResult | str]:
        for run in runs:
            mine = _owner(trials, run.shown(run.paths[0]))
            with Measured() as measured:
                outcome = ingest_one(run, root, options)
            if mine is not None:
                mine.seconds, mine.peak_bytes = mine.seconds + measured.seconds, measured.peak_bytes
                mine.run_ids += [outcome.run_id] if isinstance(outcome, IngestResult) else []
            yield outcome

    problems: list[str] = []
    try:
        results = ingest_paths([str(place / "in")], str(root), each=each, **given)
    except IngestError as error:
        results, problems = error.results, list(error.problems)
    except BaseException as error:
        if isinstance(error, XlahouseError) and given:  # options are of all runs, a file is of one
            return [Trial([], [])]
        if len(mutants) > 1:
            return [ingest_trials([one], place, root)[0] for one in mutants]
        return [Trial([f"the whole ingest ended: {trace_of(error)}"], [])]
    for one in mutants:
        told = [text for text in problems if one.folder + "/" in text or one.folder + ":" in text]
        trials[one.folder].faults += _faults(one, trials[one.folder], told, problems, root)
    if not given and good_id() not in {result.run_id for result in results}:
        trials[mutants[0].folder].faults.append(f"the good trace is not there: {problems}")
    return list(trials.values())


def _owner(trials: Mapping[str, Trial], path: str) -> Trial | None:
    return next((trial for folder, trial in trials.items() if f"/{folder}/" in path), None)


def _faults(
    mutant: Mutant, trial: Trial, told: list[str], problems: list[str], root: Path
) -> list[str]:
    """What is wrong with the runs and lines that came of a mutant."""
    came = [came_of(root, run_id) for run_id in trial.run_ids]
    said = [*told, *(text for each in came for text in each.messages)]
    faults = [f"unforeseen: {text}" for text in said if unforeseen(text)]
    if not trial.run_ids and not told:
        faults.append(f"nothing came of it, and nothing was said of it, but {problems}")
    if trial.run_ids and not told:
        faults += _loss(mutant.kind, mutant.source, mutant.raw, came)
    return faults


def _loss(kind: str, source: Source, raw: bytes, came: list[Came]) -> list[str]:
    """Whether events are missing of which nothing was said that is not said of the whole trace."""
    before = whole(kind, source)
    if source.trace != source.target:
        expected: int | None = before.events
    else:
        expected = events_in(source.target, raw)
    events = sum(each.events for each in came)
    said = frozenset().union(*(each.codes for each in came)) - before.codes
    least = before.events if expected is None else expected
    if events >= least or said:
        return []
    return [
        f"silent loss: {events} events of {least} ({'no other reader' if expected is None else 'counted'})"
    ]
