"""Writes and ingests drawn runs together, and asks the newest views once for all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.referee.compare import Difference, Product, Referee
from tests.referee.truth import Truth
from tests.referee.writing import write
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql import Warehouse
from xlahouse.sql.check.audits import shared_views


class Asked:
    """Rows of a warehouse by run; each relation is asked for once, as planning takes the longest."""

    def __init__(self, house: Warehouse) -> None:
        self._house = house
        self._found: dict[str, dict[str, Product]] = {}
        self.run_of = {
            str(name): run for run, name in house.query("select run_id, name from runs").rows
        }

    def rows(self, relation: str, run: str) -> Product:
        """A run's rows of a table or view."""
        if relation not in self._found:
            found: dict[str, Product] = defaultdict(list)
            for row in self._house.query(f"select * from {relation}").dicts():
                found[row["run_id"]].append(row)
            self._found[relation] = found
        return self._found[relation].get(run, [])


def differences_of(truths: Sequence[Truth], folder: Path) -> list[list[Difference]]:
    """Write and ingest runs into one warehouse, `folder`/w, and compare each with its truth."""
    traces = [folder / "traces" / str(truth.seed) for truth in truths]
    for truth, trace in zip(truths, traces, strict=True):
        write(truth, trace)
    ingest_paths([str(trace) for trace in traces], str(folder / "w"), workers=1)
    with Warehouse(str(folder / "w")) as whole, whole.keeping(shared_views()) as house:
        asked = Asked(house)
        return [
            Referee(truth, asked.rows, asked.run_of[f"referee {truth.seed}"]).run()
            for truth in truths
        ]


def differences(truth: Truth, folder: Path) -> list[Difference]:
    """The same of one run."""
    return differences_of([truth], folder)[0]
