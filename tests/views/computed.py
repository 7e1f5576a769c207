"""All given/expect cases' rows in one database, and every view computed from the rows of those below it.

A view is planned alone, not with all that it rests on, and once for all cases.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any

import duckdb

from tests.views.given_expect import Case
from tests.views.together import answers, own_rows, rows_together
from tests.warehouse import CONFIG, fill_tables
from xlahouse.sql.library import View, shipped


class Computed:
    """A database of all cases' tables, and the views that were asked for, as tables.

    Args:
        cases: whose rows it holds.
        sql: view -> its statement.
    """

    def __init__(self, cases: Sequence[Case], sql: MutableMapping[str, str]) -> None:
        self._cases, self.sql = cases, sql
        self.database = duckdb.connect(config=CONFIG)
        fill_tables(self.database, rows_together(cases))
        self.order: list[View] = shipped().closure(set(shipped().views))[1]
        # Pairs of different cases' runs are too many to keep.
        self.pairs = {view.name for view in self.order if "other_run_id" in view.sql}
        self._kept: set[str] = set()

    def below(self, name: str) -> list[str]:
        """The views that a view rests on, and the view itself, in an order that can be created."""
        return [view.name for view in shipped().closure({name})[1]]

    def with_(self, name: str) -> str:
        """The WITH of a view's query: the view itself and pairs below it, which are not kept as tables.

        Pairs see the runs of their view's own cases alone: all others pair with each other for nothing.
        """
        below = self.below(name)
        parts = [
            f"{each} as (\n{self.sql[each]}\n)"
            for each in below
            if each == name or each in self.pairs
        ]
        if name in self.pairs:
            parts = [*self._own(name, below), *parts]
        return f"with {', '.join(parts)}"

    def _own(self, name: str, below: list[str]) -> list[str]:
        """The relations that pairs read, with the rows of a view's own cases."""
        ours = ", ".join(
            f"'{number}'" for number, case in enumerate(self._cases) if case.view == name
        )
        paired = [shipped().views[each] for each in below if each in self.pairs]
        read = {each for view in paired for each in view.dependencies} - self.pairs
        return [
            f"{each} as (select * from {each} where split_part(run_id, '-', 1) in ({ours}))"
            for each in sorted(read)
        ]

    def keep(self, name: str) -> None:
        """Compute a view and those below it, where that is not done yet."""
        for each in self.below(name):
            if each not in self.pairs and each not in self._kept:
                self.database.execute(
                    f"create table {each} as {self.with_(each)} select * from {each}"
                )
                self._kept.add(each)

    def rows(self, view: str) -> list[tuple[Case, list[tuple[Any, ...]]]]:
        """Each case of a view, and the rows that the view gives in it, in its columns.

        They come from the tables that the database's search path finds; `keep` makes those that lack.
        """
        columns = [column.name for column in shipped().views[view].columns]
        with_ = f"{self.with_(view)} " if view in self.pairs else ""
        cursor = self.database.execute(f"{with_}{own_rows(view, columns)}")
        names = [column[0] for column in cursor.description or ()]
        own = {number: case for number, case in enumerate(self._cases) if case.view == view}
        found = answers(names, cursor.fetchall(), own)
        return [(case, found[number]) for number, case in own.items()]
