"""The files of a site: each is written whole and recorded with the key of what it was drawn from."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import polars as pl

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.capture.errors import ReportError
from xlahouse.sql.formats import FORMULA

SITE_RECORD = "site.json"  # page -> key of its content
CSV_FOLDER = "data"  # folder of the CSV files


@dataclass
class SiteFiles:
    """A site's folder while it is rendered."""

    folder: Path  # that the site is written to
    on_event: Callable[[str], None]  # gets a line for each page
    keys: dict[str, str]  # page's file -> key of its content
    recording: bool = True  # else another process keeps the record
    pages: list[Path] = field(default_factory=list)  # written or unchanged
    unchanged: list[Path] = field(default_factory=list)  # not drawn again

    @classmethod
    def open(
        cls, out_dir: str | Path, on_event: Callable[[str], None], recording: bool = True
    ) -> SiteFiles:
        """Make the folder where absent, and read what an earlier rendering left.

        Raises:
            ReportError: it cannot be made.
        """
        folder = Path(out_dir)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ReportError(
                f"{folder}: cannot be made ({error.strerror}); choose another with -o"
            ) from error
        return cls(folder, on_event, _recorded(folder / SITE_RECORD), recording)

    def has(self, file: str) -> bool:
        """Whether an earlier rendering left the page."""
        return file in self.keys and (self.folder / file).exists()

    def is_current(self, file: str, key: str) -> bool:
        """Whether the page is there with the same key; it then counts as one of the site's."""
        if self.keys.get(file) != key or not (self.folder / file).exists():
            return False
        self.pages.append(self.folder / file)
        self.unchanged.append(self.folder / file)
        self.on_event(f"unchanged {self.folder / file}")
        return True

    def write(self, file: str, key: str, html: str) -> None:
        """Write a page.

        Raises:
            ReportError: it cannot be written.
        """
        self._write(self.folder / file, html.encode())
        self.keys[file] = key
        self._keep()
        self.pages.append(self.folder / file)
        self.on_event(f"wrote {self.folder / file}")

    def take(self, file: str, key: str, drawn: bool) -> None:
        """Count a page that another process wrote or left unchanged."""
        if not drawn:
            self.unchanged.append(self.folder / file)
        self.keys[file] = key
        self._keep()
        self.pages.append(self.folder / file)
        self.on_event(f"{'wrote' if drawn else 'unchanged'} {self.folder / file}")

    def write_library(self, file: str, key: str, make: Callable[[], str]) -> None:
        """Write the script that pages share, unless an earlier rendering left the same one.

        Raises:
            ReportError: it cannot be written.
        """
        if self.keys.get(file) == key and (self.folder / file).exists():
            return
        self._write(self.folder / file, make().encode())
        self.keys[file] = key
        self._keep()

    def csv_name(self, file: str, panel: str) -> str:
        """Where the rows of a page's panel go, relative to the site."""
        return f"{CSV_FOLDER}/{file.removesuffix('.html')}.{panel}.csv"

    def write_csv(self, name: str, rows: pl.DataFrame) -> None:
        """Write a panel's rows: lists and structs as JSON, no text that a spreadsheet computes.

        Raises:
            ReportError: they cannot be written.
        """
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        self._write(path, inert(flat(rows)).write_csv().encode())

    def stale(self, stems: Sequence[str]) -> list[Path]:
        """Pages of an earlier rendering whose runs are no longer in the warehouse."""
        alive = {f"{stem}." for stem in stems}
        return [
            self.folder / file
            for file in sorted(self.keys)
            if file.startswith("run-")
            and not any(file[: at + 1] in alive for at, sign in enumerate(file) if sign == ".")
            and (self.folder / file).exists()
        ]

    def close(self) -> None:
        """Record the keys of the pages."""
        self.keys = {file: key for file, key in self.keys.items() if (self.folder / file).exists()}
        self._keep()

    def _keep(self) -> None:
        if not self.recording:
            return
        raw = msgspec.json.encode(self.keys, order="deterministic")
        self._write(self.folder / SITE_RECORD, msgspec.json.format(raw) + b"\n")

    def _write(self, path: Path, raw: bytes) -> None:
        beside = path.with_name(f".{path.name}.tmp")
        try:
            beside.write_bytes(raw)
            os.replace(beside, path)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise ReportError(
                f"{path}: cannot be written ({error.strerror}); choose another -o"
            ) from error


def inert(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows whose texts no spreadsheet computes: an apostrophe before those that begin a formula."""
    texts = [pl.col(name) for name, kind in rows.schema.items() if kind == pl.String]
    return rows.with_columns(
        pl.when(text.str.slice(0, 1).is_in(FORMULA))
        .then(pl.concat_str(pl.lit("'"), text))
        .otherwise(text)
        .alias(text.meta.output_name())
        for text in texts
    )


def flat(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows that CSV can hold: nested values as JSON."""
    nested = [name for name, kind in rows.schema.items() if kind.is_nested()]
    return rows.with_columns(
        pl.Series(
            name,
            [None if v is None else msgspec.json.encode(v).decode() for v in rows[name].to_list()],
            dtype=pl.String,
        )
        for name in nested
    )


def _recorded(path: Path) -> dict[str, str]:
    """What was remembered; nothing where the file is missing or no such record."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, str])
    except (OSError, *JSON_FAULTS):
        return {}
