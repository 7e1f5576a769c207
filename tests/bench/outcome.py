"""What a run of the benchmarks found: machine, versions and rows; kept, compared, and as Markdown."""

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
README = Path(__file__).parents[2] / "README.md"
BEGIN, END = "<!-- bench:begin -->\n", "<!-- bench:end -->"
PACKAGES = ("xlahouse", "duckdb", "polars", "pyarrow", "altair")


class Outcome(msgspec.Struct, frozen=True):
    """What was measured, when, where and with what."""

    measured_on: str
    machine: str
    versions: dict[str, str]
    rows: list[Row]


def outcome_of(rows: list[Row]) -> Outcome:
    """Rows with this machine's facts."""
    versions = {"Python": platform.python_version()} | {name: version(name) for name in PACKAGES}
    return Outcome(
        f"{datetime.now(UTC):%Y-%m-%d}", _machine(), versions | peers.versions(), list(rows)
    )


def read_outcome(path: Path) -> Outcome:
    """An outcome that was saved."""
    return msgspec.json.decode(path.read_bytes(), type=Outcome)


def save(outcome: Outcome, path: Path) -> None:
    """Write it as JSON."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(outcome), indent=1) + b"\n")


def show_in_readme(outcome: Outcome) -> None:
    """Put its table into the README."""
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    README.write_text(f"{before}{BEGIN}{markdown(outcome)}\n{END}{after}", encoding="utf-8")


def shown_in_readme() -> str:
    """The table that the README has."""
    return README.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip()


def merged(old: Outcome, new: Outcome) -> Outcome:
    """The new one, with the old one's rows of benchmarks that the new one did not run."""
    ran = {row.benchmark for row in new.rows}
    rows = [row for row in old.rows if row.benchmark not in ran]
    return msgspec.structs.replace(new, rows=rows + new.rows)


def against(row: Row, baseline: Outcome, slower: float) -> float | None:
    """Ours now over ours in the baseline, less what the machine is slower by; None: not in the baseline."""
    before = {(old.benchmark, old.contender): old.median_s for old in baseline.rows}
    found = before.get((row.benchmark, row.contender))
    return None if found is None or row.contender != OURS else row.median_s / found / slower


def slowness(rows: list[Row], baseline: Outcome) -> float:
    """How much slower this machine is now than the baseline's was: the median over the peers they share.

    Machines differ, and so does one machine from hour to hour; what peers take tells by how much.
    """
    before = {(old.benchmark, old.contender): old.median_s for old in baseline.rows}
    shared = [
        row.median_s / before[row.benchmark, row.contender]
        for row in rows
        if row.contender != OURS and (row.benchmark, row.contender) in before
    ]
    return statistics.median(shared) if shared else 1.0


def markdown(outcome: Outcome) -> str:
    """A table for the README: a line for each contender."""
    head = [
        "| benchmark | | median | times ours | peak memory |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    lines = [
        f"| {row.benchmark if row.contender == OURS else ''} | {row.contender} | {_seconds(row)} | "
        f"{row.ratio:.2f} | {_megabytes(row)} |"
        for row in outcome.rows
    ]
    facts = ", ".join(f"{name} {number}" for name, number in outcome.versions.items())
    return "\n".join(
        [*head, *lines, "", f"Measured on {outcome.measured_on}: {outcome.machine}; {facts}."]
    )


def _seconds(row: Row) -> str:
    return f"{row.median_s:.2f} s" if row.median_s >= 0.1 else f"{row.median_s * 1e3:.1f} ms"


def _megabytes(row: Row) -> str:
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
