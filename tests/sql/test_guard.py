"""A query reads the warehouse and nothing else: attempts to do more, and what has to keep working."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.each import check_each
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import QueryError
from xlahouse.sql import Result, Warehouse
from xlahouse.sql.guard import TABLE_FUNCTIONS


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    root = tmp_path_factory.mktemp("guard") / "w"
    write_warehouse(root, {"ops": [{"op": "a", "device_id": 0}], "devices": [{"device_id": 0}]})
    return Warehouse(root)


REFUSED = [
    "insert into ops values (1)",
    "update ops set op = 'x'",
    "delete from ops",
    "create table t as select 1",
    "create view t as select 1",
    "create macro f(a) as a",
    "drop view ops",
    "alter table ops rename to x",
    "copy ops to 'out.csv'",
    "copy (select 1) to 'out.csv'",
    "copy ops from 'in.csv'",
    "export database 'x'",
    "import database 'x'",
    "attach 'x.db'",
    "detach memory",
    "use memory",
    "pragma database_list",
    "pragma enable_profiling",
    "set threads = 1",
    "set enable_external_access = true",
    "reset threads",
    "install httpfs",
    "load httpfs",
    "call pragma_version()",
    "checkpoint",
    "vacuum",
    "begin",
    "prepare p as select 1",
    "execute p",
    "pivot ops on op",
    "explain insert into ops values (1)",
    "explain analyze insert into ops values (1)",
    "explain analyze copy ops to 'out.csv'",
    "explain/**/analyze delete from ops",
    "-- explain\ndelete from ops",
    "explain explain delete from ops",
    "with a as (insert into ops values (1) returning *) select * from a",
    "with a as (delete from runs returning *) from a",
    "select * from (with a as (update runs set name = 'x' returning *) from a)",
    "select 1; select 2",
    "select 1; drop view ops",
    "",
    " -- nothing\n",
    "select * from read_text('/etc/passwd')",
    "select * from read_blob('/etc/passwd')",
    "select * from read_csv('/etc/passwd')",
    "select * from READ_CSV_AUTO('/etc/passwd')",
    "select * from read_json('https://example.org/x.json')",
    "select * from read_parquet('/tmp/x.parquet')",
    "select * from parquet_metadata('/tmp/x.parquet')",
    "select * from glob('/etc/*')",
    "select * from sniff_csv('/etc/passwd')",
    "select * from '/etc/passwd'",
    "select * from '/tmp/x.parquet'",
    "select (select content from read_text('/etc/passwd'))",
    "select * from ops where exists (from read_text('/etc/passwd'))",
    "with a as (from read_text('/etc/passwd')) from a",
    "select * from ops, lateral (from glob(op))",
    "describe select * from read_text('/etc/passwd')",
    "summarize select * from read_text('/etc/passwd')",
    "explain select * from read_text('/etc/passwd')",
    "from query('select * from read_text(''/etc/passwd'')')",
    "from query_table(['ops'])",
    "from json_execute_serialized_sql('{}')",
    "from arrow_scan(1, 2, 3)",
    "from pandas_scan(1)",
    "from duckdb_secrets()",
    "from duckdb_settings()",
    "from enable_logging()",
    "from checkpoint()",
    "select getenv('HOME')",
    "select write_log('x')",
    "select * from warehouse",
    "select current_setting('allowed_paths')",
    "select current_setting('temp' || '_directory')",
    "select sleep_ms(1)",
    "select json_serialize_plan('select 1')",
    "pivot ops on op using count(*)",
    "from (pivot ops on op using count(*))",
    "pivot (from read_text('/etc/passwd')) on content in ('x') using count(*)",
    # A common table expression is seen where it stands, and by what follows it.
    "with a as (from b), b as (select 1) from a",
    "select * from (with a as (select 1) from a) as x, a",
    "from a union all (with a as (select 1) from a)",
    "with a as (from a) from a",
    "with a as (select 1) from main.a",
    # A name that could be a file is not read as one, whatever else it names.
    """with "x.parquet" as (select 1) from "x.parquet" """,
    """with "/etc/passwd" as (select 1) from '/etc/passwd'""",
    """select * from (with "x.csv" as (select 1) select 1) as a, 'x.csv'""",
]


# More of them, one a line: every way in that DuckDB's list of functions and statements suggests.
ATTEMPTS = [
    line.encode().decode("unicode_escape") if "\\" in line else line
    for line in Path(__file__).with_name("guard_attempts.txt").read_text("utf-8").splitlines()
]


def refuses(warehouse: Warehouse, sql: str) -> None:
    with pytest.raises(QueryError):
        warehouse.query(sql).arrow()


def test_refused(warehouse: Warehouse) -> None:
    attempts = [*REFUSED, *ATTEMPTS]
    check_each("attempts", {sql: partial(refuses, warehouse, sql) for sql in attempts})
    assert warehouse.query("select op from ops").rows == [("a",)]


ALLOWED = {
    "select 1 as a": [(1,)],
    "select 1 as a;": [(1,)],
    "select 1 as a;;": [(1,)],
    "select 1 as a; -- done": [(1,)],
    "/* ; */ select ';' as a -- ; drop": [(";",)],
    "from ops select op": [("a",)],
    "(select op from ops)": [("a",)],
    "table devices limit 0": [],
    "values (1), (2)": [(1,), (2,)],
    "with ops as (select * from ops) select op from ops": [("a",)],
    "with recursive n as (select 1 as i union all select i + 1 from n where i < 3) from n": [
        (1,),
        (2,),
        (3,),
    ],
    "select op from main.ops union all select op from memory.main.ops": [("a",), ("a",)],
    "select o.op from ops as o, lateral (from devices d where d.device_id = o.device_id)": [("a",)],
    "select * from range(2)": [(0,), (1,)],
    "select unnest([1, 2])": [(1,), (2,)],
    "select read_text from (select 1 as read_text)": [(1,)],
    "select OP from OPS": [("a",)],
    "select count(*) from run_summary": [(1,)],
    "with a as (select 1 as i), b as (from a) from b": [(1,)],
    "with a as (select 1 as i) from (select (select max(i) from a) as i)": [(1,)],
    "with a as (select 1 as i) from a union all from a": [(1,), (1,)],
    "with A as materialized (select 2 as i) from a order by (select max(i) from a)": [(2,)],
    "with ops as (select op from ops), b as (from ops) from b": [("a",)],
    "pivot (select op from ops) on op in ('a', 'b') using count(*)": [(1, 0)],
    "select a from (unpivot (select 1 as p, 2 as q) on p, q into name n value a)": [(1,), (2,)],
}


@pytest.mark.parametrize("sql", ALLOWED)
def test_allowed(warehouse: Warehouse, sql: str) -> None:
    assert warehouse.query(sql).rows == ALLOWED[sql]


@pytest.mark.parametrize(
    "sql",
    [
        "explain select op from ops",
        "explain analyze select op from ops",
        "EXPLAIN (FORMAT json) select op from ops",
        "explain (select op from ops)",
        "-- why\n/* so */ explain from ops",
        "describe ops",
        "describe select * from latency",
        "show ops",
        "summarize ops",
        "show tables",
        "show all tables",
        "select table_name from information_schema.tables",
        "select view_name from duckdb_views()",
    ],
)
def test_descriptions_are_allowed(warehouse: Warehouse, sql: str) -> None:
    assert warehouse.query(sql).rows


def test_show_tables_lists_what_queries_may_name(warehouse: Warehouse) -> None:
    listed = {name for (name,) in warehouse.query("show tables").rows}
    assert warehouse.library.names() <= listed


def test_the_database_is_locked_whatever_the_guard_lets_through(warehouse: Warehouse) -> None:
    import duckdb

    # Straight at the database, past the guard: the second wall stands alone.
    connection = warehouse._database.cursor()
    for sql in (
        "from read_text('/etc/passwd')",
        "copy (select 1) to '/tmp/xlahouse-out.csv'",
        "attach '/tmp/xlahouse.db'",
        "set enable_external_access = true",
        "install httpfs",
        "from read_csv('https://example.org/x.csv')",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(sql)
    assert not Path("/tmp/xlahouse-out.csv").exists()


def test_local_variables_are_not_tables(warehouse: Warehouse) -> None:
    import polars as pl

    frame = pl.DataFrame({"a": [1]})
    with pytest.raises(QueryError, match="no table or view frame"):
        warehouse.query("from frame")
    assert frame.height == 1


@pytest.mark.parametrize(
    ("sql", "message", "line", "column"),
    [
        ("select op\nfrom opz", "no table or view opz; did you mean ops", 2, 6),
        ("from 'ä' as a, opz", "no table or view ä", 1, 6),
        ("from ops,\n 'x.parquet'", "a query reads the warehouse and no other file", 2, 2),
        ("from (with a as (select 1) from a) as x, a", "no table or view a", 1, 42),
        ("select\n  opp from ops", "did you mean op", 2, 3),
        ("select op from ops where", "syntax error", 1, 20),
        ("select op fro ops o", "", 1, 15),
        ("from traffic_volum", "did you mean traffic_volume", 1, 6),
        ("with a as (from nowhere) from a", "no table or view nowhere", 1, 17),
        ("select nosuch(1)", "nosuch", 1, 8),
        ("select cast('x' as int)", "Could not convert string 'x'", 1, 8),
        ("select 1,\n cast(op as int) from ops", "Could not convert string 'a'", 2, 2),
        ("selct op from ops", "did you mean select?", 1, 1),
        ("select lenght(op) from ops", "lenght does not exist; did you mean length?", 1, 8),
        ("select o.opp from ops as o", "o has no column opp; did you mean op", 1, 8),
        ("from ops where ops.bogus = 1", "ops has no column bogus; DESCRIBE ops", 1, 16),
        ("select s.b from (select 1 as a) s", "s has no column b", 1, 8),
        ("select p.op from ops as o", '"p" not found; the query reads o', 1, 8),
    ],
)
@pytest.mark.parametrize("read", [Result.arrow, lambda result: result.head(5)], ids=["all", "few"])
def test_errors_say_where(
    warehouse: Warehouse,
    sql: str,
    message: str,
    line: int,
    column: int,
    read: Callable[[Result], object],
) -> None:
    with pytest.raises(QueryError) as caught:
        read(warehouse.query(sql))
    assert message in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert "\n" not in str(caught.value)


def test_a_query_is_utf8(warehouse: Warehouse) -> None:
    with pytest.raises(QueryError, match="not valid UTF-8"):
        warehouse.query("select '\udcff'")


def test_parameters(warehouse: Warehouse) -> None:
    sql = "select op from ops where device_id = $device"
    assert warehouse.query(sql, {"device": "0"}).rows == [("a",)]
    assert warehouse.query(sql, {"device": 1}).rows == []
    with pytest.raises(QueryError, match=r"needs a value for \$device \(-p device=VALUE\)"):
        warehouse.query(sql)
    for positional in ("select ?", "select $1"):
        with pytest.raises(QueryError, match=r"a parameter is written \$name"):
            warehouse.query(positional)
    with pytest.raises(QueryError, match=r"no parameter \$devise; did you mean device"):
        warehouse.query(sql, {"device": 0, "devise": 1})


def test_no_way_in_wrote_a_file() -> None:
    assert not any(Path("/tmp", name).exists() for name in ("zz.csv", "exp", "y"))


def test_every_table_function_of_duckdb_is_refused_or_known_to_read_nothing(
    warehouse: Warehouse,
) -> None:
    import duckdb

    with duckdb.connect() as connection:
        names = connection.execute(
            "select distinct function_name from duckdb_functions() where function_type in "
            "('table', 'pragma', 'table_macro') order by all"
        ).fetchall()
    assert len(names) > 50
    for (name,) in names:
        if name not in TABLE_FUNCTIONS:
            with pytest.raises(QueryError):
                warehouse.query(f"from {name}('/etc/passwd')")


@pytest.mark.parametrize(
    "name", ["ops", "'/etc/passwd'", "read_text('/etc/passwd')", "(delete from ops)", "nowhere"]
)
@pytest.mark.parametrize(
    "frame",
    [
        "select * from {}",
        "with x as materialized (select * from {}) from x",
        "select (select count(*) from {})",
        "select exists (from {})",
        "select 1 where 1 in (select 1 from {})",
        "select array(select 1 from {})",
        "from ops union all by name (from {})",
        "from devices left join {} on true",
        "from ops, lateral (from {})",
        "select case when (select true from {} limit 1) then 1 end",
        "select sum(1) filter (exists (from {})) over ()",
        "describe (from {})",
        "explain (from {})",
    ],
)
def test_a_relation_is_checked_wherever_it_stands(
    warehouse: Warehouse, frame: str, name: str
) -> None:
    sql = frame.format(name)
    if name == "ops":
        warehouse.query(sql).arrow()
    else:
        with pytest.raises(QueryError):
            warehouse.query(sql).arrow()


def test_limits_bound_what_queries_take(tmp_path: Path) -> None:
    root = write_warehouse(tmp_path / "w", {})
    with Warehouse(root, memory_limit="20MB", threads=1) as small:
        limits = small._database.cursor().execute(
            "select current_setting('memory_limit'), current_setting('threads')"
        )
        assert limits.fetchall() == [("19.0 MiB", 1)]
        with pytest.raises(QueryError, match="memory"):
            small.query("select length(list(range)) from range(20000000)").arrow()
        assert small.query("select 1").rows == [(1,)]
