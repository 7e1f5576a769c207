"""Reads given/expect cases and compares rows, order-free, exactly or within a stated tolerance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from xlahouse.sql.library import shipped

FOLDER = Path(__file__).parent
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C takes a tenth of the time


@dataclass(frozen=True)
class Case:
    """One case: rows given per table -> rows that the view gives, in the columns named.

    only: column -> value; rows of the view with another value there are no matter of the case.
    """

    view: str
    name: str
    given: dict[str, list[dict[str, Any]]]
    columns: list[str]
    rows: list[tuple[Any, ...]]
    tolerance: float
    only: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.view}: {self.name}"


def cases() -> tuple[Case, ...]:
    """Every case of every `<view>.yaml`; nothing may change their rows."""
    return tuple(case for path in sorted(FOLDER.rglob("*_v*.yaml")) for case in _cases_in(path))


def cases_of(view: str) -> tuple[Case, ...]:
    """The cases of a view: at collection, where reading all of them would take seconds."""
    return _cases_in(FOLDER / shipped().views[view].folder / f"{view}.yaml")


@cache
def _cases_in(path: Path) -> tuple[Case, ...]:
    return tuple(_read(path))


def _read(path: Path) -> Iterator[Case]:
    for raw in yaml.load(path.read_text(), LOADER):
        unknown = set(raw) - {"case", "how", "given", "expect", "tolerance"}
        assert not unknown, f"{path.name}: {unknown}"
        given = {name: _rows(rows) for name, rows in raw["given"].items()}
        columns, only = raw["expect"]["columns"], raw["expect"].get("only", {})
        assert set(only) <= set(columns), f"{path.name}: {raw['case']}"
        expected = [tuple(row) for row in raw["expect"]["rows"]]
        assert all(len(row) == len(columns) for row in expected), f"{path.name}: {raw['case']}"
        tolerance = float(raw.get("tolerance", 0))
        yield Case(path.stem, raw["case"], given, columns, expected, tolerance, only)


def _rows(raw: Any) -> list[dict[str, Any]]:
    """Mappings as they are, or `{columns, rows}`, or a list of both, flattened."""
    found: list[dict[str, Any]] = []
    for item in raw if isinstance(raw, list) else [raw]:
        if "rows" in item:
            found += [
                {**item.get("shared", {}), **dict(zip(item["columns"], row, strict=True))}
                for row in item["rows"]
            ]
        else:
            found.append(item)
    return found


def differences(case: Case, found: list[tuple[Any, ...]]) -> list[str]:
    """What is missing and what is too much; empty where the rows agree."""
    left = [row for row in found if concerns(case, row)]
    missing = []
    for want in case.rows:
        match = next((row for row in left if _same_row(row, want, case.tolerance)), None)
        if match is None:
            missing.append(f"missing {want}")
        else:
            left.remove(match)
    return missing + [f"unexpected {row}" for row in left]


def concerns(case: Case, row: tuple[Any, ...]) -> bool:
    """Whether a row of the view matters to the case."""
    return all(row[case.columns.index(name)] == value for name, value in case.only.items())


def _same_row(found: tuple[Any, ...], want: tuple[Any, ...], tolerance: float) -> bool:
    return all(_same(a, b, tolerance) for a, b in zip(found, want, strict=True))


def _same(found: Any, want: Any, tolerance: float) -> bool:
    if found is None or want is None or isinstance(want, bool | str):
        return bool(found is want or found == want)
    if tolerance:
        return math.isclose(found, want, rel_tol=tolerance)
    return bool(found == want)
