"""Describes the files of a dataset to people who have nothing else: columns, units, runs, rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version

import msgspec

from xlahouse.sql.types import NamedRow

# A column's unit is the end of its name.
_UNITS = (
    (r"(.*_)?bytes_per_s", "bytes/s"),
    (r"(.*_)?flops_per_s", "FLOP/s"),
    (r"(.*_)?tokens(_spread)?_per_s", "tokens/s"),
    (r"(.*_)?per_s", "1/s"),
    (r"(.*_)?bytes_per_token", "bytes/token"),
    (r"(.*_)?per_step", "1/step"),
    (r"(.*_)?ps", "ps"),
    (r"(.*_)?ns", "ns"),
    (r"(.*_)?s", "s"),
    (r"(.*_)?bytes|bytes_accessed", "bytes"),
    (r"(.*_)?flops", "FLOP"),
    (r"(.*_)?tokens", "tokens"),
    (r"(.*_)?ratio", "ratio"),
    (r"(.*_)?count", "count"),
    (r".*_at", "UTC"),
)

README = """# Dataset of LLM inference traces

Written by xlahouse {version} from {runs}. Each file is a table; `DICTIONARY.md` states what a row is and
what each column means, `dictionary.json` the same for programs.

- `parquet/NAME.parquet` {csv}
- `runs` is the place to start: `run_id` joins it to every other file.
- Names end in the version of their definition: `latency_v3` never changes its meaning.
- A column's unit is the end of its name: `_ps` picoseconds, `_s` seconds, `_bytes`, `_ratio`. Positions in
  time (`start_ps`) count from a run's own time zero.
- NULL (an empty field in CSV) means not known, never 0; the table `issues` states what a run lacks.
- Runs whose devices are `inferred` ran on virtual devices: their transfers and their order are valid, their
  times are not those of an accelerator.

```
import polars
polars.read_parquet("parquet/run_summary_v2.parquet")
```
```
duckdb -c "select run_id, axis, sum(wire_bytes) from 'parquet/traffic_volume_v1.parquet' group by all"
```
"""


@dataclass(frozen=True)
class DescribedColumn:
    """A column of a file."""

    name: str  # of the column
    type: str  # in Parquet
    unit: str  # empty where the name ends in none
    meaning: str  # its documentation


@dataclass(frozen=True)
class DescribedFile:
    """A table or view of the dataset."""

    name: str  # of the table or view
    kind: str  # table or view
    version: int | None  # of the view's definition; None for a table
    row: str  # `one row per …`
    description: str  # what it is for
    rows: int  # their number
    runs: tuple[str, ...]  # run_ids in the rows
    files: tuple[str, ...]  # paths inside the dataset
    columns: tuple[DescribedColumn, ...]  # from left to right


def unit_of(column: str) -> str:
    """The unit that a column's name ends in; empty without one."""
    return next((unit for pattern, unit in _UNITS if re.fullmatch(pattern, column)), "")


def dictionary_json(files: Sequence[DescribedFile], runs: Sequence[NamedRow]) -> bytes:
    """The dictionary for programs: `runs` with their names, `files` with their columns."""
    content = {
        "written_by": f"xlahouse {version('xlahouse')}",
        "runs": list(runs),
        "files": [asdict(file) for file in files],
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def dictionary_markdown(files: Sequence[DescribedFile], runs: Sequence[NamedRow]) -> str:
    """The dictionary for people."""
    every = {run["run_id"] for run in runs}
    parts = [
        "# Data dictionary",
        _table(("run_id", "name"), ((r["run_id"], r["name"]) for r in runs)),
    ]
    parts.append(
        _table(
            ("file", "one row per", "rows", "runs"),
            (
                (f.name, f.row.removeprefix("one row per "), f"{f.rows:,}", f"{len(f.runs):,}")
                for f in files
            ),
        )
    )
    for file in files:
        known = f"{file.kind}, version {file.version}" if file.version else file.kind
        lacking = sorted(every - set(file.runs))
        without = f" No rows of: {', '.join(lacking)}." if lacking and file.runs else ""
        parts.append(f"## {file.name}")
        parts.append(f"{file.row} ({known}; {file.rows:,} rows).{without}")
        if file.description:
            parts.append(file.description)
        columns = ((c.name, c.type, c.unit, c.meaning) for c in file.columns)
        parts.append(_table(("column", "type", "unit", "meaning"), columns))
    return "\n\n".join(parts) + "\n"


def readme(runs: int, csv: bool) -> str:
    """The text of the dataset's README.md."""
    also = "and `csv/NAME.csv` have the same rows in the same order." if csv else "has the rows."
    count = "1 run" if runs == 1 else f"{runs:,} runs"
    return README.format(version=version("xlahouse"), runs=count, csv=also)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines)


def _cell(value: object) -> str:
    # Names come from traces: they must not end a cell, or be markup.
    text = " ".join(str("" if value is None else value).split())
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
