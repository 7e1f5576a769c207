"""tests/bench/README.md, generated from the baseline: no measured number in it is typed by hand."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.bench.outcome import Outcome, cpu_seconds, megabytes, seconds
from tests.bench.registry import OURS, Row

PAGE = Path(__file__).with_name("README.md")
HEAD = """\
# Benchmarks

<!-- Generated from baseline.json by `python -m tests.bench --page`: edit tests/bench/page.py. -->

Each benchmark times xlahouse beside the programs that people would use instead (xprof's events
database and queries, HolisticTraceAnalysis) and beside plain loops, on the same input in the same
run. `make bench` installs these programs into `.venv-peers`.

```
make bench                             # the quick mode, under 3 minutes
make bench ARGS=--full                 # all benchmarks, under 30 minutes
make bench ARGS="Kineto questions"     # benchmarks whose names contain one of these words
make bench ARGS="--full --save"        # store the result as baseline.json and rewrite this page
make bench ARGS=--check                # no clock: check that what is timed gives the right results
```

Every run also reports how far xlahouse is off the baseline, after division by how much slower the
machine is: the median over the peers in both runs. `XLAHOUSE_BENCH_FLEET=100` in the environment
makes the run of 512 devices 100 million ops instead of 20.

A row is one contender: its median time, that time over xlahouse's, and the peak memory of its
process where it is a process of its own."""


@dataclass(frozen=True)
class Section:
    """Benchmarks that are shown together.

    names: regular expression that their names match.
    wide: one row per benchmark and one column per contender, in place of one row per contender.
    """

    title: str
    names: str
    text: str
    wide: bool = False


SECTIONS = (
    Section(
        "Reading traces",
        r"xplane|ten times|64 planes|Chrome|Kineto|damaged",
        """\
`protobuf objects` is a Python loop that makes a tuple of each event and writes nothing; `xprof` is
`xprof create_events_db`, which writes one Parquet file of events. `floor` starts, hashes and decodes
the same trace and writes rows that were prepared: no ingest on these libraries can take less. An
ingest of a large trace spends its time on decoding protobuf, which holds Python's lock, and on
encoding Parquet; an ingest of a small one, on starting Python and importing.""",
    ),
    Section(
        "Queries and other tools",
        r"questions|op times",
        """\
The questions are those of `questions.yaml`, asked as commands; both tools must give the same
answers. `op times` are the times of each op of the synthetic runs: here xlahouse writes all its
tables first, and xprof only this one.""",
    ),
    Section(
        "Views",
        r"^view ",
        """\
One run of 8 devices, in a warehouse that was only just opened: all rows of a view that summarizes,
1000 rows of a view with a row per op, collective or gap. The target at 10 million ops is 1 s for
summaries and 3 s for the others; over a server of 100,000 steps of 64 requests it is 2 s. A view must
scan the ops, or sort stretches or collectives, once:
the last columns are the times of such a scan and such sorts alone.""",
        wide=True,
    ),
    Section(
        "Start",
        r"^first row|^start of|^import of",
        "Whole processes: `ours, …` is xlahouse with another query, verb or import.",
    ),
    Section(
        "Pages",
        r"^site ",
        "`xlahouse report` into a new folder, and again when nothing has changed.",
    ),
    Section(
        "One run of many devices",
        r"of 512 devices|16 files, [0-9]",
        """\
64 files, one per host; `a tenth` is the same job on a run with a tenth of the ops. A run of 16 files is
spread over worker processes: its peak memory is that of the largest process, its CPU time that of all.""",
    ),
    Section(
        "Predictions",
        r"^replay ",
        "8 devices, tables in memory; `one more change` replays a run that is prepared.",
    ),
    Section(
        "Spark",
        r"over Spark",
        "A standalone cluster on this machine, whose workers have one core each.",
    ),
)


def page(outcome: Outcome) -> str:
    """The whole page, as Markdown."""
    facts = ", ".join(f"{name} {number}" for name, number in outcome.versions.items())
    measured = f"Measured on {outcome.measured_on}: {outcome.machine}; {facts}."
    parts = [HEAD, measured]
    for section in SECTIONS:
        rows = [row for row in outcome.rows if re.search(section.names, row.benchmark)]
        if rows:
            table = _wide(rows) if section.wide else _long(rows)
            parts += [f"## {section.title}", section.text, table]
    return "\n\n".join(parts) + "\n"


def write_page(outcome: Outcome) -> None:
    """Write the page beside the baseline."""
    PAGE.write_text(page(outcome), encoding="utf-8")


def _long(rows: list[Row]) -> str:
    """A line for each contender."""
    lines = [
        (
            row.benchmark if row.contender == OURS else "",
            row.contender,
            seconds(row),
            f"{row.ratio:.2f}",
            cpu_seconds(row),
            megabytes(row),
        )
        for row in rows
    ]
    head = ("benchmark", "contender", "median", "times ours", "CPU", "peak memory")
    return _table(head, lines, text_columns=2)


def _wide(rows: list[Row]) -> str:
    """A line for each benchmark: its contenders' medians in columns."""
    contenders = list(dict.fromkeys(row.contender for row in rows))
    found = {(row.benchmark, row.contender): seconds(row) for row in rows}
    lines = [
        (name.removeprefix("view "), *(found.get((name, each), "") for each in contenders))
        for name in dict.fromkeys(row.benchmark for row in rows)
    ]
    return _table(("view", *contenders), lines, text_columns=1)


def _table(head: tuple[str, ...], lines: list[tuple[str, ...]], text_columns: int) -> str:
    rule = ("---",) * text_columns + ("---:",) * (len(head) - text_columns)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *lines))
