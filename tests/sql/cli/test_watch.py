"""Progress, cancellation and Ctrl-C of queries, and what a notebook shows."""

from __future__ import annotations

import threading

import pytest

from tests.warehouse import write_warehouse
from xlahouse.capture.errors import QueryError
from xlahouse.sql import Warehouse
from xlahouse.sql.interrupt import Cancelled, Progress, QueryWatch

ENDLESS = "select sum(hash(a.range + b.range)) from range(10000000) as a, range(10000000) as b"


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return Warehouse(write_warehouse(tmp_path_factory.mktemp("watch") / "w", {}))


class Connection:
    """Takes interrupts, and forgets the first, as DuckDB does where a query has not begun."""

    def __init__(self) -> None:
        self.told, self.ended = 0, threading.Event()

    def interrupt(self) -> None:
        self.told += 1
        if self.told > 1:
            self.ended.set()


def test_progress_counts_rows(warehouse: Warehouse) -> None:
    told: list[Progress] = []
    result = warehouse.query("from range(200000)", on_progress=told.append)
    assert told == []
    assert sum(batch.num_rows for batch in result.batches()) == 200_000
    assert told[-1].rows == 200_000
    assert [step.rows for step in told] == sorted(step.rows for step in told)
    assert all(step.seconds >= 0 for step in told)


def test_progress_is_told_while_nothing_is_ready() -> None:
    connection, told = Connection(), threading.Event()
    watch = QueryWatch(connection, lambda progress: told.set())
    assert watch.run(lambda: told.wait(60)) is True


def test_another_thread_cancels(warehouse: Warehouse) -> None:
    result = warehouse.query(ENDLESS, on_progress=lambda progress: result.cancel())
    with pytest.raises(QueryError, match="the query was cancelled"):
        result.arrow()
    with pytest.raises(QueryError, match="the query was cancelled"):
        result.arrow()
    assert warehouse.query("select 1").rows == [(1,)]


def test_a_query_is_cancelled_before_it_runs(warehouse: Warehouse) -> None:
    result = warehouse.query(ENDLESS)
    result.cancel()
    with pytest.raises(QueryError, match="the query was cancelled"):
        result.head(1)


def test_an_interrupt_that_came_too_early_is_repeated() -> None:
    connection = Connection()
    watch = QueryWatch(connection)
    started = threading.Event()

    def call() -> None:
        started.set()
        connection.ended.wait(60)

    threading.Thread(target=lambda: started.wait(60) and watch.cancel()).start()
    with pytest.raises(Cancelled):
        watch.run(call)
    assert connection.told > 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_what_is_raised_beside_a_query_ends_it(error: type[BaseException]) -> None:
    connection = Connection()

    def fail(_: Progress) -> None:
        raise error

    with pytest.raises(error):
        QueryWatch(connection, fail).run(lambda: connection.ended.wait(60))
    assert connection.ended.is_set()


def test_a_notebook_shows_a_table(warehouse: Warehouse) -> None:
    result = warehouse.query("select 1 as a, '<b>' as t, null as n, 0.1e0 as d")
    assert result._repr_html_() == (
        '<div style="max-height: 28em; overflow: auto">'
        "<table><thead><tr><th>a</th><th>t</th><th>n</th><th>d</th></tr></thead><tbody><tr>"
        '<td style="text-align: right">1</td><td>&lt;b&gt;</td><td>NULL</td>'
        '<td style="text-align: right">0.1</td></tr></tbody></table></div>'
    )
    many = warehouse.query("from range(51)")._repr_html_()
    assert many.count("<tr>") == 51
    assert many.endswith("<p>the first 50 rows</p>")
    assert "<p>" not in warehouse.query("from range(50)")._repr_html_()
