"""A query that takes too much ends with one line: time, memory, and what DuckDB itself cannot end."""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import Future
from pathlib import Path

import duckdb
import pytest

from tests.command import run_command
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import QueryError
from xlahouse.sql import Warehouse, interrupt
from xlahouse.sql.interrupt import OutOfTime, QueryWatch, left_behind
from xlahouse.sql.limits import QueryLimits, memory_wall, parse_memory

ENDLESS = "select count(*) from range(10000000000000) as a, range(100) as b"
TIME_IS_UP = "the query reached its limit of 0.2 s; ask for fewer runs or rows, or allow more time"
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts so on Linux")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [{"op": name, "device_id": 0} for name in "abc"]
    folder = tmp_path_factory.mktemp("limits") / 'a "dir" <b>, with ü'
    return write_warehouse(folder, {"ops": rows, "devices": [{"device_id": 0}]})


@pytest.mark.parametrize("sql", [ENDLESS, f"explain analyze {ENDLESS}"])
def test_time_runs_out(root: Path, sql: str) -> None:
    with Warehouse(root, timeout_s=0.2) as warehouse:
        with pytest.raises(QueryError) as caught:
            warehouse.query(sql).head(1)
        assert str(caught.value) == TIME_IS_UP
        assert warehouse.query("select count(*) from ops").rows == [(3,)]


def test_only_time_in_duckdb_counts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that takes an hour over its first batch gets the second."""
    clock = iter(range(0, 1_000_000, 1))
    monkeypatch.setattr(interrupt.time, "monotonic", lambda: 0.001 * next(clock))
    with Warehouse(root, timeout_s=10) as warehouse:
        batches = warehouse.query("from range(200000)").batches()
        next(batches)
        for _ in range(100_000):
            next(clock)
        assert sum(batch.num_rows for batch in batches) > 0


def test_a_call_that_does_not_end_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf:
        def interrupt(self) -> None:
            pass

    monkeypatch.setattr(interrupt, "GRACE_S", 0.1)
    end = threading.Event()
    with pytest.raises(OutOfTime, match=r"limit of 0\.1 s"):
        QueryWatch(Deaf(), limit_s=0.1).run(lambda: end.wait(60))  # type: ignore[arg-type]
    assert left_behind()
    end.set()
    while left_behind():
        end.wait(0.01)
    interrupt._left.clear()


def test_what_a_call_left_behind_uses_stays_open(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB refuses to close it: that was a traceback."""
    monkeypatch.setattr(interrupt, "_left", [Future()])
    warehouse = Warehouse(root)
    warehouse.close()
    assert warehouse.query("select 1 as a").rows == [(1,)]
    interrupt._left.clear()
    warehouse.close()
    with pytest.raises(duckdb.ConnectionException):
        warehouse.query("select 1 as a")


@only_linux
@pytest.mark.parametrize(
    "sql",
    [
        "select length(repeat('x', 3000000000))",  # one value, which DuckDB's limit does not count
        "from range(length(repeat('x', 1000000000)))",  # while it is bound
        "select list_sum(range(300000000))",
        "select list(range) from range(100000000)",
    ],
)
def test_memory_runs_out(root: Path, sql: str) -> None:
    size = parse_memory("100MB")
    with (
        memory_wall(size),
        Warehouse(root, memory_limit=QueryLimits(None, size).memory) as warehouse,
    ):
        with pytest.raises(QueryError, match=r"not enough memory.*allow more memory"):
            warehouse.query(sql).head(1)
        assert warehouse.query("select count(*) from ops").rows == [(3,)]


@only_linux
def test_the_wall_goes_when_its_query_is_done() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_DATA)
    with memory_wall(1 << 30):
        assert resource.getrlimit(resource.RLIMIT_DATA) != before
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


@pytest.mark.parametrize(
    ("text", "size"),
    [("500MB", 500_000_000), ("4gb", 4_000_000_000), ("1.5GiB", 1610612736), ("64 MiB", 1 << 26)],
)
def test_sizes_of_memory(text: str, size: int) -> None:
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "much", "-4GB", "4XB", "1e9", "10KB", "1"])
def test_what_is_no_size_of_memory(text: str) -> None:
    with pytest.raises(QueryError, match=r"500MB|16MiB"):
        parse_memory(text)


def test_a_query_over_its_limit_ends_with_one_line(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("query", ENDLESS, "-w", root, "--timeout", "0.2", "--memory", "1GB")
    assert run_command(monkeypatch, *words) == 1
    assert capsys.readouterr() == ("", f"xlahouse: {TIME_IS_UP}\n")
    assert run_command(monkeypatch, "query", "from ops", "-w", root, "--memory", "lots") == 2
    assert "500MB, 4GB or 1.5GiB" in capsys.readouterr().err
    assert run_command(monkeypatch, "query", "from ops", "--engine", "spark", "--timeout", "1") == 2


PLANS = ("explain", "explain analyze", "explain (analyze)", "explain (analyze, format text)")
PLANS += ("explain (format json)", "explain (analyze, format 'json')")


@pytest.mark.parametrize("form", PLANS)
def test_a_plan_names_no_file(root: Path, form: str) -> None:
    """DuckDB's own drawing has the files of two tables side by side, and wraps their paths."""
    with Warehouse(root) as warehouse:
        plan = warehouse.query(f"{form} from ops join devices using (run_id, device_id)")
    text = "\n".join(line for (line,) in plan.rows)
    assert plan.columns == ["plan"]
    assert "READ_PARQUET" in text
    assert not [word for word in (".parquet", "ü", str(root)) if word in text]
    if "json" in form:
        json.loads(text)
    elif "analyze" in form:
        assert plan.rows[0][0].startswith("took ")
        assert "3 rows" in text


@pytest.mark.parametrize("form", ["html", "yaml", "graphviz", "mermaid", "other"])
def test_other_forms_of_a_plan_are_refused(root: Path, form: str) -> None:
    with Warehouse(root) as warehouse:
        for options in (f"format {form}", f"analyze, format {form}", f"format/**/{form}"):
            with pytest.raises(QueryError, match="EXPLAIN"):
                warehouse.query(f"explain ({options}) from ops")
