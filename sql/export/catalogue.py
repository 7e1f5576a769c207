"""Describes tables and views to people: the command line's lists, and the tables in views/README.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from xlahouse.capture.errors import QueryError, ViewError
from xlahouse.ingest.table import Table
from xlahouse.sql.library import TABLES, Library, View, shipped
from xlahouse.sql.nearest import suggest

BEGIN, END = "<!-- views:begin -->", "<!-- views:end -->"


def list_views(library: Library) -> Iterator[tuple[str, str]]:
    """Name and grain of the newest version of each view that users query, by name."""
    newest = (library.views[name] for name in library.pointers.values())
    return ((view.name, documented(view)[0]) for view in newest)


def list_tables() -> Iterator[tuple[str, str]]:
    """Name and grain of each table."""
    return ((table.name, f"one row per {table.row}") for table in TABLES.values())


def find_view(library: Library, name: str) -> View:
    """The view of that name, or the newest of that bare name.

    Raises:
        ViewError: no view has that name.
    """
    view = library.find(name)
    if view is None and name in TABLES:
        raise ViewError(name, f"{name} is a table; see `xlahouse tables {name}`")
    if view is None:
        known = [known.name for known in library.public]
        hint = suggest(name, [*library.pointers, *known]) or "; `xlahouse views` lists them"
        raise ViewError(name, f"there is no such view{hint}")
    return view


def find_table(name: str) -> Table:
    """The table of that name.

    Raises:
        QueryError: no table has that name.
    """
    if name not in TABLES and shipped().find(name):
        raise QueryError(f"{name} is a view; see `xlahouse views {name}`", "")
    if name not in TABLES:
        hint = suggest(name, TABLES) or "; `xlahouse tables` lists them"
        raise QueryError(f"there is no table {name}{hint}", "")
    return TABLES[name]


def describe_view(library: Library, view: View) -> str:
    """A view's documentation, where each column comes from, examples, and its SQL, as text."""
    from xlahouse.sql.export.examples import examples_of
    from xlahouse.sql.export.lineage import origins

    pointer = library.pointers.get(view.base)
    also = f" (also as {view.base})" if pointer == view.name != view.base else ""
    tables, views = library.closure({view.name})
    grain, columns = documented(view)
    parts = [f"{view.name}{also}: {grain}"]
    if view.description:
        parts.append(view.description)
    parts.append(_columns(columns))
    rests = [*sorted(tables), *(other.name for other in views if other is not view)]
    parts.append(f"rests on: {', '.join(rests)}")
    made = [
        (name, ", ".join(found)) for name, found in origins(library, view.name).items() if found
    ]
    if made:
        parts.append(f"made of:\n{_columns(made)}")
    parts += [f"-- {example.question}\n{example.sql};" for example in examples_of(library, view)]
    return "\n\n".join([*parts, view.sql.rstrip() + "\n"])


def documented(view: View) -> tuple[str, list[tuple[str, str]]]:
    """Grain and columns with their meaning; empty where a user's own view has no documentation."""
    try:
        return view.grain, [(column.name, column.meaning) for column in view.columns]
    except ViewError:
        if not view.own:
            raise
        return "a view of this warehouse's own", [(name, "") for name in view.column_names]


def describe_table(table: Table) -> str:
    """A table's columns with type and meaning, as text."""
    rows = [(f"{column.name} {column.type}", column.meaning) for column in table.columns]
    return f"{table.name}: one row per {table.row}\n\n{_columns(rows)}\n"


def _columns(rows: list[tuple[str, str]]) -> str:
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name.ljust(width)}  {meaning}" for name, meaning in rows)


def catalogue(library: Library) -> str:
    """The views as Markdown, one table a folder, between the two markers of views/README.md."""
    parts = [BEGIN]
    newest = [library.views[name] for name in library.pointers.values()]
    for folder in sorted({view.folder for view in newest}):
        parts.append(f"## {folder}\n\n| view | one row per | description |\n| --- | --- | --- |")
        for view in newest:
            if view.folder == folder:
                parts[-1] += f"\n| `{view.base}` | {_grain(view)} | {_first_sentence(view)} |"
    return "\n\n".join([*parts, END])


def _grain(view: View) -> str:
    return _cell(view.grain.removeprefix("one row per "))


def _first_sentence(view: View) -> str:
    first, more, _ = view.description.partition(". ")
    return _cell(f"{first}." if more else first)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> None:
    """Rewrite the catalogue in a README, which is views/README.md of this tree."""
    readme = Path(sys.argv[1])
    text = readme.read_text(encoding="utf-8")
    before, after = text[: text.index(BEGIN)], text[text.index(END) + len(END) :]
    readme.write_text(before + catalogue(shipped()) + after, encoding="utf-8")


if __name__ == "__main__":
    main()
