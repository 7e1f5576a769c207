"""Findings about the data, and their codes, which own severity, meaning, cost and remedy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["info", "warning", "error"]


@dataclass(frozen=True)
class Issue:
    """A finding, as a row of the table `issues` without its run."""

    severity: Severity  # error, warning or info
    code: str  # stable name of its kind
    message: str  # what was found, what it costs, and what to try
    source: str  # file, plane, line or run that it is about
    count: int = 1  # events or rows that it concerns


@dataclass(frozen=True)
class Code:
    """A kind of finding; `found` makes one."""

    code: str  # stable name, as in the column `code` of the table `issues`
    # error: the run is partial or wrong; warning: some values are; info: none is
    severity: Severity
    meaning: str  # what was found
    cost: str  # what is missing or uncertain because of it
    remedy: str = ""  # what to try; empty where nothing helps, or each finding's own text states it
    info_when: str = ""  # the case in which it is only information; empty without such a case

    def found(self, source: str, count: int = 1, detail: str = "", info: bool = False) -> Issue:
        """A finding of this kind.

        Args:
            source: what it is about.
            count: how many events or rows.
            detail: what was found, where that is more specific than the code's meaning.
            info: whether the case is the one in `info_when`.

        Raises:
            ValueError: there is no such case.
        """
        if info and not self.info_when:
            raise ValueError(f"{self.code} is never only information")
        parts = (detail or self.meaning, self.cost, self.remedy)
        message = "; ".join(part for part in parts if part)
        return Issue("info" if info else self.severity, self.code, message, source, count)


def issues_found(source: str, *rows: tuple[Code, int] | tuple[Code, int, str]) -> list[Issue]:
    """Findings of (code, count, detail if any); rows with a count of 0 are left out."""
    return [code.found(source, count, "".join(detail)) for code, count, *detail in rows if count]
