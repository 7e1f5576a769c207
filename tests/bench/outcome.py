"""The outcome of a run of the benchmarks: machine, versions and rows; saved, and compared."""

from __future__ import annotations

import os
import platform
import statistics
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

from tests.bench import peers
from tests.bench.registry import OURS, Row

BASELINE = Path(__file__).with_name("baseline.json")
PACKAGES = ("xlahouse", "duckdb", "polars", "pyarrow", "altair")


class Outcome(msgspec.Struct, frozen=True):
    """Rows, and the day, machine and versions they were measured with."""

    measured_on: str
    machine: str
    versions: dict[str, str]
    rows: list[Row]


def outcome_of(rows: list[Row]) -> Outcome:
    """Rows, with the facts of this machine."""
    versions = {"Python": platform.python_version()} | {name: version(name) for name in PACKAGES}
    return Outcome(
        f"{datetime.now(UTC):%Y-%m-%d}", _machine(), versions | peers.versions(), list(rows)
    )


def read_outcome(path: Path) -> Outcome:
    """Read an outcome that was saved."""
    return msgspec.json.decode(path.read_bytes(), type=Outcome)


def save(outcome: Outcome, path: Path) -> None:
    """Write it as JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(outcome), indent=1) + b"\n")


def merged(old: Outcome, new: Outcome) -> Outcome:
    """The new outcome, with the old rows of benchmarks that it did not run."""
    ran = {row.benchmark for row in new.rows}
    rows = [row for row in old.rows if row.benchmark not in ran]
    return msgspec.structs.replace(new, rows=rows + new.rows)


def against(row: Row, baseline: Outcome, slower: float) -> float | None:
    """Ours now over ours in the baseline, divided by the machine's slowness; None: not in the baseline."""
    before = {(old.benchmark, old.contender): old.median_s for old in baseline.rows}
    found = before.get((row.benchmark, row.contender))
    return None if found is None or row.contender != OURS else row.median_s / found / slower


def slowness(rows: list[Row], baseline: Outcome) -> float:
    """How much slower this machine is now than the baseline's was: the median over the peers they share.

    Machines differ, and so does one machine from hour to hour; the peers' times show by how much.
    """
    before = {(old.benchmark, old.contender): old.median_s for old in baseline.rows}
    shared = [
        row.median_s / before[row.benchmark, row.contender]
        for row in rows
        if row.contender != OURS and (row.benchmark, row.contender) in before
    ]
    return statistics.median(shared) if shared else 1.0


def seconds(row: Row) -> str:
    """The median time, for people."""
    return f"{row.median_s:.2f} s" if row.median_s >= 0.1 else f"{row.median_s * 1e3:.1f} ms"


def cpu_seconds(row: Row) -> str:
    """The median CPU time, for people; empty where it is not known."""
    return "" if row.cpu_s is None else f"{row.cpu_s:.2f} s"


def megabytes(row: Row) -> str:
    """The peak memory, for people; empty where it is not known."""
    return "" if row.peak_bytes is None else f"{row.peak_bytes / 1e6:,.0f} MB"


def _machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores of {_processor()}, {memory:.0f} GiB, {platform.system()}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
