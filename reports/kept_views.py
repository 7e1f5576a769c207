"""Views that several panels of a run read: each is computed once a run, not once a panel."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from xlahouse.reports.charts.panel import Queryable, Rows
from xlahouse.sql.answers.summary import SUMMARY_VIEWS

KEPT_VIEWS = (
    *SUMMARY_VIEWS,
    "_all_idle_v1",
    "_burst_v2",
    "_idle_level_v1",
    "_interval_v1",
    "_meeting_v2",
    "_op_total_v1",
    "_wire_v1",
    "bubble_v2",
    "mbu_v2",
    "mfu_v2",
    "traffic_burst_v2",
    "traffic_matrix_v1",
)


@dataclass(frozen=True)
class _Alone:
    """A warehouse of a single run, whose own pages ask it too."""

    kept: Queryable  # computes each of KEPT_VIEWS once

    @property
    def root(self) -> str:
        """Its folder or URL."""
        return self.kept.root

    def query(self, sql: str, params: Mapping[str, object] | None = None) -> Rows:
        """As Queryable says."""
        return self.kept.query(sql, params)

    def of_run(
        self, run: str, kept: Collection[str] = (), threads: int | None = None
    ) -> AbstractContextManager[Queryable]:
        """The same, as there is no other run."""
        return nullcontext(self)


@contextmanager
def computed_once(warehouse: Queryable) -> Iterator[Queryable]:
    """The warehouse; where it has a single run, with views computed once for its pages and those over runs.

    Views of many runs would take memory for all of them at once.
    """
    runs = warehouse.query("select run_id from runs limit 2").pl()["run_id"].to_list()
    if len(runs) != 1:
        yield warehouse
        return
    with warehouse.of_run(runs[0], KEPT_VIEWS, threads=1) as kept:
        yield _Alone(kept)
