"""Pages in a real browser, from a file: every chart drawn, no console message, nothing asked of a network."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.reports.example import Store
from tests.reports.over_runs import RUNS
from xlahouse.reports.pages import RUN_PAGES, SITE_PAGES, VERSUS
from xlahouse.reports.site import page_file, render_site

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--v=0",
    "--virtual-time-budget=10000",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # the browser's own requests do not leave either
)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium"),
    pytest.mark.xdist_group("chromium"),
]


def open_page(path: Path, profile: Path, *flags: str) -> tuple[str, str]:
    """The page's DOM after its scripts ran, and what the browser logged."""
    assert CHROMIUM is not None
    command = [CHROMIUM, *FLAGS, *flags, f"--user-data-dir={profile}", "--dump-dom", path.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, done.stderr


def asked_by_pages(log: Path) -> set[str]:
    """URLs that a page asked for; what the browser asks for itself has no origin."""
    events = (event.get("params", {}) for event in json.loads(log.read_text("utf-8"))["events"])
    return {
        found["url"]
        for found in events
        if "url" in found and found.get("initiator", "not an origin") != "not an origin"
    }


HOSTILE_RUN, PLAIN_RUN = "run-script-alert-1-script", "run-plain"
SEEN = (
    *((f"{name}.html", 1280) for name in SITE_PAGES if name != VERSUS),
    *((page_file(PLAIN_RUN, name), 400) for name, panels in RUN_PAGES.items() if panels),
    (page_file(HOSTILE_RUN, "communication"), 1280),
    (page_file(HOSTILE_RUN, "time"), 1280),
    ("run-bare.html", 1280),
)

FIRST = (page_file(HOSTILE_RUN, "communication"), 1280)  # the page of `make test`
BOTH_LAYERS = [
    pytest.param(*seen, id="{} {}".format(*seen), marks=() if seen == FIRST else pytest.mark.verify)
    for seen in SEEN
]


@pytest.mark.parametrize(("name", "width"), BOTH_LAYERS)
def test_every_chart_is_drawn_in_silence(site, tmp_path, name, width):
    log = tmp_path / "net.json"
    dom, stderr = open_page(
        site[name], tmp_path / "profile", f"--window-size={width},2000", f"--log-net-log={log}"
    )
    charts = site[name].read_text("utf-8").count("data-spec=")
    assert dom.count('data-state="drawn"') == charts
    assert dom.count('data-state="failed"') == 0
    assert len(re.findall(r'<svg[^>]* class="marks"', dom)) == charts
    assert "CONSOLE" not in stderr, stderr
    assert asked_by_pages(log) == set()


@pytest.mark.verify
def test_the_page_of_two_runs_is_drawn(tmp_path):
    change = {
        "run_id": "a1",
        "other_run_id": "b1",
        "phase": "decode",
        "part": "op",
        "kernel": "dot",
    }
    change |= {"step_ps": 5.0, "other_step_ps": 8.0, "total_ps": 3.0, "scope": "m/layers.3/mlp"}
    store = Store({"runs": RUNS, "op_diff_v1": [change]})
    (path,) = render_site(store, tmp_path / "site", ["a1", "b1"], ["versus"]).pages
    dom, stderr = open_page(path, tmp_path / "profile", "--window-size=400,2000")
    assert dom.count('data-state="drawn"') == path.read_text("utf-8").count("data-spec=") == 2
    assert "CONSOLE" not in stderr, stderr


def test_a_page_with_its_script_is_drawn_alone(two_runs, tmp_path):
    given = {"runs": ["aaa"], "pages": ["intervals"], "single_file": True}
    (path,) = render_site(two_runs, tmp_path / "site", **given).pages
    alone = tmp_path / "alone" / "page.html"
    alone.parent.mkdir()
    alone.write_bytes(path.read_bytes())
    dom, stderr = open_page(alone, tmp_path / "profile", "--window-size=1280,2000")
    assert dom.count('data-state="drawn"') == alone.read_text("utf-8").count("data-spec=") > 0
    assert "CONSOLE" not in stderr, stderr


# Sorts the table of runs by batch, the greatest first, then groups and filters it.
TABLE = """
addEventListener("load", () => {
  const table = document.getElementById("runs-table");
  const rows = () => [...table.querySelectorAll("tbody tr")];
  const names = () => rows().map((row) => row.cells[0].textContent).join("|");
  const head = [...table.tHead.rows[0].cells].find((cell) => cell.textContent === "Batch");
  table.dataset.first = names();
  head.querySelector("button").click();
  head.querySelector("button").click();
  table.dataset.sorted = names();
  const group = document.getElementById("runs-group");
  group.value = [...group.options].find((option) => option.textContent === "parallelism").value;
  group.dispatchEvent(new Event("change"));
  table.dataset.grouped = names();
  const filter = document.getElementById("runs-filter");
  filter.value = "ONE tp4";
  filter.dispatchEvent(new Event("input"));
  table.dataset.filtered = names();
});
"""


def test_the_table_of_runs_sorts_groups_and_filters(tmp_path):
    runs = [
        ("a", "one", "tp4", 4),
        ("b", "two", "dp4", 16),
        ("c", "three", "tp4", 8),
        ("d", "four", "dp4", None),
    ]
    rows = [
        {"run_id": key, "name": name, "parallelism": mesh, "batch_size": batch}
        for key, name, mesh, batch in runs
    ]
    (path,) = render_site(Store({"runs": rows}), tmp_path / "site", pages=["index"]).pages
    page = with_script(path, TABLE, tmp_path / "page.html")
    dom, stderr = open_page(page, tmp_path / "profile", "--window-size=1280,2000")
    assert "CONSOLE" not in stderr, stderr
    found = dict(re.findall(r'data-(first|sorted|grouped|filtered)="([^"]*)"', dom))
    assert found == {
        "first": "four|one|three|two",
        "sorted": "two|three|one|four",  # what is not known is last
        "grouped": "Parallelism: dp4|two|four|Parallelism: tp4|three|one",
        "filtered": "Parallelism: tp4|one",
    }


def test_there_are_charts(site):
    counts = {name: site[name].read_text("utf-8").count("data-spec=") for name, _ in SEEN}
    assert counts["index.html"] == 2
    assert counts[page_file(PLAIN_RUN, "communication")] > 5
    assert counts["run-bare.html"] == 0


# Moves the pointer over the middle of the first bar of a chart; what then shows is left in the page.
HOVER = """
addEventListener("load", async () => {
  const chart = document.getElementById("traffic-traffic-by-mesh-axis");
  while (chart.dataset.state !== "drawn") await new Promise((done) => setTimeout(done, 20));
  const bar = chart.querySelector(".mark-rect path");
  const box = bar.getBoundingClientRect();
  const at = { bubbles: true, clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 };
  for (const kind of ["pointerover", "pointermove", "mouseover", "mousemove"])
    bar.dispatchEvent(new MouseEvent(kind, at));
});
"""


def with_script(page: Path, script: str, copy: Path) -> Path:
    """The page with one more script, which its own policy would refuse."""
    html = page.read_text("utf-8")
    html, count = re.subn(
        "script-src .*?; style-src", "script-src 'self' 'unsafe-inline'; style-src", html, count=1
    )
    assert count == 1
    shutil.copy(page.with_name("vega.js"), copy.parent)
    before, end, after = html.rpartition("</body>")  # Vega's own text holds one, too
    copy.write_text(f"{before}<script>{script}</script>{end}{after}", "utf-8")
    return copy


def test_hovering_tells_the_exact_number(site, tmp_path):
    page = with_script(site[page_file(PLAIN_RUN, "communication")], HOVER, tmp_path / "page.html")
    dom, stderr = open_page(page, tmp_path / "profile", "--window-size=1280,2000")
    assert "CONSOLE" not in stderr, stderr
    tooltip = re.search(
        r'<div id="vg-tooltip-element"[^>]*class="([^"]*)"[^>]*>(.*?)</div>', dom, re.DOTALL
    )
    assert tooltip is not None
    assert "visible" in tooltip[1]
    assert re.search(r"(302|151|453) MB \([\d,]+ bytes\)", tooltip[2])  # the axis' unit first
    # Prefill, 2.25 x 192 MiB: 474,... bytes, whole.
    assert "301,989,888" in tooltip[2] or "150,994,944" in tooltip[2] or "452,984,832" in tooltip[2]


# A timeline once it is drawn, and what its axis says.
DRAWN = """
const pause = () => new Promise((done) => setTimeout(done, 200));
const drawn = async () => {
  const chart = document.querySelector(".chart[id^=timeline-prefill]");
  while (chart.dataset.state !== "drawn") await pause();
  const axis = () =>
    [...chart.querySelectorAll(".role-axis-label text")].map((label) => label.textContent).join(" ");
  return [chart, axis];
};
"""
# Turns the wheel over the middle of a timeline, with and without Ctrl; the axis tells what it did.
ZOOM = """
addEventListener("load", async () => {
  const [chart, axis] = await drawn();
  const turn = (ctrlKey) => {
    const box = chart.querySelector("svg").getBoundingClientRect();
    const at = { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 };
    const event = { ...at, ctrlKey, deltaY: -300, bubbles: true, cancelable: true };
    chart.querySelector(".mark-rect path").dispatchEvent(new WheelEvent("wheel", event));
  };
  chart.dataset.first = axis();
  turn(false);
  await pause();
  chart.dataset.plain = axis();
  turn(true);
  await pause();
  chart.dataset.zoomed = axis();
});
"""


def test_a_timeline_zooms_with_ctrl_and_the_wheel_and_a_plain_wheel_is_the_pages(site, tmp_path):
    page = with_script(site[page_file(PLAIN_RUN, "time")], DRAWN + ZOOM, tmp_path / "page.html")
    dom, stderr = open_page(page, tmp_path / "profile", "--window-size=1280,2000")
    assert "CONSOLE" not in stderr, stderr
    axis = dict(re.findall(r'data-(first|plain|zoomed)="([^"]*)"', dom))
    assert axis["first"]
    assert axis["plain"] == axis["first"]
    assert axis["zoomed"] != axis["first"]


# Presses keys on a timeline that has the focus; the axis tells what each did.
KEYS = """
addEventListener("load", async () => {
  const [chart, axis] = await drawn();
  const press = async (key, more) => {
    const event = { key, bubbles: true, cancelable: true, ...more };
    document.activeElement.dispatchEvent(new KeyboardEvent("keydown", event));
    await pause();
    return axis();
  };
  chart.focus();
  chart.dataset.first = axis();
  chart.dataset.browsers = await press("+", { ctrlKey: true });
  chart.dataset.nearer = await press("+");
  chart.dataset.right = await press("ArrowRight");
  chart.dataset.back = await press("ArrowLeft");
  chart.dataset.all = await press("0");
});
"""


def test_a_timeline_zooms_and_moves_by_keyboard(site, tmp_path):
    page = with_script(site[page_file(PLAIN_RUN, "time")], DRAWN + KEYS, tmp_path / "page.html")
    dom, stderr = open_page(page, tmp_path / "profile", "--window-size=1280,2000")
    assert "CONSOLE" not in stderr, stderr
    found = re.findall(r'data-(first|browsers|nearer|right|back|all)="([^"]*)"', dom)
    axis = {name: sorted(labels.split()) for name, labels in found}  # labels move within the page
    assert axis["first"] == axis["browsers"] == axis["all"]
    assert axis["nearer"] == axis["back"] != axis["first"]
    assert axis["right"] not in (axis["first"], axis["nearer"])


# How far the page is wider than its window, and whether each link and fold can have the focus.
MEASURE = """
addEventListener("load", () => {
  const root = document.documentElement;
  const wide = [...document.querySelectorAll("main *")].filter((part) =>
    part.getBoundingClientRect().right > innerWidth + 1
    && !part.closest(".scroll, nav, pre, .chart"));
  const reached = document.querySelectorAll("a[href]:not(.vega-actions a), summary, .scroll");
  const deaf = [...reached].filter((part) => {
    const around = part.tagName === "SUMMARY" ? part.parentElement.parentElement : part;
    if (around.closest("details:not([open])")) return false;
    part.focus();
    return document.activeElement !== part && part.offsetParent !== null;
  });
  root.dataset.overflow = root.scrollWidth - innerWidth;
  root.dataset.wide = wide.length;
  root.dataset.deaf = deaf.length;
});
"""


@pytest.mark.parametrize("width", [1280, 500])
@pytest.mark.parametrize("page", ["communication", "overview"])
def test_a_page_fits_its_window_and_can_be_walked_by_keyboard(site, tmp_path, width, page):
    """Headless Chromium makes no window narrower than 500 px."""
    path = with_script(site[page_file(PLAIN_RUN, page)], MEASURE, tmp_path / "page.html")
    dom, _ = open_page(path, tmp_path / "profile", f"--window-size={width},1000")
    found = dict(re.findall(r'data-(overflow|wide|deaf)="(-?\d+)"', dom[:2000]))
    assert int(found["overflow"]) <= 0
    assert found["wide"] == found["deaf"] == "0"


def test_a_printed_page_shows_its_charts_and_numbers(site, tmp_path):
    assert CHROMIUM is not None
    page, pdf = site[page_file(PLAIN_RUN, "communication")], tmp_path / "page.pdf"
    command = [CHROMIUM, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", f"--print-to-pdf={pdf}"]
    subprocess.run([*command, page.as_uri()], capture_output=True, timeout=120, check=True)
    raw = pdf.read_bytes()
    assert raw.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", raw)) < 40


def test_a_request_of_a_page_would_be_seen(tmp_path):
    """The check above can fail: this page asks for something."""
    page = tmp_path / "page.html"
    page.write_text('<!doctype html><title>x</title><img src="http://page.invalid/x.png">')
    log = tmp_path / "net.json"
    open_page(page, tmp_path / "profile", f"--log-net-log={log}")
    assert asked_by_pages(log) == {"http://page.invalid/x.png"}


def test_bars_are_as_long_as_their_numbers(site, tmp_path):
    """The drawn marks, not the specification: a reader's eye measures these."""
    dom, _ = open_page(
        site[page_file(PLAIN_RUN, "communication")], tmp_path / "profile", "--window-size=1280,2000"
    )
    chart = dom[dom.index('id="traffic-traffic-by-mesh-axis"') :]
    chart = chart[: chart.index("</svg>")]
    bars = re.findall(
        r'aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="bar"', chart
    )
    # tp4: 2.25 x 192 MiB and 2.25 x 36 MiB.
    amounts = {float(found) for bar in bars for found in re.findall(r"\(MB\): ([\d.]+)", bar)}
    assert amounts == {452.984832, 84.934656}
