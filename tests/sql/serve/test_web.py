"""The served SQL box over HTTP: rows, files, limits, and who may ask."""

from __future__ import annotations

import io
import socket
from pathlib import Path

import pyarrow as pa
import pytest

from tests.command import run_command
from tests.each import check_each
from tests.layers import sampled
from tests.sql.serve.conftest import HOSTILE, Server, serving
from tests.sql.test_guard import ATTEMPTS, REFUSED

pytestmark = pytest.mark.xdist_group("served")
ENDLESS = "select count(*) from range(10000000000000) a, range(100) b"


def test_rows_are_exact_texts_with_types_and_units(server: Server) -> None:
    status, found = server.ask("select op, duration_ps, null::int as n from ops order by op")
    assert status == 200
    assert found["columns"] == [
        {"name": "op", "type": "VARCHAR", "unit": None},
        {"name": "duration_ps", "type": "BIGINT", "unit": "picoseconds"},
        {"name": "n", "type": "INTEGER", "unit": None},
    ]
    assert found["rows"] == [
        [HOSTILE, "9007199254740993", None],
        ["=1+1", "9007199254740993", None],
    ]
    assert found["complete"] is True


def test_a_table_for_reading_ends(server: Server) -> None:
    status, found = server.ask("from range(1001)")
    assert (status, len(found["rows"]), found["complete"]) == (200, 1000, False)


def test_files(server: Server) -> None:
    sql = "select op, duration_ps from ops order by op"
    status, raw = server.file(sql, "csv")
    assert (status, raw.decode()) == (
        200,
        f"op,duration_ps\n{HOSTILE},9007199254740993\n'=1+1,9007199254740993\n",
    )
    status, raw = server.file(sql, "arrow")
    table = pa.ipc.open_file(io.BytesIO(raw)).read_all()
    assert table.to_pylist()[1] == {"op": "=1+1", "duration_ps": (1 << 53) + 1}
    assert server.file("from range(1500)", "csv")[0] == 200
    status, raw = server.file("from range(1501)", "csv")
    assert (status, b"more than 1,500 rows" in raw) == (400, True)
    assert server.file(sql, "exe")[0] == 400


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("from nowhere", "no table or view nowhere"),
        ("drop view ops", "a query may only read"),
        ("from read_text('/etc/passwd')", "the table function read_text is not allowed"),
        ("  ", "there is no query"),
        (f"select 1 -- {'x' * 100_000}", "longer than 100,000 characters"),
        (ENDLESS, "the query reached its limit of 2 s"),
        ("select length(repeat('x', 3000000000))", "not enough memory"),
    ],
)
def test_what_is_refused_is_one_line(server: Server, sql: str, says: str) -> None:
    status, found = server.ask(sql)
    assert status == 400
    assert says in found["error"]
    assert "\n" not in found["error"]
    assert server.ask("select 1 as a")[1]["rows"] == [["1"]]


ALL = [*REFUSED, *ATTEMPTS]


@pytest.mark.parametrize(
    "count", [8, pytest.param(60, marks=pytest.mark.verify)], ids=["few", "many"]
)
def test_no_way_out_of_the_warehouse(server: Server, root: Path, count: int) -> None:
    def refused(sql: str) -> None:
        status, found = server.ask(sql)
        assert status == 400, found
        assert "secret-place" not in found["error"], found

    before = sorted(path.stat().st_mtime_ns for path in root.rglob("*"))
    chosen = sampled(ALL, count, "guard over http")
    check_each("attempts", {sql: lambda sql=sql: refused(sql) for sql in chosen})
    assert sorted(path.stat().st_mtime_ns for path in root.rglob("*")) == before


def test_only_this_machine_and_this_site_may_ask(server: Server) -> None:
    assert server.url.startswith("http://127.0.0.1:")
    assert server.get("/sql", Host="evil.example")[0] == 400
    for site in ("cross-site", "same-site"):
        assert server.ask("select 1", **{"Sec-Fetch-Site": site})[0] == 403
        assert server.get("/api/file?q=select+1", **{"Sec-Fetch-Site": site})[0] == 403
        assert server.get("/sql?q=select+1", **{"Sec-Fetch-Site": site})[0] == 200  # a link
    # What a form of another site can send without asking for leave.
    assert server.ask("select 1", **{"Content-Type": "text/plain"})[0] == 415


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" * 100_000, 400),
        (b'{"sql": ' * 9_000, 400),
        (b"\xff", 400),
        (b"null", 400),
        (b'{"sql": 5}', 400),
        (b'{"sql": "select \'\\ud800\'"}', 400),
        (b'{"sql": "' + b" " * 900_000 + b'"}', 413),
    ],
)
def test_a_body_that_is_no_query_is_one_line(server: Server, body: bytes, status: int) -> None:
    found, said = server.post(body)
    assert (found, b"error" in said, b"Traceback" in said) == (status, True, False)
    assert server.ask("select 1 as a")[1]["rows"] == [["1"]]


def test_the_site_is_served_and_nothing_beside_it(server: Server, root: Path) -> None:
    assert b"the site" in server.get("/")[1]
    for path in ("/site/../../etc/passwd", "/site/%2e%2e/%2e%2e/etc/passwd", "/site//etc/passwd"):
        assert server.get(path)[0] == 404
    assert server.get("/warehouse.json")[0] == 404


def test_relations_are_described(server: Server) -> None:
    status, raw = server.get("/api/relations")
    assert status == 200
    assert b'"ops"' in raw
    assert b'"latency_v3"' in raw
    assert b"one row per run and request" in server.get("/api/describe?name=latency")[1]
    assert server.get("/api/describe?name=nowhere")[0] == 400


def test_elsewhere_a_token_is_needed(root: Path) -> None:
    with serving(root, "--host", "0.0.0.0", "--workers", "1") as open_server:
        token = open_server.token
        assert token
        assert len(token) >= 32
        local = Server(open_server.url.replace("0.0.0.0", "127.0.0.1"))
        assert local.ask("select 1")[0] == local.get("/sql")[0] == 401
        assert local.get("/sql?token=wrong")[0] == 401
        status, found = local.ask("select 1 as a", Authorization=f"Bearer {token}")
        assert (status, found["rows"]) == (200, [["1"]])
        assert local.ask("select 1", Cookie=f"xlahouse_token={token}")[0] == 200


def test_a_port_in_use_is_one_line(root: Path, monkeypatch, capsys) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run_command(monkeypatch, "serve", "-w", root, "--port", str(port)) == 1
    said = f"127.0.0.1 port {port}: Address already in use; choose another with --host and --port"
    assert capsys.readouterr().err == f"xlahouse: {said}\n"
