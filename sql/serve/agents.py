"""A server of the Model Context Protocol: the questions as tools for agents, read-only."""

from __future__ import annotations

from importlib.metadata import version
from inspect import getdoc
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from xlahouse.capture.errors import XlahouseError
from xlahouse.sql.serve.asking import answer
from xlahouse.sql.serve.workers import Workers

INSTRUCTIONS = """\
xlahouse answers questions about profiler traces of LLM inference on TPUs by SQL (DuckDB's dialect).
Begin with `runs`; `summary` says where a run's time goes. `views` hold conclusions, `tables` what
the traces say; `describe` a relation before you query it. A query reads, and nothing else. Columns state
their unit in their name: _ps picoseconds, _s seconds, _bytes, _ratio a share. NULL is not 0: it means
that the number cannot be known, and `cannot_be_known` says why. `coverage` says how many of a run's
devices were traced, and whether its times are those of an accelerator: repeat both with every number.
"""
READS = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def make_server(workers: Workers) -> MCPServer[Any]:
    """The server, whose tools ask the workers."""
    server: MCPServer[Any] = MCPServer(
        "xlahouse", instructions=INSTRUCTIONS, version=version("xlahouse"), log_level="ERROR"
    )

    async def ask(question: str, **given: Any) -> Any:
        try:
            return await answer(workers, question, **given)
        except XlahouseError as error:
            raise ToolError(str(error)) from error

    async def runs() -> dict[str, Any]:
        """List the runs with setup, coverage, TTFT and TPOT."""
        return dict(await ask("runs"))

    async def tables() -> dict[str, str]:
        """List the tables, which hold the facts of the traces: name -> what a row is."""
        return dict(await ask("tables"))

    async def views() -> dict[str, str]:
        """List the views, which hold the conclusions from the tables: name -> what a row is."""
        return dict(await ask("views"))

    async def describe(name: str) -> str:
        """Document a table or view: definition, each column with unit and origin, examples, SQL."""
        return str(await ask("describe", name=name))

    async def query(sql: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Answer one reading SQL statement. `params` gives values of $name in it.

        Returns rows, columns (type, unit, meaning), coverage of the runs, and for NULLs why they
        cannot be known. `complete` is false where there are more rows than the limit.
        """
        return dict(await ask("query", sql=sql, params=params))

    async def summary(run: str) -> dict[str, Any]:
        """Say where a run's time goes, its TTFT and TPOT, and what would make it faster."""
        return dict(await ask("summary", run=run))

    async def compare(base: str, other: str) -> dict[str, Any]:
        """Compare two runs metric by metric; verdicts are on the second, against the spread of repeats."""
        return dict(await ask("compare", base=base, other=other))

    async def check() -> dict[str, Any]:
        """List everything wrong or unknown in the warehouse's data, worst first."""
        return dict(await ask("check"))

    for tool in (runs, tables, views, describe, query, summary, compare, check):
        server.add_tool(tool, description=getdoc(tool), annotations=READS)
    return server
