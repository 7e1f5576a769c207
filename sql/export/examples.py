"""Questions and their queries: shown with the views that they name, and run by the tests."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files

from xlahouse.sql.guard import names_in_select
from xlahouse.sql.library import Library, View


@dataclass(frozen=True)
class Example:
    """A question and its query."""

    question: str  # in words
    sql: str  # answers it

    @cached_property
    def relations(self) -> frozenset[str]:
        """Tables and views that the query names."""
        return names_in_select(self.sql)


@lru_cache(maxsize=1)
def examples() -> tuple[Example, ...]:
    """All examples of `examples.sql`, in order, each with its question as a comment above."""
    text = files("xlahouse.sql.export").joinpath("examples.sql").read_text(encoding="utf-8")
    found = []
    for part in text.split(";\n"):
        lines = part.strip().splitlines()
        words = [line.removeprefix("-- ") for line in lines if line.startswith("--")]
        sql = "\n".join(line for line in lines if not line.startswith("--"))
        if sql:
            found.append(Example(" ".join(words), sql))
    return tuple(found)


def examples_of(library: Library, view: View) -> list[Example]:
    """The examples that name a view; one that shows a run's rows if no example does."""
    found = [
        example
        for example in examples()
        if any(
            library.pointers.get(relation, relation) == view.name for relation in example.relations
        )
    ]
    if found or not any(column.name == "run_id" for column in view.columns):
        return found
    name = view.base if library.pointers.get(view.base) == view.name else view.name
    sql = f"select {name}.*\nfrom {name} join runs using (run_id)\nwhere runs.name = $run\nlimit 20"
    return [Example("Which rows does one run have?", sql)]
