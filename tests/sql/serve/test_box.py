"""The SQL box in a real browser: a link's query runs, rows are text, and nothing else is loaded."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.reports.test_browser import CHROMIUM, FLAGS
from tests.sql.serve.conftest import HOSTILE, Server

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt install chromium"),
    pytest.mark.xdist_group("served"),
]


def open_box(server: Server, sql: str, profile: Path) -> tuple[str, str]:
    """The page of a link that holds a query, after its rows arrived, and what the browser logged."""
    import subprocess

    assert CHROMIUM is not None
    flags = [flag for flag in FLAGS if not flag.startswith("--host-resolver")]
    only_here = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    url = f"{server.url}/sql?{urlencode({'q': sql})}"
    command = [CHROMIUM, *flags, only_here, f"--user-data-dir={profile}", "--dump-dom", url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout, done.stderr


def cells(dom: str, kind: str) -> list[str]:
    return [
        unescape(re.sub(r"<.*?>", " ", found)).strip()
        for found in re.findall(rf"<{kind}\b[^>]*>(.*?)</{kind}>", dom, re.DOTALL)
    ]


def test_a_link_shows_its_rows_as_text(server: Server, tmp_path: Path) -> None:
    sql = "select op, duration_ps, null as n from ops order by op"
    dom, log = open_box(server, sql, tmp_path / "profile")
    assert "CONSOLE" not in log, log
    assert cells(dom, "td") == [
        *(HOSTILE, "9007199254740993", "NULL"),
        *("=1+1", "9007199254740993", "NULL"),
    ]
    assert [name.split()[0] for name in cells(dom, "th")] == ["op", "duration_ps", "n"]
    assert "picoseconds" in cells(dom, "th")[1]
    assert "<img" not in dom
    assert re.search(r'id="state"[^>]*>2 rows, ', dom)
    query = urlencode({"q": sql})
    for name, path in (("link", f"/sql?{query}"), ("csv", f"/api/file?{query}&format=csv")):
        link = re.search(rf'id="{name}" href="([^"]*)"', dom)
        assert link is not None
        assert unescape(link[1]) == path
        assert server.get(unescape(link[1]))[0] == 200


def test_an_error_is_a_line(server: Server, tmp_path: Path) -> None:
    dom, log = open_box(server, f"from '{HOSTILE}'", tmp_path / "profile")
    said = re.search(r'id="state"[^>]*class="error"[^>]*>(.*?)</p>', dom)
    assert said is not None
    assert unescape(said[1]).startswith(f"no table or view {HOSTILE}")
    assert "<img" not in dom
    assert cells(dom, "td") == []
    # A refused request is a message of the browser's own; nothing else is on the console.
    assert all("400" in line for line in log.splitlines() if "CONSOLE" in line), log
