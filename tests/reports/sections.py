"""A panel over a store: its rows, and the section that a page would show."""

from __future__ import annotations

from tests.reports.example import Store
from xlahouse.reports.charts.panel import fill


def rows_of(store: Store, panel, run_id: str):
    return store.query(panel.sql, {"run": run_id}).pl()


def facts_of(store: Store, run_id: str):
    return next(facts for facts in store.facts() if facts.run_id == run_id)


def filled(store: Store, panel, run_id: str):
    return fill(panel, rows_of(store, panel, run_id), facts_of(store, run_id))
