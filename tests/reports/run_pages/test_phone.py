"""A run's page in a browser as wide as a phone."""

from __future__ import annotations

import re

from tests.reports import test_browser
from tests.reports.example import Store, example_run
from tests.reports.test_browser import open_page, with_script
from xlahouse.reports.site import render_site

pytestmark = test_browser.pytestmark

# Which texts of charts lie outside their chart, and are cut off there.
CUT = """
addEventListener("load", async () => {
  const places = [...document.querySelectorAll("[data-spec]")];
  const done = () => places.every((place) => place.dataset.state === "drawn");
  while (!done()) await new Promise((next) => setTimeout(next, 20));
  const cut = places.flatMap((place) => {
    const svg = place.querySelector("svg");
    const { left, right } = svg.getBoundingClientRect();
    return [...svg.querySelectorAll("text")].filter((text) => {
      const box = text.getBoundingClientRect();
      return box.left < left - 2 || box.right > right + 2;
    });
  });
  document.documentElement.dataset.width = document.body.offsetWidth;
  document.documentElement.dataset.cut = cut.map((text) => text.textContent).join("|");
});
"""


def test_on_a_phone_no_text_of_a_chart_is_cut_off(tmp_path):
    """Names this long leave a plot less room than the title of its axis needs."""
    tables = example_run("r", "long", {"fsdp": 2, "tp": 2})
    exposed = {"run_id": "r", "phase": "decode", "axis": "fsdp+tp", "kind": "reduce-scatter"}
    exposed |= {"layer": 10, "component": "attention", "op": "reduce-scatter.1", "count": 1}
    exposed |= {"in_flight_ps": 9, "exposed_ps": 8.0, "exposed_ratio": 0.5}
    tables["exposed_collective_v1"] = [exposed]
    (path,) = render_site(Store(tables), tmp_path / "site", pages=["communication"]).pages
    page = with_script(path, CUT, tmp_path / "page.html")
    # No window is narrower than 500 px, so the page is made so; its rules for phones apply in both.
    html = page.read_text("utf-8").replace("style-src", "style-src 'unsafe-inline'; x-src", 1)
    page.write_text(html.replace("</head>", "<style>body { width: 400px; }</style></head>", 1))
    dom, _ = open_page(page, tmp_path / "profile", "--window-size=500,1000")
    assert re.findall(r'data-(width|cut)="([^"]*)"', dom[:2000]) == [("width", "400"), ("cut", "")]
