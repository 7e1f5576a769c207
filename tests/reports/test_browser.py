"""Pages in a real browser, from a file: every chart drawn, no console message, nothing asked of a network."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

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


@pytest.mark.parametrize(
    ("name", "charts", "width"),
    [
        ("index.html", 2, 1280),
        ("run-script-alert-1-script.html", 12, 1280),
        ("run-plain.html", 12, 400),
        ("run-bare.html", 0, 1280),
    ],
)
def test_every_chart_is_drawn_in_silence(site, tmp_path, name, charts, width):
    log = tmp_path / "net.json"
    dom, stderr = open_page(
        site[name], tmp_path / "profile", f"--window-size={width},2000", f"--log-net-log={log}"
    )
    assert dom.count('data-state="drawn"') == charts
    assert dom.count('data-state="failed"') == 0
    assert len(re.findall(r'<svg[^>]* class="marks"', dom)) == charts
    assert "CONSOLE" not in stderr, stderr
    assert asked_by_pages(log) == set()


def test_a_request_of_a_page_would_be_seen(tmp_path):
    """The check above can fail: this page asks for something."""
    page = tmp_path / "page.html"
    page.write_text('<!doctype html><title>x</title><img src="http://page.invalid/x.png">')
    log = tmp_path / "net.json"
    open_page(page, tmp_path / "profile", f"--log-net-log={log}")
    assert asked_by_pages(log) == {"http://page.invalid/x.png"}


def test_bars_are_as_long_as_their_numbers(site, tmp_path):
    """The drawn marks, not the specification: a reader's eye measures these."""
    dom, _ = open_page(site["run-plain.html"], tmp_path / "profile", "--window-size=1280,2000")
    chart = dom[dom.index('id="traffic-0"') :]
    chart = chart[: chart.index("</svg>")]
    bars = re.findall(
        r'aria-label="([^"]*)" role="graphics-symbol" aria-roledescription="bar"', chart
    )
    # tp4: 2.25 x 192 MiB and 2.25 x 36 MiB.
    amounts = {float(found) for bar in bars for found in re.findall(r"\(MB\): ([\d.]+)", bar)}
    assert amounts == {452.984832, 84.934656}
