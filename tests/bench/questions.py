"""Ten questions about a trace, as commands: `xlahouse query` beside `xprof query_events_db`."""

from __future__ import annotations

import atexit
import csv
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp

import yaml

from tests.bench.peers import WHY_NOT, XPROF, has
from tests.bench.registry import Benchmark, register
from tests.synth.cases import CASES
from tests.synth.write import write_run
from xlahouse.ingest.run import ingest_paths

QUESTIONS = yaml.safe_load(Path(__file__).with_name("questions.yaml").read_text())
RUN = replace(CASES["tp4"], requests=4, output_tokens=24, layers=8)
NEAR_NS = 1.0  # xprof truncates each event to whole nanoseconds
XLAHOUSE = (sys.executable, "-c", "from xlahouse.sql.cli import main; main()")


@dataclass(frozen=True)
class Traced:
    """One run: its trace, and the warehouse that it was ingested into."""

    trace: Path
    root: Path


def prepare() -> Traced | str:
    """Write and ingest the run, and check that both give the same answers; or why this cannot run."""
    if not has("xprof"):
        return WHY_NOT
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (trace,) = write_run(RUN, folder / "traces")
    ingest_paths([str(folder / "traces")], str(folder / "warehouse"))
    traced = Traced(trace, folder / "warehouse")
    ours, theirs = ask_xlahouse(traced), ask_xprof(traced)
    for entry, a, b in zip(QUESTIONS, ours, theirs, strict=True):
        assert a, f"{entry['question']}: no rows"
        fault = b is not None and differences(a, b)
        assert not fault, f"{entry['question']} {fault}"
    return traced


def differences(ours: list[list[str]], theirs: list[list[str]]) -> str | None:
    """How two answers differ, apart from xprof's truncation of events to nanoseconds."""
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, {len(theirs)} by xprof"
    for a, b in zip(ours, theirs, strict=True):
        for left, right in zip(a, b, strict=True):
            same = left == right
            if not same:
                left_number, right_number = float(left), float(right)
                same = abs(left_number - right_number) <= max(2e-3 * abs(left_number), NEAR_NS)
            if not same:
                return f"{a}, {b} by xprof"
    return None


def ask_xlahouse(traced: Traced) -> list[list[list[str]]]:
    """Rows of each question."""
    found = []
    for entry in QUESTIONS:
        command = [*XLAHOUSE, "query", entry["ours"], "-w", str(traced.root), "--format", "csv"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found.append(list(csv.reader(text.splitlines()))[1:])
    return found


def ask_xprof(traced: Traced) -> list[list[list[str]] | None]:
    """Rows of each question that Events can answer. The first question makes Events, the rest reuse it."""
    found: list[list[list[str]] | None] = []
    for entry in QUESTIONS:
        if entry["xprof"] is None:
            found.append(None)
            continue
        command = [
            str(XPROF),
            "query_events_db",
            f"--session_id={traced.trace}",
            "--bypass_cache=True",
        ]
        done = subprocess.run(
            [*command, f"--query={entry['xprof']}"], capture_output=True, text=True, check=True
        )
        path = json.loads(done.stdout[done.stdout.index("{") :])["path"]
        rows = json.loads(Path(path).read_text())
        found.append([[str(value) for value in row.values()] for row in rows])
    return found


def lines(engine: str) -> int:
    """Lines of SQL in an engine's answers."""
    return sum(len(entry[engine].splitlines()) for entry in QUESTIONS if entry[engine])


def answered(engine: str) -> int:
    """Questions that an engine answers."""
    return sum(entry[engine] is not None for entry in QUESTIONS)


register(
    Benchmark(
        f"{answered('ours')} questions in {lines('ours')} lines of SQL",
        prepare,
        ask_xlahouse,
        {f"xprof, {answered('xprof')} of them in {lines('xprof')} lines": ask_xprof},
        quick=True,
    )
)
