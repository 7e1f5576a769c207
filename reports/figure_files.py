"""Figures as files for papers and slides: PNG, SVG or PDF, drawn without a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from xlahouse.capture.errors import ReportError
from xlahouse.reports.answers import read_verdict, read_versus
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.panel import Drawn, F, Panel, Queryable, VegaLite, fill
from xlahouse.reports.charts.theme import CONTAINER_WIDTH
from xlahouse.reports.kept_views import KEPT_VIEWS
from xlahouse.reports.naming import choose_pair, page_file, page_stems
from xlahouse.reports.own_page import OwnPage
from xlahouse.reports.pages import OVERVIEW, RUN_PAGES, SITE_PAGES, VERSUS, check_pages
from xlahouse.reports.site import read_runs

FIGURE_FORMATS = ("png", "svg", "pdf")
WIDTHS = {"half": 420, "wide": 860, "square": 420}  # px of a figure, by its place on the page
INK, PAPER = "#16202c", "#ffffff"
_ID = re.compile(r"\b(clip|gradient_)(\d+)\b")
PNG_SCALE = 2.0  # dots a px: sharp in print


def render_figures(
    warehouse: Queryable,
    out_dir: str | Path,
    kind: str,
    runs: Sequence[str] | None = None,
    pages: Sequence[str] | None = None,
    own: Sequence[OwnPage] = (),
    on_event: Callable[[str], None] = lambda message: None,
) -> list[Path]:
    """Write every figure of the pages as a file of its own, `<page>.<panel>-<number>.<kind>`.

    Args:
        warehouse: what answers the queries.
        out_dir: folder for the files; made where absent.
        kind: one of FIGURE_FORMATS.
        runs: ids, unique prefixes of ids, or names; None: all.
        pages: which of the site's pages; None: all.
        own: pages of the user's.
        on_event: gets a line for each file.

    Raises:
        ReportError: no such page or run, an own page that fails, or a folder that cannot be written.
    """
    known, _, chosen = read_runs(warehouse, runs)
    pair = choose_pair(known, runs)
    wanted = check_pages(pages, pair)
    folder = Path(out_dir)
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for stem, drawn in _all_drawn(warehouse, wanted, page_stems(known), chosen, pair, own):
            if drawn.spec is None:
                on_event(f"{stem}.{drawn.id}: {drawn.problem}")
                continue
            path = folder / f"{stem}.{drawn.id}.{kind}"
            path.write_bytes(as_file(drawn.spec, drawn.title, drawn.shape, kind))
            written.append(path)
            on_event(f"wrote {path}")
    except OSError as error:
        raise ReportError(
            f"{error.filename or folder}: cannot be written ({error.strerror}); choose another -o"
        ) from error
    return written


def _all_drawn(
    source: Queryable,
    wanted: Sequence[str],
    stems: dict[str, str],
    runs: Sequence[PageFacts],
    pair: Sequence[PageFacts],
    own: Sequence[OwnPage],
) -> Iterator[tuple[str, Drawn]]:
    """Stem of a file's name, and a figure, in the order of the site."""
    ids = {"runs": [facts.run_id for facts in runs]}
    for name in (name for name in SITE_PAGES if name in wanted and name != VERSUS):
        for panel in SITE_PAGES[name]:
            yield from _drawn(source, name, panel, ids, runs)
    for section, _ in read_versus(source, pair) if VERSUS in wanted else ():
        yield from ((VERSUS, drawn) for drawn in section.figures)
    for page in (page for page in own if not page.of_run):
        yield from _drawn_own(source, page.name, page, ids, runs)
    for facts in runs:
        stem, of_run = stems[facts.run_id], {"run": facts.run_id}
        with source.of_run(facts.run_id, KEPT_VIEWS, threads=1) as one_run:
            for name in (name for name in RUN_PAGES if name in wanted):
                file = page_file(stem, name).removesuffix(".html")
                if name == OVERVIEW:
                    verdict = read_verdict(one_run, facts.run_id)
                    yield from ((file, drawn) for drawn in verdict.section.figures)
                for each in (panel for panel in RUN_PAGES[name] if panel.applies(facts)):
                    asked = source if each.over_runs else one_run
                    yield from _drawn(asked, file, each, of_run, facts)
        for page in (page for page in own if page.of_run):
            yield from _drawn_own(source, f"{stem}.{page.name}", page, of_run, facts)


def _drawn(
    source: Queryable, stem: str, panel: Panel[F], params: Mapping[str, object], facts: F
) -> Iterator[tuple[str, Drawn]]:
    section = fill(panel, source.query(panel.sql, params).pl(), facts)
    yield from ((stem, drawn) for drawn in section.figures)


def _drawn_own(
    source: Queryable, stem: str, page: OwnPage, params: Mapping[str, object], facts: object
) -> list[tuple[str, Drawn]]:
    try:
        return list(_drawn(source, stem, page.panel, page.params(params), facts))
    except Exception as error:
        raise ReportError(page.problem(error)) from error


def as_file(spec: VegaLite, title: str, shape: str, kind: str) -> bytes:
    """A figure's bytes.

    Args:
        spec: Vega-Lite, as a page has it.
        title: of the figure, which a page shows above it.
        shape: its place on the page, which decides how wide it is.
        kind: one of FIGURE_FORMATS.
    """
    import vl_convert

    text = json.dumps(on_paper(spec, title, shape))
    if kind == "svg":
        return _renumbered(vl_convert.vegalite_to_svg(text)).encode()
    if kind == "pdf":
        return vl_convert.vegalite_to_pdf(text)
    return vl_convert.vegalite_to_png(text, scale=PNG_SCALE)


def _renumbered(svg: str) -> str:
    """Ids from 0 on: they count the figures that this process drew before."""
    numbers: dict[str, str] = {}
    return _ID.sub(lambda found: numbers.setdefault(found[0], f"{found[1]}{len(numbers)}"), svg)


def on_paper(spec: VegaLite, title: str, shape: str) -> VegaLite:
    """The figure on paper: dark ink where a page's own colour would be, and a width of its own.

    Args:
        spec: Vega-Lite, as a page has it.
        title: of the figure.
        shape: its place on the page, which decides how wide it is.
    """
    width = WIDTHS[shape]
    text = json.dumps(spec).replace('"currentColor"', f'"{INK}"')
    solid: VegaLite = json.loads(text.replace(CONTAINER_WIDTH, str(width)))
    solid["title"] = {"text": title, "color": INK, "fontSize": 14, "anchor": "start"}
    solid["background"] = PAPER
    solid["padding"] = 12
    solid["autosize"] = {"type": "pad"}
    _widen(solid, width)
    return solid


def _widen(part: VegaLite, width: int) -> None:
    """A width in px wherever the page's place decides it."""
    if part.get("width") == "container":
        part["width"] = width
    for name in ("layer", "hconcat", "vconcat", "concat"):
        for inner in part.get(name, ()):
            _widen(inner, width)
    if isinstance(part.get("spec"), dict):
        _widen(part["spec"], width)
