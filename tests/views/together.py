"""Puts all given/expect cases into one warehouse: an engine is asked once a view, and runs may not mix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.views.given_expect import Case
from tests.warehouse import write_warehouse

RUN_IDS = ("run_id", "other_run_id")
PARENT = "parent_run_id"
OWN = ("model", "setup")  # by these, views compare runs: each case has its own


def write_together(root: Path, cases: Sequence[Case]) -> Path:
    """A warehouse at `root` with the rows of all cases."""
    return write_warehouse(root, rows_together(cases))


def rows_together(cases: Sequence[Case]) -> dict[str, list[dict[str, Any]]]:
    """The rows of all cases; the n-th case's runs are `<n>-<run_id>`, and so are their models and setups."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for number, case in enumerate(cases):
        rows = {"runs": [{}], **case.given} if not any(case.given.values()) else case.given
        for table, given in rows.items():
            tables.setdefault(table, []).extend(
                {**row, "run_id": _together(number, row.get("run_id", "r"))}
                | {name: _together(number, row[name]) for name in (*OWN, PARENT) if row.get(name)}
                for row in given
            )
    return tables


def _together(number: int, run_id: str) -> str:
    return f"{number}-{run_id}"


def answers(
    columns: list[str], rows: Iterable[tuple[Any, ...]], cases: Mapping[int, Case]
) -> dict[int, list[tuple[Any, ...]]]:
    """Number -> the case's rows in the case's columns, under the runs' own names, from all rows of the view.

    A pair of runs is the case's own where both are.
    """
    keys = [place for place, name in enumerate(columns) if name in RUN_IDS]
    own = [place for place, name in enumerate(columns) if name in OWN]
    places = {number: [columns.index(name) for name in cases[number].columns] for number in cases}
    found: dict[int, list[tuple[Any, ...]]] = {number: [] for number in cases}
    for row in rows:
        owners = {row[key].partition("-")[0] for key in keys}
        number = int(owners.pop())
        if owners or number not in cases:
            continue
        prefixed = [*keys, *(place for place in own if row[place])]
        named = {place: row[place].partition("-")[2] for place in prefixed}
        found[number].append(tuple(named.get(place, row[place]) for place in places[number]))
    return found


def own_rows(view: str, columns: Iterable[str]) -> str:
    """A query for a view's rows without pairs of different cases' runs, which are many."""
    keys = [name for name in columns if name in RUN_IDS]
    first, *others = [f"split_part({name}, '-', 1)" for name in keys]
    return f"select * from {view} where true" + "".join(f" and {key} = {first}" for key in others)
