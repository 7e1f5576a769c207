"""The verbs `serve` and `mcp`: a warehouse for other people's browsers, and for agents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from xlahouse.sql.cli.options import WarehouseOption, limits_of, open_warehouse

if TYPE_CHECKING:
    from socket import socket

    from xlahouse.sql.serve.workers import Workers

TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="Longest a query may run.")
]
MemoryOption = Annotated[
    str, typer.Option("--memory", metavar="SIZE", help="Most memory of a query, such as 500MB.")
]
WorkersOption = Annotated[
    int, typer.Option("--workers", min=1, help="Questions answered at once, each within --memory.")
]
LOCAL = ("127.0.0.1", "localhost", "::1")


def serve(
    warehouse: WarehouseOption = "./warehouse",
    site: Annotated[Path, typer.Option("--site", help="Folder of a report.")] = Path("site"),
    host: Annotated[
        str,
        typer.Option(
            "--host", help="Address to listen on; any but this machine's own needs the token."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on.")
    ] = 8421,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            envvar="XLAHOUSE_TOKEN",
            help="Token that clients must send; default: a random one, or none on this machine alone.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most rows of a file.")] = 100_000,
    timeout: TimeoutOption = 30,
    memory: MemoryOption = "2GB",
    workers: WorkersOption = 2,
) -> None:
    """Serve a report's site with a SQL box, read-only.

    The box shows results as a table and gives them as CSV and Arrow; its address is a link that holds
    the query. It listens on this machine alone unless --host says otherwise; then clients need the
    token in the link that is printed. Limits hold for every query.

    \b
    Examples:
      xlahouse serve
      xlahouse serve -w wh --site site --host 0.0.0.0 --timeout 10 --memory 1GB
    """
    _need("serve", "starlette", "uvicorn")
    import secrets

    import uvicorn

    from xlahouse.sql.serve.web import LOCAL_HOSTS, make_app

    local = host in LOCAL
    token = token or (None if local else secrets.token_urlsafe(24))
    asked = _workers(warehouse, timeout, memory, limit, workers)
    folder = site if (site / "index.html").is_file() else None
    app = make_app(asked, folder, token, LOCAL_HOSTS if local else ("*",))
    config = uvicorn.Config(app, host=host, port=port, log_level="warning", access_log=False)
    server = uvicorn.Server(config)
    shown = f"[{host}]" if ":" in host else host
    given = f"?token={token}" if token else ""
    listening = _listen(host, port)
    print(f"http://{shown}:{listening.getsockname()[1]}/sql{given}", flush=True)
    if folder is None:
        print(f"{site} has no report: make one with `xlahouse report -o {site}`", file=sys.stderr)
    try:
        server.run(sockets=[listening])
    finally:
        asked.close()


def _listen(host: str, port: int) -> socket:
    """A socket that listens already when the link is printed: who reads it may come at once.

    Raises:
        WarehouseError: the address cannot be used.
    """
    import os
    from socket import AF_INET, AF_INET6, create_server

    from xlahouse.capture.errors import WarehouseError

    family = AF_INET6 if ":" in host else AF_INET
    try:
        return create_server((host, port), family=family)
    except OSError as error:
        # Python's text says the address once more; a name that is not found has a negative number
        said = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise WarehouseError(
            f"{host} port {port}: {said}; choose another with --host and --port"
        ) from error


def mcp(
    warehouse: WarehouseOption = "./warehouse",
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most rows of an answer.")] = 1000,
    timeout: TimeoutOption = 30,
    memory: MemoryOption = "2GB",
    workers: WorkersOption = 1,
) -> None:
    """Answer agents on stdin and stdout (Model Context Protocol).

    Tools: runs, tables, views, describe, query, summary, compare, check. Answers carry units, coverage
    and why a value cannot be known.

    \b
    Examples:
      xlahouse mcp -w wh
      xlahouse mcp -w wh --limit 200 --timeout 10
    """
    _need("mcp", "mcp")
    from xlahouse.sql.serve.agents import make_server

    asked = _workers(warehouse, timeout, memory, limit, workers)
    try:
        make_server(asked).run("stdio")
    finally:
        asked.close()


def _workers(root: str, timeout: float, memory: str, rows: int, count: int) -> Workers:
    from xlahouse.sql.serve.workers import Workers

    limits = limits_of(timeout, memory, rows)
    if limits.memory_bytes is None:
        raise typer.BadParameter("served queries need a limit above 0", param_hint="--memory")
    with open_warehouse(root):
        pass  # there has to be one
    return Workers(root, limits, count)


def _need(extra: str, *modules: str) -> None:
    """Refuse a verb whose packages are not installed.

    Raises:
        WarehouseError: one is missing; states how to install them.
    """
    from importlib.util import find_spec

    from xlahouse.capture.errors import WarehouseError

    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise WarehouseError(
            f"this verb needs {' and '.join(missing)}: pip install 'xlahouse[{extra}]'"
        )
