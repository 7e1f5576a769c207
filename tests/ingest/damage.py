"""Damages traces at random, and says what became of each when it was ingested."""

from __future__ import annotations

import json
import random
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import polars as pl

from tests.ingest.traces import rows
from xlahouse.ingest.run import IngestError, ingest_paths

# The last nets name the exception that they caught: then some code was not ready for the damage.
_UNFORESEEN = re.compile(r"\b[A-Z]\w*(?:Error|Exception|Panic\w*): ")


@dataclass(frozen=True)
class Outcome:
    """What an ingest made of a file: refusals, or a run's events and what was said of it."""

    refusals: tuple[str, ...] = ()
    events: int = 0
    rejected: int = 0
    codes: frozenset[str] = frozenset()
    messages: tuple[str, ...] = ()

    def unforeseen(self) -> list[str]:
        """Messages that show a traceback's last line."""
        return [text for text in (*self.refusals, *self.messages) if _UNFORESEEN.search(text)]


def damage(raw: bytes, random: random.Random) -> bytes:
    """Flip bytes, cut, splice, blank or repeat a stretch: one or a few of these."""
    out = bytearray(raw)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        if not out:
            break
        at = random.randrange(len(out))
        length = random.choice((1, 2, 8, 100, len(out) // 10 + 1))
        match random.randrange(6):
            case 0:
                out[at] ^= 1 << random.randrange(8)
            case 1:
                out[at] = random.randrange(256)
            case 2:
                del out[at:]
            case 3:
                del out[at : at + length]
            case 4:
                other = random.randrange(len(out))
                out[at:at] = out[other : other + length]
            case 5:
                out[at : at + length] = bytes(min(length, len(out) - at))
    return bytes(out)


def outcome(raw: bytes, name: str, beside: Mapping[str, bytes] = MappingProxyType({})) -> Outcome:
    """Ingest a file's bytes into a warehouse of its own. beside: other files in its folder."""
    folder = Path(tempfile.mkdtemp())
    try:
        for file, contents in {**beside, name: raw}.items():
            (folder / file).write_bytes(contents)
        try:
            ingest_paths([str(folder / name)], str(folder / "wh"))
        except IngestError as error:
            return Outcome(refusals=tuple(error.problems))
        coverage, issues = _table(folder / "wh", "coverage"), _table(folder / "wh", "issues")
        return Outcome(
            events=0 if coverage is None else coverage["events_read"].sum(),
            rejected=0 if coverage is None else coverage["events_rejected"].sum(),
            codes=frozenset() if issues is None else frozenset(issues["code"]),
            messages=() if issues is None else tuple(issues["message"]),
        )
    finally:
        shutil.rmtree(folder)


def _table(root: Path, name: str) -> pl.DataFrame | None:
    return rows(root, name) if list(root.glob(f"tables/{name}/*/*.parquet")) else None


def silent_loss(whole: Outcome, damaged: Outcome) -> bool:
    """Whether events are missing although nothing more was said than of the whole file."""
    if damaged.refusals or damaged.events >= whole.events:
        return False
    return damaged.codes <= whole.codes and damaged.rejected <= whole.rejected


def leaves_no_trace(name: str, raw: bytes) -> bool:
    """Whether damaged text is JSON that could be an undamaged file's: whole events are gone."""
    if not name.endswith(".json"):
        return False
    try:
        json.loads(raw)
    except ValueError:
        return False
    return True
