"""Tries views with a fault in them on all given/expect cases at once, on DuckDB.

`python -m tests.views.planted [VIEW]… [TEXT]…` tries every fault and takes minutes; the test tries some.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any

import duckdb

from tests.views.given_expect import Case, cases, concerns
from tests.views.harmless import EXCUSED
from tests.views.mutants import Mutant, mutants, written
from tests.views.together import answers, own_rows, write_together
from xlahouse.sql import Warehouse
from xlahouse.sql.library import TABLES, Library, View, parse_view, shipped

# A join that lost its key can make more rows than anybody waits for; all cases together take a view
# hardly a second.
LIMIT_S = 15


def faults(view: View) -> list[Mutant]:
    """What is planted in a view: every mutant that a case must tell from the view."""
    excused = EXCUSED.get(view.name, set())
    return [mutant for mutant in mutants(view) if mutant.fault not in excused]


class Bench:
    """All cases' rows and every view's rows in tables: a fault is computed from the rows below its view."""

    def __init__(self, root: Path, given: list[Case]) -> None:
        self._library: Library = shipped()
        self._cases = given
        self._database = duckdb.connect()
        with Warehouse(write_together(root, given)) as warehouse:
            for table in TABLES:
                rows = warehouse.query(f"select * from {table}").arrow()
                self._database.register("given", rows)
                self._database.execute(f"create table {table} as select * from given")
        self.order: list[View] = self._library.closure(set(self._library.views))[1]
        # As mutants are written, so that the writing itself cannot be what a case catches.
        self._sql = {view.name: written(parse_view(view)) for view in self.order}
        self._below = {
            view.name: [each.name for each in self._library.closure({view.name})[1]]
            for view in self.order
        }
        self._pairs = {v.name for v in self.order if "other_run_id" in v.column_names}
        for view in self.order:
            if view.name not in self._pairs:  # pairs of different cases' runs are too many to keep
                sql = f"{self._with(view.name, self._pairs)} select * from {view.name}"
                self._database.execute(f"create table {view.name} as {sql}")
        self._sound = {view.name: self._answer(view.name, set()) for view in self._library.public}

    def _with(self, name: str, computed: set[str]) -> str:
        """The WITH of a view's query: the view itself and those below it that are not read as tables."""
        parts = [
            f"{each} as (\n{self._sql[each]}\n)"
            for each in self._below[name]
            if each == name or each in computed
        ]
        return f"with {', '.join(parts)}"

    def _answer(self, view: str, changed: set[str]) -> dict[str, Counter[Any]]:
        """Case -> its rows by a view, in its columns; `changed`: views that tables no longer hold."""
        names = [column.name for column in self._library.views[view].columns]
        sql = f"{self._with(view, self._pairs | changed)} {own_rows(view, names)}"
        cursor = self._database.execute(sql)
        columns = [column[0] for column in cursor.description or ()]
        rows = cursor.fetchall()
        return {
            case.name: Counter(
                _row(row) for row in answers(columns, rows, number, case) if concerns(case, row)
            )
            for number, case in enumerate(self._cases)
            if case.view == view
        }

    def unexpected(self) -> list[str]:
        """Views that do not give what they should though nothing is planted."""
        expected = {
            view: {case.name: case for case in self._cases if case.view == view}
            for view in self._sound
        }
        return [
            str(case)
            for view, found in self._sound.items()
            for name, case in expected[view].items()
            if Counter(map(_row, case.rows)) != found[name] and not case.tolerance
        ]

    def catches(self, mutant: Mutant) -> bool:
        """Whether a case of the view, or of one on top of it, fails or does not end with the fault in it,
        or the fault cannot happen, as the statement does not bind."""
        changed = {name for name, below in self._below.items() if mutant.view in below}
        sound, self._sql[mutant.view] = self._sql[mutant.view], mutant.sql
        try:
            return any(
                self._differs(view.name, changed)
                for view in self.order
                if view.name in changed and not view.internal
            )
        finally:
            self._sql[mutant.view] = sound

    def _differs(self, view: str, changed: set[str]) -> bool:
        try:
            with self._limited():
                return self._answer(view, changed) != self._sound[view]
        except duckdb.Error:
            return True

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Interrupt what takes longer than LIMIT_S."""
        timer = Timer(LIMIT_S, self._database.interrupt)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()


def _row(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Floats to 12 digits: sums of doubles depend on their order. Lists, which have no hash, as tuples."""
    return tuple(_row(tuple(v)) if isinstance(v, list) else _digits(v) for v in row)


def _digits(value: Any) -> Any:
    is_number = isinstance(value, float | int) and not isinstance(value, bool)
    return float(f"{value:.12g}") if is_number else value


def main() -> None:
    """Try every fault of the views named, or of all, and print the faults that no case catches.

    Arguments that are not the name of a view are texts: only faults that hold them all are tried.
    """
    views = set(shipped().views)
    named = views & set(sys.argv[1:]) or views
    texts = [word for word in sys.argv[1:] if word not in views]
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), list(cases()))
        for view in (each for each in bench.order if each.name in named):
            tried = [each for each in faults(view) if all(text in str(each) for text in texts)]
            missed = [str(mutant) for mutant in tried if not bench.catches(mutant)]
            print(
                f"{view.name}: {len(tried)} faults, {len(missed)} not caught {missed}", flush=True
            )


if __name__ == "__main__":
    main()
