"""The tools for agents: ten questions have the numbers of the command line, and the guard holds."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command import run_command
from tests.each import check_each
from tests.later import Later, needs
from tests.layers import sampled
from tests.reports.example import example_run, merge
from tests.sql.test_guard import ATTEMPTS, REFUSED
from tests.warehouse import write_warehouse
from xlahouse.sql.limits import QueryLimits
from xlahouse.sql.serve.workers import Workers

mcp = Later("mcp")
agents = Later("xlahouse.sql.serve.agents")
pytestmark = [pytest.mark.xdist_group("served"), needs("mcp")]
TOOLS = ["runs", "tables", "views", "describe", "query", "summary", "compare", "check"]
QUESTIONS = (
    "select name, ttft_s, tpot_s, output_tokens_per_s from run_summary order by name",
    "select name, axis, sum(wire_bytes) as wire_bytes from traffic_volume join runs using (run_id)"
    " group by all order by all",
    "select phase, compute_ps, exposed_ps, exposed_ratio from comm_compute order by all",
    "select source_device_id, target_device_id, sum(bytes) as bytes from traffic_matrix"
    " where algorithm = 'ring' group by all order by all",
    "select request, ttft_s, tpot_s, reason from latency order by all",
    "select axis, kind, busbw_bytes_per_s from collective_bandwidth order by all limit 20",
    "select cause, sum(idle_ps) as idle_ps from bubble group by all order by all",
    "select run_id, mesh, captured_at, framework_versions from runs order by 1",
    "select sum(duration_ps) as total_ps, avg(duration_ps) as mean_ps, 0.1 as d from ops",
    "select code, count(*) as n from issues group by all order by all",
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    one = example_run("a" * 12, "demo tp4", {"tp": 4})
    tables = merge(one, example_run("b" * 12, "demo dp2.tp2", {"dp": 2, "tp": 2}))
    return write_warehouse(tmp_path_factory.mktemp("agents") / "secret-place" / "w", tables)


@pytest.fixture(scope="module")
def workers(root: Path) -> Iterator[Workers]:
    made = Workers(str(root), QueryLimits(60, 2 << 30, 1000), 1)
    yield made
    made.close()


def call(workers: Workers, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """The results of calls of tools, through the protocol."""

    async def run() -> list[Any]:
        async with mcp.Client(agents.make_server(workers)) as client:
            return [await client.call_tool(name, given) for name, given in calls]

    return asyncio.run(run())


def test_ten_questions_have_the_numbers_of_the_command_line(
    workers: Workers, root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert len(QUESTIONS) == 10
    found = call(workers, *(("query", {"sql": sql}) for sql in QUESTIONS))
    for sql, result in zip(QUESTIONS, found, strict=True):
        assert not result.is_error, result.content
        run_command(monkeypatch, "query", sql, "-w", root, "--format", "json")
        assert result.structured_content["rows"] == json.loads(capfd.readouterr().out), sql
        assert result.structured_content["complete"] is True


def test_summary_and_compare_are_the_verbs(
    workers: Workers, root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    compared = {"base": "demo tp4", "other": "demo dp2.tp2"}
    summary, compare = call(workers, ("summary", {"run": "demo tp4"}), ("compare", compared))
    run_command(monkeypatch, "summary", "demo tp4", "-w", root, "--json")
    assert summary.structured_content == json.loads(capfd.readouterr().out)
    run_command(monkeypatch, "compare", *compared.values(), "-w", root)
    lines = capfd.readouterr().out.partition("\n\n")[0].splitlines()[2:]
    metrics = compare.structured_content["metrics"]
    assert [row["metric"] for row in metrics] == [line.split()[0] for line in lines]
    assert [f"{row['base']:.6g}" for row in metrics] == [
        f"{float(line.split()[1]):.6g}" for line in lines
    ]
    assert {row["unit"] for row in metrics if row["metric"] == "ttft_s"} <= {"seconds"}


@pytest.mark.verify
def test_check_is_the_verb(
    workers: Workers, root: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (check,) = call(workers, ("check", {}))
    run_command(monkeypatch, "check", "-w", root)
    lines = capfd.readouterr().out.splitlines()
    # The example of an audit may be any of its rows.
    found = [line.partition("rows, the first")[0] for line in check.structured_content["lines"]]
    assert found == [line.partition("rows, the first")[0] for line in lines]


def test_answers_carry_units_coverage_and_reasons(workers: Workers) -> None:
    sql = "select run_id, mfu, tpot_s from mfu join run_summary using (run_id) where name = $name"
    (result,) = call(workers, ("query", {"sql": sql, "params": {"name": "demo tp4"}}))
    found = result.structured_content
    units = {column["name"]: column["unit"] for column in found["columns"]}
    assert units["tpot_s"] == "seconds"
    assert any(column["meaning"] for column in found["columns"])
    (coverage,) = found["coverage"]
    assert (coverage["run_id"], coverage["devices_traced"]) == ("a" * 12, 4)
    if any(None in row.values() for row in found["rows"]):
        assert found["cannot_be_known"]["because"]


def test_the_tools_only_read(workers: Workers) -> None:
    async def listed() -> list[Any]:
        async with mcp.Client(agents.make_server(workers)) as client:
            return list((await client.list_tools()).tools)

    tools = asyncio.run(listed())
    assert [tool.name for tool in tools] == TOOLS
    assert all(tool.description and tool.annotations.read_only_hint for tool in tools)


ALL = [*REFUSED, *ATTEMPTS]


@pytest.mark.parametrize(
    "count", [6, pytest.param(60, marks=pytest.mark.verify)], ids=["few", "many"]
)
def test_no_way_out_of_the_warehouse(workers: Workers, count: int) -> None:
    chosen = sampled(ALL, count, "guard over mcp")
    found = call(workers, *(("query", {"sql": sql}) for sql in chosen))

    def refused(result: Any) -> None:
        assert result.is_error, result.structured_content
        assert "secret-place" not in result.content[0].text

    checks = {sql: lambda r=r: refused(r) for sql, r in zip(chosen, found, strict=True)}
    check_each("attempts", checks)


@pytest.mark.verify
def test_a_limit_is_an_answer(root: Path) -> None:
    few = Workers(str(root), QueryLimits(1, 500_000_000, 3), 1)
    try:
        rows, endless = call(
            few,
            ("query", {"sql": "select * from range(10)"}),
            ("query", {"sql": "select count(*) from range(10000000000000) a, range(100) b"}),
        )
    finally:
        few.close()
    assert (rows.structured_content["row_count"], rows.structured_content["complete"]) == (3, False)
    assert endless.is_error
    assert "reached its limit of 1 s" in endless.content[0].text
