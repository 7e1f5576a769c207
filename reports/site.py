"""Renders a warehouse as a folder of self-contained pages: of each run, over runs, and an index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xlahouse.capture.errors import ReportError
from xlahouse.reports.answers import KEY, Verdict, read_verdict, read_versus
from xlahouse.reports.charts.cards import HeadlineCard
from xlahouse.reports.charts.facts import FACTS_SQL, PageFacts, compared_runs, read_facts
from xlahouse.reports.charts.panel import F, Panel, Queryable, Section, fill
from xlahouse.reports.headline import SUMMARY_SQL, read_cards
from xlahouse.reports.index_page import index_html
from xlahouse.reports.index_rows import IndexLink
from xlahouse.reports.kept_views import KEPT_VIEWS, computed_once
from xlahouse.reports.naming import choose_pair, choose_runs, page_file, page_stems
from xlahouse.reports.own_page import OwnPage
from xlahouse.reports.page import LIBRARY, page_script, script_key
from xlahouse.reports.pages import (
    COMPARISON,
    INDEX,
    OVERVIEW,
    RUN_PAGES,
    SITE_PAGES,
    VERSUS,
    check_pages,
)
from xlahouse.reports.run_page import run_html
from xlahouse.reports.site_files import SiteFiles
from xlahouse.reports.site_page import TRACE_END, Frame, Link, site_html, versus_html
from xlahouse.reports.site_workers import LEAST_RUNS, Opener, RunDone, RunJob, drawing
from xlahouse.reports.unchanged import SettingsByRun, read_settings, run_key, shared_rows, site_key


@dataclass(frozen=True)
class WrittenSite:
    """The files of a rendering, in the order of the site."""

    pages: list[Path]  # all of them
    unchanged: list[Path]  # the part of `pages` that did not have to be drawn again
    stale: list[Path]  # pages of an earlier rendering, of runs that are gone
    problems: list[str]  # own pages that could not be drawn, a line each


@dataclass(frozen=True)
class _Site:
    """What the pages of one rendering share."""

    source: Queryable  # answers the panels' queries
    files: SiteFiles  # the folder
    runs: list[PageFacts]  # the chosen runs
    pair: list[PageFacts]  # the two to put side by side, or none
    cards: Mapping[str, list[HeadlineCard]]  # run_id -> its headline
    stems: dict[str, str]  # run_id -> how its files' names begin, of every run of the warehouse
    run_pages: dict[str, tuple[Panel[PageFacts], ...]]  # page -> its panels
    site_pages: dict[str, tuple[Panel[Sequence[PageFacts]], ...]]  # page -> its panels
    own: dict[str, OwnPage]  # name -> page of the user's
    settings: SettingsByRun  # of the runs
    single_file: bool  # whether each page holds the script
    problems: list[str] = field(default_factory=list)  # own pages that could not be drawn


def render_site(
    warehouse: Queryable,
    out_dir: str | Path,
    runs: Sequence[str] | None = None,
    pages: Sequence[str] | None = None,
    own: Sequence[OwnPage] = (),
    on_event: Callable[[str], None] | None = None,
    opener: Opener | None = None,
    workers: int = 1,
    single_file: bool = False,
) -> WrittenSite:
    """Write the pages, except pages that an earlier rendering left and that would not change.

    The same warehouse gives the same bytes, apart from the stamp in the footer, which
    SOURCE_DATE_EPOCH fixes.

    Args:
        warehouse: what answers the queries.
        out_dir: folder for the pages; made where absent, other files in it are left alone.
        runs: ids, unique prefixes of ids, or names; None: all.
        pages: which of PAGES; None: all.
        own: pages of the user's, after the built-in pages.
        on_event: gets a line for each file that is written or found unchanged.
        opener: opens the warehouse again in another process; needed for more than one worker.
        workers: processes that draw runs' pages; for more than one a script needs its `__main__` guard.
        single_file: put the script into each page, so that a page can move alone; else the pages
            share the one beside them.

    Raises:
        ReportError: no such page or run, or the folder cannot be written.
    """
    with computed_once(warehouse) as source:
        known, cards, chosen = read_runs(source, runs, pages is None or OVERVIEW in pages)
        pair = choose_pair(known, runs)
        wanted = check_pages(pages, pair)
        site = _Site(
            source,
            SiteFiles.open(out_dir, on_event or (lambda message: None)),
            chosen,
            pair,
            cards,
            page_stems(known),
            _chosen_pages(RUN_PAGES, wanted) | {p.name: (p.panel,) for p in own if p.of_run},
            _chosen_pages(SITE_PAGES, wanted) | {p.name: (p.panel,) for p in own if not p.of_run},
            {page.name: page for page in own},
            read_settings(source),
            single_file,
        )
        if not single_file:
            site.files.write_library(LIBRARY, script_key(), page_script)
        if opener is None or workers < 2 or len(chosen) < LEAST_RUNS or not site.run_pages:
            _write_site_pages(site)
            for facts in chosen if site.run_pages else ():
                _write_run(site, facts)
        else:
            _write_at_once(site, opener, workers)
    stale = site.files.stale([site.stems[facts.run_id] for facts in known])
    site.files.close()
    return WrittenSite(site.files.pages, site.files.unchanged, stale, site.problems)


def _chosen_pages(
    ours: Mapping[str, tuple[Panel[F], ...]], wanted: Sequence[str]
) -> dict[str, tuple[Panel[F], ...]]:
    return {name: panels for name, panels in ours.items() if name in wanted and panels}


def _write_run(site: _Site, facts: PageFacts) -> None:
    with site.source.of_run(facts.run_id, KEPT_VIEWS, threads=1) as one_run:
        for name in site.run_pages:
            _write_run_page(site, one_run, facts, name)


def _write_site_pages(site: _Site) -> None:
    for name in site.site_pages:
        _write_site_page(site, name)


def _write_at_once(site: _Site, opener: Opener, workers: int) -> None:
    """Write the pages over runs here, while other processes draw the pages of each run."""
    jobs = [
        RunJob(
            facts,
            site.cards[facts.run_id],
            site.stems[facts.run_id],
            [name for name in site.run_pages if name not in site.own],
            [site.own[name].path for name in site.run_pages if name in site.own],
            site.files.folder,
            [name for name in (INDEX, COMPARISON) if _has_page(site, name)],
            site.single_file,
        )
        for facts in site.runs
    ]
    with drawing(jobs, opener, workers) as results:
        _write_site_pages(site)
        for done in results:
            if done.error is not None:
                raise ReportError(done.error)
            for file, key, drawn in done.pages:
                site.files.take(file, key, drawn)
            site.problems.extend(done.problems)


def draw_run(source: Queryable, job: RunJob, own: Sequence[OwnPage]) -> RunDone:
    """Draw one run's pages; the process that asked for them keeps the record of the site."""
    files = SiteFiles.open(job.folder, lambda message: None, recording=False)
    site = _Site(
        source,
        files,
        [job.facts],
        [],
        {job.facts.run_id: job.cards},
        {job.facts.run_id: job.stem},
        {name: RUN_PAGES[name] for name in job.pages} | {page.name: (page.panel,) for page in own},
        dict.fromkeys(job.over_runs, ()),
        {page.name: page for page in own},
        read_settings(source),
        job.single_file,
    )
    _write_run(site, job.facts)
    drawn = {path.name for path in set(files.pages) - set(files.unchanged)}
    pages = [(path.name, files.keys[path.name], path.name in drawn) for path in files.pages]
    return RunDone(pages, site.problems)


