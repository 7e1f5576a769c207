"""A page over several runs as HTML, and the values that all templates take."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version

from xlahouse.reports.charts.facts import (
    COMPARED_BANNER,
    PREDICTED_BANNER,
    VIRTUAL_BANNER,
    PageFacts,
)
from xlahouse.reports.charts.panel import Section
from xlahouse.reports.charts.units import plural
from xlahouse.reports.page import render_page

SUBJECTS = {
    "comparison": "Runs side by side: which parallelism is faster, at which batch, and why.",
    "scaling": "Speed-up and efficiency with more devices, beside the ideal.",
    "study": "The effect of model size, batch, lengths and parallelism, all else being equal.",
}


TRACE_END = ".pftrace"  # of a run's trace for Perfetto


@dataclass(frozen=True)
class Link:
    """A page in the navigation."""

    title: str  # of the page
    href: str  # relative to the site's folder
    current: bool  # whether it is the page that has the link


@dataclass(frozen=True)
class Frame:
    """What surrounds a page's content: the ways to other pages, and where its script is."""

    home: str  # the index's file; empty without one
    links: Sequence[Link]  # pages of the same run, or over runs
    beyond: Sequence[Link] = ()  # of a run: the comparison, and its trace for Perfetto
    library: str = ""  # file of the script; empty: within the page


@dataclass(frozen=True)
class Banner:
    """What a reader has to know first."""

    head: str  # in bold
    body: str = ""  # after it


def site_html(
    name: str, title: str, runs: Sequence[PageFacts], frame: Frame, sections: list[Section]
) -> str:
    """A page over runs as HTML."""
    subtitle = f"{plural(len(runs), 'run')}. {SUBJECTS.get(name, '')}".strip()
    return _over_runs(title or name.capitalize(), subtitle, RUNS_PARAMS, runs, frame, sections)


def versus_html(pair: Sequence[PageFacts], frame: Frame, sections: list[Section]) -> str:
    """The page of two runs as HTML."""
    base, other = pair
    title = f"From {base.name} to {other.name}"
    return _over_runs(title, VERSUS_SUBJECT, PAIR_PARAMS, pair, frame, sections)


def _over_runs(
    title: str,
    subtitle: str,
    params: str,
    runs: Sequence[PageFacts],
    frame: Frame,
    sections: list[Section],
) -> str:
    return render_page(
        "site.html",
        {
            **common(title, banners_of(runs), frame),
            "subtitle": subtitle,
            "sections": sections,
            "params": params,
        },
    )


VERSUS_SUBJECT = "What changes in a step from the first run to the second, and why."
PAIR_PARAMS = "With $runs = the ids of the two runs; $base is the first of them, $other the second."
RUNS_PARAMS = "With $runs = the ids of the runs on this page."


def banners_of(runs: Sequence[PageFacts]) -> list[Banner]:
    """The banners of virtual devices and of predictions; each names its runs, unless it is about all."""
    predicted = [facts for facts in runs if facts.predicted]
    named = (
        (VIRTUAL_BANNER, [facts.name for facts in runs if facts.inferred]),
        (PREDICTED_BANNER, [each.name for each in predicted if not each.compared]),
        (COMPARED_BANNER, [each.name for each in predicted if each.compared]),
    )
    return [
        Banner(head, "" if len(names) == len(runs) else f"Runs: {_some(names)}.")
        for head, names in named
        if names
    ]


MAX_NAMES = 8  # of runs in a banner


def _some(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMES
    return ", ".join(names[:MAX_NAMES]) + (f" and {more:,} more" if more > 0 else "")


def common(title: str, banners: list[Banner], frame: Frame) -> dict[str, object]:
    """Values for the template of any page."""
    return {
        "title": title,
        "banners": banners,
        "home": frame.home,
        "pages": list(frame.links) if len(frame.links) > 1 else [],
        "beyond": list(frame.beyond),
        "library": frame.library,
        "version": version("xlahouse"),
        "stamp": _stamp(),
    }


def _stamp() -> str:
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    when = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdecimal() else datetime.now(UTC)
    return when.strftime("%Y-%m-%d %H:%M UTC")
