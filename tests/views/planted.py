"""Tries views with a fault in them on all given/expect cases at once, on DuckDB.

`python -m tests.views.planted [VIEW]… [TEXT]…` tries every fault and takes minutes; the test tries some.
"""

from __future__ import annotations

import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import duckdb

from tests.views.computed import Computed
from tests.views.given_expect import Case, cases, concerns
from tests.views.harmless import EXCUSED
from tests.views.mutants import Mutant, mutants, written
from xlahouse.sql.library import Library, View, parse_view, shipped

# A join that lost its key can make more rows than anybody waits for, or than memory holds; all cases
# together take a view hardly a second and a few hundred megabytes. The seconds are of CPU: that a machine is
# busy must not count as a fault that was caught.
LIMIT_S = 15
LIMIT_BYTES = 4 << 30


def faults(view: View) -> list[Mutant]:
    """What is planted in a view: every mutant that a case must tell from the view."""
    excused = EXCUSED.get(view.name, set())
    return [mutant for mutant in mutants(view) if mutant.fault not in excused]


class Bench:
    """All cases' rows and every view's rows in tables: a fault is computed from the rows below its view."""

    def __init__(self, given: list[Case]) -> None:
        self._library: Library = shipped()
        self._cases = given
        # As mutants are written, so that the writing itself cannot be what a case catches.
        self._sql = {name: written(parse_view(view)) for name, view in shipped().views.items()}
        self._computed = Computed(given, self._sql)
        self._database, self.order = self._computed.database, self._computed.order
        self._pairs = self._computed.pairs
        for view in self.order:
            self._computed.keep(view.name)
        self._sound = {view.name: self._answer(view.name) for view in self._library.public}

    def _answer(self, view: str) -> dict[str, Counter[Any]]:
        """Case -> its rows by a view, in its columns."""
        return {
            case.name: Counter(_row(row) for row in rows if concerns(case, row))
            for case, rows in self._computed.rows(view)
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
        sound, self._sql[mutant.view] = self._sql[mutant.view], mutant.sql
        self._database.execute("create schema faulty; set search_path = 'faulty,main'")
        try:
            return self._shows(mutant.view)
        except (duckdb.Error, MemoryError):
            return True
        finally:
            self._database.execute("set search_path = 'main'; drop schema faulty cascade")
            self._sql[mutant.view] = sound

    def _shows(self, faulty: str) -> bool:
        """Whether a case sees the view `faulty`: upwards from it, as far as rows differ."""
        different: set[str] = set()
        for view in self.order:
            name = view.name
            if name != faulty and not different & view.dependencies:
                continue
            with self._limited():
                if name not in self._pairs and not self._creates(name):
                    continue
                different.add(name)
                if not view.internal and self._answer(name) != self._sound[name]:
                    return True
        return False

    def _creates(self, name: str) -> bool:
        """Create the table of a view above the fault, over the sound one; whether its rows differ."""
        sql = f"{self._computed.with_(name)} select * from {name}"
        self._database.execute(f"create table faulty.{name} as {sql}")
        sides = [f"faulty.{name}", f"main.{name}"]
        halves = [f"(from {a} except all from {b})" for a, b in (sides, sides[::-1])]
        found = self._database.execute(
            f"select exists {halves[0]} or exists {halves[1]}"
        ).fetchone()
        return bool(found and found[0])

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Interrupt a statement that takes longer than LIMIT_S, and refuse it more than LIMIT_BYTES."""
        done, until = Event(), time.process_time() + LIMIT_S
        watch = Thread(target=self._interrupt, args=(done, until))
        watch.start()
        before, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + LIMIT_BYTES, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (before, hard))
            done.set()
            watch.join()

    def _interrupt(self, done: Event, until: float) -> None:
        """Interrupt the database once this process has had so many seconds of CPU, unless it is done."""
        while not done.wait(0.1):
            if time.process_time() > until:
                self._database.interrupt()


def _address_space() -> int:
    """Bytes of this process's address space."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


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
    bench = Bench(list(cases()))
    for view in (each for each in bench.order if each.name in named):
        tried = [each for each in faults(view) if all(text in str(each) for text in texts)]
        missed = [str(mutant) for mutant in tried if not bench.catches(mutant)]
        print(f"{view.name}: {len(tried)} faults, {len(missed)} not caught {missed}", flush=True)


if __name__ == "__main__":
    main()
