"""A rendered page as a browser sees it."""

from __future__ import annotations

from html.parser import HTMLParser


class Page(HTMLParser):
    """The parts of a page: elements, text outside scripts, and the text of each script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag if tag in ("script", "style") else ""
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif not self._inside:
            self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def plain(text: str) -> str:
    """A text with blanks in place of those that do not break a line."""
    return text.replace("\u00a0", " ")
