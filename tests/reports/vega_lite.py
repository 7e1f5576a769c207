"""What tests ask of a chart: that Vega-Lite accepts it, what it holds, what is drawn of it."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files

import jsonschema
import vl_convert


@cache
def _validator() -> jsonschema.Draft7Validator:
    text = files("altair.vegalite.v6.schema").joinpath("vega-lite-schema.json").read_text("utf-8")
    return jsonschema.Draft7Validator(json.loads(text))


def is_valid(spec) -> bool:
    """Whether Vega-Lite's schema accepts a specification. Rows of data may be any objects: two are enough."""
    few = {name: rows[:2] for name, rows in spec.get("datasets", {}).items()}
    return _validator().is_valid({**spec, "datasets": few})


def assert_valid(section) -> None:
    """Every figure of a filled panel has a specification that the schema accepts, and a title."""
    assert section.figures
    for figure in section.figures:
        assert figure.problem == ""
        assert figure.title
        assert is_valid(figure.spec)


def drawn(spec) -> str:
    """The chart as SVG, at a width that a page would give."""
    fixed = {**spec, "width": 500}
    return vl_convert.vegalite_to_svg(fixed)


def texts(spec) -> list[str]:
    """Every text that is drawn: labels, titles, legends, marks."""
    found = re.findall(r"<(?:text|tspan)[^>]*>([^<]+)</", drawn(spec))
    return [text.replace("\u00a0", " ") for text in found]


def layers(spec):
    """The layers of a chart, or the chart itself."""
    return spec.get("layer", [spec])


def data(spec, layer=0):
    """Rows that a layer draws."""
    source = layers(spec)[layer].get("data", spec.get("data"))
    return spec["datasets"][source["name"]]