def read_runs(
    warehouse: Queryable, wanted: Sequence[str] | None, headlines: bool = True
) -> tuple[list[PageFacts], Mapping[str, list[HeadlineCard]], list[PageFacts]]:
    """All runs, the headline of each chosen one by run_id, empty unless `headlines`, and the chosen ones.

    Raises:
        ReportError: a name fits no run, or several.
    """
    facts, summaries = (warehouse.query(sql).pl() for sql in (FACTS_SQL, SUMMARY_SQL))
    known = read_facts(facts, summaries, warehouse.root, compared_runs(warehouse, facts))
    chosen = known if wanted is None else choose_runs(known, wanted)
    return known, read_cards(warehouse, chosen, headlines), chosen


def _write_site_page(site: _Site, name: str) -> None:
    file = f"{name}.html"
    runs = site.pair if name == VERSUS else site.runs
    frame = _frame(site, site.site_pages, SITE_PAGES, lambda page: f"{page}.html", name)
    own = site.own.get(name)
    key = site_key(site.settings, runs, name, frame, own.text if own else "")
    if site.files.is_current(file, key):
        return
    params = {"runs": [facts.run_id for facts in runs]}
    sections = _sections(site, site.source, name, file, site.site_pages[name], params, runs)
    if sections is None:
        return
    if name == INDEX:
        html = index_html(runs, lambda facts: _pages_of(site, facts), frame, sections)
    elif name == VERSUS:
        html = versus_html(runs, frame, [*_changes(site, file), *sections])
    else:
        html = site_html(name, own.title if own else "", runs, frame, sections)
    site.files.write(file, key, html)


