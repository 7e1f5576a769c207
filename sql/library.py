"""Turns view files into documented, ordered objects: the file alone describes a view."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from importlib.resources import files
from typing import TYPE_CHECKING

from xlahouse.capture.errors import ViewError
from xlahouse.ingest.schema import BY_NAME
from xlahouse.ingest.table import Column, Table

if TYPE_CHECKING:
    from sqlglot import exp

# A view names the relations it reads after FROM or JOIN, and its own expressions before AS. A parser
# would take longer than the query; the lint checks that DuckDB's and sqlglot's find the same.
READS = re.compile(r"(?<!distinct )\b(?:from|join)\s+([a-z_][a-z0-9_]*)")
CTE_NAMES = re.compile(r"(?:\bwith|,)\s+([a-z_][a-z0-9_]*) as \(")
SEPARATOR = ",\n"
COMMENT = re.compile(r"--[^\n]*")
STEM = re.compile(r"^(?P<base>_?[a-z][a-z0-9_]*)_v(?P<version>[1-9][0-9]*)$")
GRAIN = re.compile(r"^-- (one row per .+)$")

# Users' settings as a relation: views join it, so a new setting needs no new ingest.
RUN_SETTINGS = Table(
    "run_settings",
    "run that a user has set something for",
    (
        Column("run_id", "str", "run"),
        Column("mesh", "mesh", "axes of the device mesh, major to minor; NULL: the run's own"),
        Column("device_kind", "str", "kind of device; NULL: the run's own"),
        Column("chip_flops_per_s", "float", "bf16 FLOP/s of a chip; NULL: as known"),
        Column("chip_hbm_bytes_per_s", "float", "HBM bandwidth of a chip; NULL: as known"),
        Column("link_bytes_per_s", "float", "bandwidth of one ICI link, one way; NULL: as known"),
        Column("shared_link_bytes_per_s", "float", "of a link that jobs share; NULL: not known"),
        Column("ttft_limit_s", "float", "limit on the time to first token; NULL: none"),
        Column("tpot_limit_s", "float", "limit on the time per output token; NULL: none"),
    ),
)
TABLES: dict[str, Table] = {**BY_NAME, RUN_SETTINGS.name: RUN_SETTINGS}


@dataclass(frozen=True)
class ViewColumn:
    """A column of a view."""

    name: str  # of the column
    meaning: str  # the comment above it


@dataclass(frozen=True)
class View:
    """One view file."""

    name: str  # with its version
    sql: str  # text of its file
    own: bool = False  # whether it is a user's, not shipped
    folder: str = ""  # of views/, where it is shipped

    @property
    def base(self) -> str:
        """The name without its version, under which the newest version is found."""
        return self.name if self._unversioned else _stem(self.name)["base"]

    @property
    def version(self) -> int:
        """The N of `_vN`."""
        return 1 if self._unversioned else int(_stem(self.name)["version"])

    @property
    def _unversioned(self) -> bool:
        return self.own and not STEM.match(self.name)

    @property
    def internal(self) -> bool:
        """Whether only other views use it: its name begins with an underscore."""
        return self.name.startswith("_")

    @property
    def grain(self) -> str:
        """`one row per …`.

        Raises:
            ViewError: the file does not begin with it.
        """
        match = GRAIN.match(self.sql.partition("\n")[0])
        if match is None:
            raise ViewError(self.name, "its first line is not `-- one row per …`")
        return match[1]

    @property
    def description(self) -> str:
        """The comment below the grain, as one paragraph; may be empty."""
        lines = []
        for line in self.sql.splitlines()[1:]:
            if not line.startswith("--"):
                break
            lines.append(line.removeprefix("--").strip())
        return " ".join(lines)

    @cached_property
    def column_names(self) -> list[str]:
        """Names of the columns, in order."""
        return [str(selected.alias_or_name) for selected in parse_view(self).selects]

    @cached_property
    def columns(self) -> tuple[ViewColumn, ...]:
        """Columns in order, each with the comment above it.

        Raises:
            ViewError: comments and columns of the final SELECT do not pair up.
        """
        return tuple(_columns(self))

    @cached_property
    def dependencies(self) -> frozenset[str]:
        """Tables and views that it reads.

        Raises:
            QueryError: a user's own does more than read tables and views, or does not parse.
        """
        if self.own:
            from xlahouse.sql.guard import names_in_select

            return names_in_select(self.sql)
        code = COMMENT.sub("", self.sql)
        return frozenset(READS.findall(code)) - frozenset(CTE_NAMES.findall(code))


def _stem(name: str) -> re.Match[str]:
    match = STEM.match(name)
    if match is None:
        raise ViewError(name, "its file is not named <name>_v<N>.sql")
    return match


def _columns(view: View) -> list[ViewColumn]:
    """Pair the comments of the final SELECT with its columns."""
    names, comments = view.column_names, column_comments(view)
    if len(comments) != len(names):
        raise ViewError(
            view.name,
            f"{len(names)} columns but {len(comments)} comments in its last SELECT; "
            "put a comment above every column",
        )
    return [ViewColumn(name, comment) for name, comment in zip(names, comments, strict=True)]


def column_comments(view: View) -> list[str]:
    """The comments above the columns of the final SELECT, in order.

    sqlglot moves comments to neighbouring tokens, so the text decides: each run of comment lines,
    indented by four, is followed by one column.
    """
    comments: list[str] = []
    inside = False
    for line in view.sql.rpartition("\nselect\n")[2].splitlines():
        if line.startswith("from "):
            break
        if line.startswith("    -- "):
            text = line.removeprefix("    -- ")
            if inside:
                comments[-1] += f" {text}"
            else:
                comments.append(text)
        inside = line.startswith("    -- ")
    return comments


def parse_view(view: View) -> exp.Query:
    """The view's syntax tree, by sqlglot.

    Raises:
        ViewError: it does not parse, or is not one SELECT.
    """
    from sqlglot import exp, parse
    from sqlglot.errors import SqlglotError

    try:
        statements = parse(view.sql, read="duckdb")
    except SqlglotError as error:
        raise ViewError(view.name, f"does not parse: {error}") from error
    except RecursionError as error:  # sqlglot follows fewer levels than DuckDB
        raise ViewError(view.name, "is nested too deeply; put parts into WITH") from error
    if len(statements) != 1 or not isinstance(statements[0], exp.Query):
        raise ViewError(view.name, "must be one SELECT")
    return statements[0]


@dataclass(frozen=True)
class Library:
    """All views by name, and the order in which they can be created."""

    views: dict[str, View]  # by name

    @cached_property
    def pointers(self) -> dict[str, str]:
        """Bare name -> newest version, of the views that are not internal."""
        newest: dict[str, View] = {}
        for view in self.views.values():
            known = newest.get(view.base)
            if not view.internal and (known is None or view.version > known.version):
                newest[view.base] = view
        return {base: view.name for base, view in sorted(newest.items())}

    @property
    def public(self) -> list[View]:
        """The views that users query, by name."""
        return [view for name, view in sorted(self.views.items()) if not view.internal]

    def names(self) -> set[str]:
        """Every name that a query may use: tables, views and bare pointers."""
        return {*TABLES, *self.views, *self.pointers}

    def find(self, name: str) -> View | None:
        """The view of that name, or the newest of that bare name."""
        return self.views.get(self.pointers.get(name, name))

    def closure(self, names: set[str], kept: Collection[str] = ()) -> tuple[set[str], list[View]]:
        """Tables and views that `names` rest on; views in an order that can be created.

        Views in `kept` exist already: they are left out, and so are relations that only they rest on.

        Raises:
            ViewError: a view reads an unknown name, or views read each other in a circle.
        """
        tables: set[str] = set()
        graph: dict[str, set[str]] = {}
        waiting = [self.pointers.get(name, name) for name in names]
        while waiting:
            name = waiting.pop()
            if name in TABLES:
                tables.add(name)
            elif name not in graph and name not in kept:
                read = {self.pointers.get(found, found) for found in self._reads(self.views[name])}
                graph[name] = {f for f in read if f not in TABLES and f not in kept}
                waiting += read
        try:
            order = list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            raise ViewError(error.args[1][0], "reads itself, through other views") from error
        return tables, [self.views[name] for name in order]

    def statement(self, name: str, kept: Collection[str] = ()) -> str:
        """A view as one SELECT over tables: the views it rests on come before it, each once.

        DuckDB would bind, and often run, a view again wherever another reads it. Views in `kept` are
        read as the tables that they are.

        Raises:
            ViewError: a view reads an unknown name, or views read each other in a circle.
        """
        _, views = self.closure({name}, kept)
        # Only a user's own views read a view without its version.
        bare = {read for view in views if view.own for read in view.dependencies - set(self.views)}
        named = {self.pointers[base]: base for base in sorted(bare) if base in self.pointers}
        parts = [_alias(base, view) for view, base in named.items() if view in kept]
        for view in views:
            parts.append(f"{view.name} as (\n{view.sql}\n)")
            if view.name in named:
                parts.append(_alias(named[view.name], view.name))
        head = f"with {SEPARATOR.join(parts)}\n" if parts else ""
        return f"{head}select * from {self.pointers.get(name, name)}"

    def kept_below(
        self, names: set[str], kept: Collection[str], ready: Collection[str]
    ) -> list[tuple[str, str]]:
        """(view, statement) of each view to keep that `names` rest on, in an order that can be created.

        Args:
            names: relations to be read.
            kept: views that are to be tables.
            ready: those of them that are tables already; a statement reads the tables before it too.

        Raises:
            ViewError: a view reads an unknown name, or views read each other in a circle.
        """
        there, found = set(ready), []
        for view in self.closure(names, ready)[1]:
            if view.name in kept:
                found.append((view.name, self.statement(view.name, there)))
                there.add(view.name)
        return found

    def shared(self, asked: Iterable[set[str]]) -> list[str]:
        """The views below two or more sets of names: worth computing once for all of them.

        Raises:
            ViewError: a view reads an unknown name, or views read each other in a circle.
        """
        below = Counter(view.name for names in asked for view in self.closure(names)[1])
        return [name for name, count in below.items() if count > 1]

    def _reads(self, view: View) -> frozenset[str]:
        for name in sorted(view.dependencies):
            known = name in TABLES or name in self.views or (view.own and name in self.pointers)
            if not known:
                raise ViewError(view.name, f"reads {name}, which is neither a table nor a view")
        return view.dependencies


def _alias(base: str, view: str) -> str:
    return f"{base} as (select * from {view})"


@lru_cache(maxsize=1)
def shipped() -> Library:
    """The views that come with xlahouse, sorted by stem, whichever folder holds them."""
    folders = (folder for folder in files("xlahouse.views").iterdir() if folder.is_dir())
    found = {
        file.name.removesuffix(".sql"): (folder.name, file)
        for folder in folders
        for file in folder.iterdir()
        if file.name.endswith(".sql")
    }
    views = {}
    for stem in sorted(found):
        folder, file = found[stem]
        views[stem] = View(stem, file.read_text(encoding="utf-8"), folder=folder)
    return Library(views)
