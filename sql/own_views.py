"""Reads a user's own views, `user_views/*.sql` of a warehouse, beside the shipped views."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xlahouse.capture.errors import XlahouseError, one_line
from xlahouse.sql.library import TABLES, Library, View
from xlahouse.sql.listing import reading
from xlahouse.sql.place import Place

FOLDER = "user_views"
NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class OwnViews:
    """The views of a warehouse."""

    library: Library  # shipped views and the user's
    problems: tuple[str, ...]  # a line for each file that is left out


def with_own_views(place: Place, shipped: Library) -> OwnViews:
    """The library of a warehouse; a file at fault costs itself and the views that read it.

    Raises:
        WarehouseError: the folder cannot be read.
    """
    with reading(place.root):
        files = [name for name in place.names(FOLDER) if name.endswith(".sql")]
    problems: dict[str, str] = {}
    views: dict[str, View] = {}
    for name in (file.removesuffix(".sql") for file in files):
        said = _name_fault(name, shipped)
        try:
            raw = place.read(f"{FOLDER}/{name}.sql")
            views[name] = View(name, raw.decode("utf-8-sig").rstrip().rstrip(";"), own=True)
        except UnicodeDecodeError:
            said = "it is not UTF-8"
        except Exception as error:  # each kind of store has its own errors
            said = one_line(error)
        if said:
            problems[name] = said
            views.pop(name, None)
    while fault := _first_fault(shipped, views):
        name, said = fault
        problems[name] = said
        del views[name]
    lines = (f"{FOLDER}/{name}.sql is left out: {said}" for name, said in problems.items())
    return OwnViews(Library({**shipped.views, **views}), tuple(lines))


def _name_fault(name: str, shipped: Library) -> str | None:
    if not NAME.fullmatch(name):
        return "a view's name is lower-case letters, digits and _, and begins with a letter"
    if name in TABLES:
        return f"{name} is a table of xlahouse; give the file another name"
    own_base = View(name, "", own=True).base
    if name in shipped.names() or own_base in shipped.pointers:
        return f"{own_base} is a view of xlahouse; give the file another name"
    return None


def _first_fault(shipped: Library, views: dict[str, View]) -> tuple[str, str] | None:
    """A view that cannot be used beside the other views, and the reason."""
    library = Library({**shipped.views, **views})
    for name in sorted(views):
        try:
            for read in views[name].dependencies:
                if read not in TABLES and read not in library.names():
                    return name, f"it reads {read}, which is neither a table nor a view"
            library.closure({name})
        except XlahouseError as error:
            return name, str(error)
    return None