def _changes(site: _Site, file: str) -> list[Section]:
    """What changes in the steps from one run of the pair to the other."""
    found = read_versus(site.source, site.pair, lambda key: site.files.csv_name(file, key))
    for section, rows in found:
        if section.csv:
            site.files.write_csv(section.csv, rows)
    return [section for section, _ in found]


def _write_run_page(site: _Site, one_run: Queryable, facts: PageFacts, name: str) -> None:
    stem = site.stems[facts.run_id]
    file = page_file(stem, name)
    frame = _frame(site, site.run_pages, RUN_PAGES, lambda page: page_file(stem, page), name, stem)
    own = site.own.get(name)
    params = {"run": facts.run_id}
    shared = shared_rows(site.source, site.run_pages[name], facts)
    key = run_key(site.settings, facts, name, frame, own.text if own else "", shared)
    if site.files.is_current(file, key):
        return
    # A page of the user's may compare its run with other runs.
    source = site.source if own else one_run
    sections = _sections(site, source, name, file, site.run_pages[name], params, facts)
    if sections is None:
        return
    cards = site.cards[facts.run_id] if name == OVERVIEW else []
    title = own.title if own else name.capitalize()
    verdict = _verdict(site, source, file, facts) if name == OVERVIEW else None
    site.files.write(file, key, run_html(facts, title, cards, frame, sections, verdict))


def _verdict(site: _Site, source: Queryable, file: str, facts: PageFacts) -> Verdict:
    csv = site.files.csv_name(file, KEY)
    verdict = read_verdict(source, facts.run_id, csv)
    if verdict.section.csv:
        site.files.write_csv(csv, verdict.rows)
    return verdict


def _has_page(site: _Site, name: str) -> bool:
    """Whether the site has the page over runs."""
    return name in site.site_pages or site.files.has(f"{name}.html")


def _pages_of(site: _Site, facts: PageFacts) -> list[IndexLink]:
    """A run's pages, of this rendering."""
    stem = site.stems[facts.run_id]
    return [
        IndexLink(site.own[name].title if name in site.own else name, page_file(stem, name))
        for name in site.run_pages
    ]


def _frame(
    site: _Site,
    rendered: dict[str, tuple[Panel[F], ...]],
    ours: dict[str, tuple[Panel[F], ...]],
    file_of: Callable[[str], str],
    current: str,
    stem: str = "",
) -> Frame:
    """The pages of this rendering, and pages that an earlier rendering left, as links.

    Args:
        stem: of the files of a run whose page it is.
    """
    names = [*ours, *(name for name in rendered if name not in ours)]
    links = [
        Link(
            site.own[name].title if name in site.own else name.capitalize(),
            file_of(name),
            name == current,
        )
        for name in names
        if name in rendered or site.files.has(file_of(name))
    ]
    return Frame(
        f"{INDEX}.html" if not stem or _has_page(site, INDEX) else "",
        links,
        _beyond(site, stem) if stem else [],
        "" if site.single_file else LIBRARY,
    )


def _beyond(site: _Site, stem: str) -> list[Link]:
    """From a run's page: the comparison, and the run's trace for Perfetto, where there are such files."""
    found = []
    if _has_page(site, COMPARISON):
        found.append(Link("Comparison", f"{COMPARISON}.html", False))
    trace = trace_file(stem)
    if (site.files.folder / trace).exists():
        found.append(Link("Perfetto trace", trace, False))
    return found


def trace_file(stem: str) -> str:
    """Where a run's trace for Perfetto is, relative to the site."""
    return f"data/{stem}{TRACE_END}"


def _sections(
    site: _Site,
    source: Queryable,
    name: str,
    file: str,
    panels: tuple[Panel[F], ...],
    params: Mapping[str, object],
    facts: F,
) -> list[Section] | None:
    """A page's panels with their rows, which go into CSV files beside it; None: an own page failed."""
    sections = []
    for panel in (panel for panel in panels if panel.applies(facts)):
        own = site.own.get(name)
        asked = site.source if panel.over_runs else source
        try:
            rows = asked.query(panel.sql, own.params(params) if own else params).pl()
            csv = site.files.csv_name(file, panel.key)
            section = fill(panel, rows, facts, csv)
        except Exception as error:
            if own is None:
                raise
            site.problems.append(own.problem(error))
            return None
        if section.csv:
            site.files.write_csv(csv, rows)
        sections.append(section)
    return sections
