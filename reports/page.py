"""Sections -> HTML with its styles and charts; it needs no network, and at most the script beside it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from importlib.resources import files

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup, escape

# Inside a script element these would end it, open a comment, or break a line of JavaScript.
_SEPARATOR = re.compile(r"([/_.,=-])")
_BEFORE_UNIT = re.compile(r"(?<=[0-9]) (?=%|(?:[pnµm]?s|[kMGT]?B)\b)")
_CODE, _AS_CODE = re.compile(r"`([^`]+)`"), r"<code>\1</code>"
_bundle: list[str] = []  # page_script, once it is made
LIBRARY = "vega.js"  # the script, once beside all pages
_IN_SCRIPT = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)


def render_page(template: str, values: Mapping[str, object]) -> str:
    """Fill a template; every value is escaped, so names in traces stay text.

    Args:
        template: file name beside this module, such as `run.html`.
        values: the names in the template; a missing one is an error. `library` is the file of the
            script; empty: the script is within the page. `tables`: whether rows can be sorted.
    """
    library = values["library"]
    script = "" if library else page_script()
    small = _read("tables.js") if values.get("tables") else ""
    # No default source: the browser itself refuses any request but that for the script beside the page.
    # Some browsers hold that 'self' is not a file.
    allowed = ["'self' file:"] if library else [f"'{_sha256(script)}'"]
    allowed += [f"'{_sha256(small)}'"] if small else []
    policy = (
        f"default-src 'none'; script-src {' '.join(allowed)}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    ours = {
        "script": Markup(script),
        "small_script": Markup(small),
        "styles": Markup(_read("style.css")),
        "policy": policy,
    }
    return _environment().get_template(template).render(**values, **ours)


def script_json(value: object) -> Markup:
    """JSON that is safe inside a script element, whatever strings it holds."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Markup(text.translate(_IN_SCRIPT))


def breakable(text: str) -> Markup:
    """Escaped text that may break after a separator: file and run names have no spaces."""
    return Markup(_CODE.sub(_AS_CODE, _SEPARATOR.sub(r"\1<wbr>", str(escape(text)))))


def unbroken(text: str) -> str:
    """The text with each unit on the line of its number: sentences of `summary` are also for terminals."""
    return _BEFORE_UNIT.sub("\u00a0", text)


def coded(text: str) -> Markup:
    """Escaped text whose commands, between backquotes, are code; its units stay with their numbers."""
    parts = str(escape(text)).split("`")
    parts[::2] = map(unbroken, parts[::2])  # outside commands, which are copied
    return Markup(_CODE.sub(_AS_CODE, "`".join(parts)))


def page_script() -> str:
    """charts.js with Vega, Vega-Lite and Vega-Embed, bundled by vl_convert: the repository has no copy."""
    if not _bundle:
        import vl_convert

        keep_script(vl_convert.javascript_bundle(_read("charts.js")))
    return _bundle[0]


def script_key() -> str:
    """Changes where the bundle would: making it takes seconds."""
    return _sha256(version("vl-convert-python") + _read("charts.js"))


def keep_script(script: str) -> None:
    """Take a bundle that another process made: making it takes seconds."""
    _bundle[:] = [script]


@cache
def _environment() -> Environment:
    names = ("base.html", "index.html", "run.html", "site.html", "parts.html")
    environment = Environment(
        loader=DictLoader({name: _read(name) for name in names}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["script_json"] = script_json
    environment.filters["breakable"] = breakable
    environment.filters["coded"] = coded
    environment.filters["unbroken"] = unbroken
    return environment


def _read(name: str) -> str:
    return files("xlahouse.reports").joinpath(name).read_text(encoding="utf-8")


def _sha256(text: str) -> str:
    # A browser hashes the script after line ends are normalised; our files have only \n.
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
