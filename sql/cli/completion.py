"""Completes the word before the cursor: tables, views, columns, functions, keywords."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from xlahouse.capture.errors import XlahouseError
from xlahouse.sql.guard import REFUSED_FUNCTIONS
from xlahouse.sql.library import TABLES, Library

WORD = re.compile(r"\w*$")
QUALIFIED_WORD = re.compile(r"(\w+)\.(\w*)$")
BEHIND_RELATION = re.compile(r"\b(?:from|join|describe|summarize|show)\s+\w*$", re.IGNORECASE)
ALIAS = r"\b{relation}\s+(?:as\s+)?(\w+)\b"
KEYWORDS = (
    *("select", "from", "where", "group by all", "order by all", "limit", "join", "left join"),
    *("using (run_id)", "having", "with", "as", "and", "or", "not", "is null", "is not null"),
    *("case when", "then", "else", "end", "distinct", "describe", "summarize", "explain"),
    *("union all", "over (partition by", "between", "in", "desc", "filter (where"),
)
FUNCTIONS = """
    select distinct function_name from duckdb_functions()
    where function_type in ('scalar', 'aggregate') and regexp_full_match(function_name, '[a-z]\\w*')
    order by all
"""


@dataclass(frozen=True)
class Suggestion:
    """A word that may follow."""

    text: str  # the word
    kind: str  # table, view, function, keyword, or the relation that a column is of


@dataclass(frozen=True)
class Words:
    """The words of a warehouse's SQL."""

    library: Library  # the warehouse's views

    @cached_property
    def relations(self) -> dict[str, str]:
        """Name -> table or view, of all that queries may name and that is not inside a view."""
        views = {
            name: "view"
            for name in sorted(self.library.names() - set(TABLES))
            if not name.startswith("_")
        }
        return {**dict.fromkeys(sorted(TABLES), "table"), **views}

    @cached_property
    def functions(self) -> list[str]:
        """Functions that a query may call."""
        import duckdb

        with duckdb.connect(":memory:") as connection:
            found = [name for (name,) in connection.execute(FUNCTIONS).fetchall()]
        return [name for name in found if name not in REFUSED_FUNCTIONS]

    def columns(self, relation: str) -> list[str]:
        """A relation's columns; none where it is unknown or cannot be read."""
        if relation in TABLES:
            return [column.name for column in TABLES[relation].columns]
        view = self.library.find(relation)
        try:
            return view.column_names if view else []
        except XlahouseError:
            return []

    def complete(self, before: str, whole: str) -> Iterator[Suggestion]:
        """Suggestions for the last word of `before`, the nearest kind first; `whole` is all the text.

        After a dot: columns of that relation or alias. After FROM and its like: relations. Elsewhere:
        columns of the relations that the text names, then functions and keywords.
        """
        named = [word for word in self.relations if re.search(rf"\b{word}\b", whole)]
        qualified = QUALIFIED_WORD.search(before)
        if qualified:
            found = self._qualified(qualified[1], named, whole)
            start = qualified[2]
        else:
            match = WORD.search(before)
            start = match[0] if match else ""
            found = self._plain(before, named)
        seen: set[str] = set()
        for suggestion in found:
            fits = suggestion.text.startswith(start.lower()) and suggestion.text != start
            if fits and suggestion.text not in seen:
                seen.add(suggestion.text)
                yield suggestion

    def _qualified(self, prefix: str, named: list[str], whole: str) -> Iterator[Suggestion]:
        for relation in named:
            aliases = re.findall(ALIAS.format(relation=relation), whole)
            if prefix == relation or prefix in aliases:
                yield from (Suggestion(column, relation) for column in self.columns(relation))

    def _plain(self, before: str, named: list[str]) -> Iterator[Suggestion]:
        if BEHIND_RELATION.search(before):
            yield from (Suggestion(name, kind) for name, kind in self.relations.items())
            return
        for relation in named:
            yield from (Suggestion(column, relation) for column in self.columns(relation))
        if WORD.search(before)[0]:  # type: ignore[index]  # it matches anything
            yield from (Suggestion(name, kind) for name, kind in self.relations.items())
            yield from (Suggestion(name, "function") for name in self.functions)
            yield from (Suggestion(word, "keyword") for word in KEYWORDS)
