"""The key of a page's content: a page whose key is the same need not be drawn again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec

from xlahouse.reports.charts.facts import PageFacts, Row
from xlahouse.reports.charts.panel import Panel, Queryable
from xlahouse.reports.site_page import Frame

SETTINGS_SQL = "select * from run_settings"
SettingsByRun = Mapping[str, Row]  # run_id -> what was set for it


def read_settings(source: Queryable) -> SettingsByRun:
    """The settings of all runs, read once for all pages."""
    return {row["run_id"]: row for row in source.query(SETTINGS_SQL).pl().to_dicts()}


def shared_rows(
    source: Queryable, panels: Sequence[Panel[PageFacts]], facts: PageFacts
) -> list[list[Row]]:
    """The rows of a run's page that rest on other runs too, a list for each such panel.

    Args:
        source: the whole warehouse.
        panels: of the page.
        facts: the run.
    """
    asked = [panel for panel in panels if panel.over_runs and panel.applies(facts)]
    return [list(source.query(panel.sql, {"run": facts.run_id}).dicts()) for panel in asked]


def run_key(
    settings: SettingsByRun,
    facts: PageFacts,
    page: str,
    frame: Frame,
    own: str,
    shared: Sequence[object] = (),
) -> str:
    """Key of a run's page: of all that it shows.

    That is the run's row, which lists its files, its settings, the place that commands name, our code, the
    links, and in `shared` the rows that rest on other runs too.
    """
    mine = settings.get(facts.run_id)
    return _digest(_code(), page, facts.row, facts.warehouse, mine, frame, own, shared)


def site_key(
    settings: SettingsByRun, runs: Sequence[PageFacts], page: str, frame: Frame, own: str
) -> str:
    """Key of a page over runs."""
    return _digest([run_key(settings, facts, page, frame, own) for facts in runs], page, frame)


def _digest(*parts: object) -> str:
    raw = msgspec.json.encode(parts, order="deterministic", enc_hook=str)
    return hashlib.sha256(raw).hexdigest()[:20]


@cache
def _code() -> str:
    """Our version, pages and views: a page that another xlahouse drew is drawn again."""
    found = hashlib.sha256(version("xlahouse").encode())
    for folder in ("xlahouse.reports", "xlahouse.views", "xlahouse.sql.answers"):
        for name, path in sorted(_files_below(files(folder))):
            found.update(name.encode() + path.read_bytes())
    return found.hexdigest()


def _files_below(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Traversable]]:
    """Path below the folder, and file, of each file that decides the content of pages."""
    for path in folder.iterdir():
        if path.is_dir():
            yield from _files_below(path, f"{prefix}{path.name}/")
        elif path.name.endswith((".py", ".sql", ".html", ".css", ".js")):
            yield f"{prefix}{path.name}", path
