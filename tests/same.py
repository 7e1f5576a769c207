"""Compares what two versions of xlahouse made of the same traces: every table by value, every page by number.

    python -m tests.same traces FOLDER        write the synthetic traces, once, for both versions
    xlahouse ingest FOLDER SAMPLES -w before/warehouse && xlahouse report -w before/warehouse -o before/site
    python -m tests.same compare before after

A page counts as the rows of its charts, its table cells and its CSV files; prose, findings' messages and SQL
may differ.
"""

from __future__ import annotations

import base64
import csv
import json
import sys
from html.parser import HTMLParser
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import polars as pl

# When and by which attempt a row was written, and the words of findings.
LEFT_OUT = {"runs": ("ingested_at", "files", "file_crcs"), "issues": ("message",)}


def write_traces(folder: Path) -> None:
    """Write every named synthetic run, each into a folder of its own."""
    from tests.synth.cases import CASES
    from tests.synth.write import write_run

    for name, run in CASES.items():
        write_run(run, folder / name)


def tables_of(warehouse: Path) -> dict[str, pl.DataFrame]:
    """Table -> all of its rows, sorted by all columns that are compared."""
    found = {}
    for table in sorted((warehouse / "tables").iterdir()):
        files = sorted(table.rglob("*.parquet"))
        frames = [pl.read_parquet(file, hive_partitioning=False) for file in files]
        frame = pl.concat([_plain(frame, table.name) for frame in frames], how="vertical")
        found[table.name] = frame.sort(frame.columns)
    return found


def _plain(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    kept = frame.drop(LEFT_OUT.get(table, ()), strict=False)
    texts = [pl.col(pl.Categorical).cast(pl.String)]
    nested = [
        pl.col(name).map_elements(lambda value: json.dumps(value.to_list(), default=str), pl.String)
        for name, kind in kept.schema.items()
        if isinstance(kind, pl.List)
    ]
    return kept.with_columns(texts).with_columns(nested)


class PageNumbers(HTMLParser):
    """The rows of a page's charts, the cells of its tables and its CSV files, in their order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[Any] = []
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open a chart's specification, a cell or a link to CSV."""
        given = dict(attrs)
        if tag == "script" and given.get("type") == "application/json":
            self._inside = "spec"
        elif tag == "td":
            self._inside = "cell"
            self.found.append("")
        elif tag == "a" and given.get("class") == "csv":
            self.found.append(_data(given.get("href") or ""))

    def handle_endtag(self, tag: str) -> None:
        """Close it."""
        if tag in ("script", "td"):
            self._inside = ""

    def handle_data(self, data: str) -> None:
        """Take what stands in it."""
        if self._inside == "spec":
            self.found += _rows(json.loads(data))
        elif self._inside == "cell":
            self.found[-1] += data


def _data(href: str) -> str:
    head, _, body = href.partition(",")
    raw = base64.b64decode(body) if head.endswith(";base64") else unquote_to_bytes(body)
    return raw.decode("utf-8", "replace")


def _rows(spec: Any) -> list[Any]:
    """Whatever a chart draws, wherever its specification holds it."""
    if isinstance(spec, list):
        return [row for part in spec for row in _rows(part)]
    if not isinstance(spec, dict):
        return []
    named = [list(rows) for _, rows in sorted(spec.get("datasets", {}).items())]
    own = spec["data"].get("values", []) if isinstance(spec.get("data"), dict) else []
    rest = [_rows(part) for name, part in spec.items() if name not in ("datasets", "data")]
    return [row for rows in [*named, own, *rest] for row in rows]


def messages_of(warehouse: Path) -> tuple[str, ...]:
    """How the messages of all findings of ingest begin, up to a command: pages fill that in."""
    files = (warehouse / "tables" / "issues").rglob("*.parquet")
    columns = [pl.read_parquet(file, hive_partitioning=False)["message"] for file in files]
    found = {message for column in columns for message in column.cast(pl.String)}
    return tuple(sorted({message.partition("`")[0].strip() for message in found} - {""}))


def pages_of(site: Path, messages: tuple[str, ...]) -> dict[str, list[Any]]:
    """Page -> the values that it shows, without findings' messages; files of data count whole."""
    found: dict[str, list[Any]] = {}
    for path in sorted(site.rglob("*")):
        name = str(path.relative_to(site))
        if path.suffix == ".html":
            values = PageNumbers(path.read_text("utf-8")).found
        elif path.suffix == ".csv":
            values = [cell for row in csv.reader(StringIO(path.read_text("utf-8"))) for cell in row]
        else:
            continue
        found[name] = [
            v for v in values if not (isinstance(v, str) and v.strip().startswith(messages))
        ]
    return found


def differences(before: Path, after: Path) -> list[str]:
    """A line for each table and page that is not the same."""
    lines = []
    ours, theirs = tables_of(before / "warehouse"), tables_of(after / "warehouse")
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in ours or name not in theirs:
            lines.append(f"table {name}: only in one")
        elif not ours[name].equals(theirs[name]):
            lines.append(f"table {name}: {_changed(ours[name], theirs[name])}")
    shown, drawn = (
        pages_of(folder / "site", messages_of(folder / "warehouse")) for folder in (before, after)
    )
    for name in sorted(shown.keys() | drawn.keys()):
        if shown.get(name) != drawn.get(name):
            pairs = zip(shown.get(name, ()), drawn.get(name, ()), strict=False)
            first = next((pair for pair in pairs if pair[0] != pair[1]), "another length")
            lines.append(f"page {name}: {str(first)[:300]}")
    return lines


def _changed(one: pl.DataFrame, other: pl.DataFrame) -> str:
    if one.schema != other.schema or one.height != other.height:
        return f"{one.height} rows and {other.height}; columns {one.schema.keys() ^ other.schema.keys()}"
    return ", ".join(name for name in one.columns if not one[name].equals(other[name]))


if __name__ == "__main__":
    if sys.argv[1] == "traces":
        write_traces(Path(sys.argv[2]))
    else:
        found = differences(Path(sys.argv[2]), Path(sys.argv[3]))
        print("\n".join(found) or "the same")
        sys.exit(bool(found))
