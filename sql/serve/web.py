"""The site with a SQL box, over HTTP: who may ask, and the routes."""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlencode

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from xlahouse.capture.errors import XlahouseError
from xlahouse.sql.serve.asking import answer_client
from xlahouse.sql.serve.workers import Busy, Workers

HERE = Path(__file__).parent
LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]", "::1")
COOKIE = "xlahouse_token"
LONGEST_SQL = 100_000  # characters
MOST_BODY = 8 * LONGEST_SQL  # bytes; JSON writes a character in at most 6
# The box loads its own two files and asks this server; nothing else.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}
TYPES = {"csv": "text/csv; charset=utf-8", "arrow": "application/vnd.apache.arrow.file"}
Next = Callable[[Request], Awaitable[Response]]


def make_app(
    workers: Workers, site: Path | None, token: str | None, hosts: tuple[str, ...] = LOCAL_HOSTS
) -> Starlette:
    """The application.

    Args:
        workers: that answer.
        site: folder of a report, served below /site/; None: no site.
        token: that a client must give, as a bearer, in a cookie, or once as ?token=; None: no client
            needs one.
        hosts: names under which the server may be called, against pages that call it by a name of
            their own; ("*",): any.
    """
    routes: list[BaseRoute] = [
        Route("/", _home(site)),
        Route("/sql", _own_file("box.html", "text/html; charset=utf-8")),
        Route("/box.js", _own_file("box.js", "text/javascript; charset=utf-8")),
        Route("/box.css", _own_file("box.css", "text/css; charset=utf-8")),
        Route("/api/query", _table(workers), methods=["POST"]),
        Route("/api/file", _file(workers)),
        Route("/api/relations", _relations(workers)),
        Route("/api/describe", _describe(workers)),
    ]
    if site is not None:
        routes.append(Mount("/site", StaticFiles(directory=site, html=True)))
    return Starlette(
        routes=routes,
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts)),
            Middleware(BaseHTTPMiddleware, dispatch=_guarded(token)),
        ],
        exception_handlers={XlahouseError: _explain},
    )


def _guarded(token: str | None) -> Callable[[Request, Next], Awaitable[Response]]:
    """Refuse other sites' pages, and clients without the token."""

    async def guard(request: Request, call_next: Next) -> Response:
        from_elsewhere = request.headers.get("sec-fetch-site", "none") not in (
            "none",
            "same-origin",
        )
        if from_elsewhere and request.url.path.startswith("/api/"):
            return PlainTextResponse("a page of another site may not ask\n", 403)
        if token is not None:
            given = request.query_params.get("token")
            if given is not None and _same(given, token):
                return _with_cookie(request, token)
            if not _same(_token_of(request), token):
                return PlainTextResponse(
                    "open the link with ?token= that the server printed\n", 401
                )
        response = await call_next(request)
        response.headers.update(HEADERS)
        return response

    return guard


def _token_of(request: Request) -> str:
    kind, _, given = request.headers.get("authorization", "").partition(" ")
    return given if kind.lower() == "bearer" else request.cookies.get(COOKIE, "")


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(), token.encode())


def _with_cookie(request: Request, token: str) -> Response:
    """The page without the token in its address, which a history or a link would keep."""
    left = [(name, value) for name, value in request.query_params.multi_items() if name != "token"]
    # A path with two slashes would lead to another server.
    path = "/" + request.url.path.lstrip("/")
    response = RedirectResponse(f"{path}?{urlencode(left)}" if left else path, 303)
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict")
    response.headers.update(HEADERS)
    return response


def _home(site: Path | None) -> Callable[[Request], Awaitable[Response]]:
    async def home(request: Request) -> Response:
        return RedirectResponse("/sql" if site is None else "/site/")

    return home


def _own_file(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    body = (HERE / name).read_bytes()

    async def own_file(request: Request) -> Response:
        headers = {"Content-Security-Policy": POLICY, "Cache-Control": "no-cache"}
        return Response(body, media_type=kind, headers=headers)

    return own_file


def _table(workers: Workers) -> Callable[[Request], Awaitable[Response]]:
    async def table(request: Request) -> Response:
        # Other sites' forms cannot send this type without being asked for leave first.
        if not request.headers.get("content-type", "").startswith("application/json"):
            return JSONResponse({"error": 'send JSON: {"sql": "..."}'}, 415)
        raw = await _body(request)
        if raw is None:
            return JSONResponse({"error": f"more than {MOST_BODY:,} bytes"}, 413)
        try:
            sql = json.loads(raw)["sql"]
        except (ValueError, KeyError, TypeError, RecursionError):
            sql = None
        if problem := _no_query(sql):
            return JSONResponse({"error": problem}, 400)
        return JSONResponse(await answer_client(request, workers, "table", sql=sql))

    return table


async def _body(request: Request) -> bytes | None:
    """What the client sent; None where it is more than a query takes."""
    raw = b""
    async for part in request.stream():
        raw += part
        if len(raw) > MOST_BODY:
            return None
    return raw


def _file(workers: Workers) -> Callable[[Request], Awaitable[Response]]:
    async def file(request: Request) -> Response:
        sql, form = request.query_params.get("q"), request.query_params.get("format", "csv")
        problem = _no_query(sql)
        if problem or form not in TYPES:
            return JSONResponse({"error": problem or "the format is csv or arrow"}, 400)
        raw = await answer_client(request, workers, "file", sql=sql, format=form)
        headers = {"Content-Disposition": f'attachment; filename="result.{form}"'}
        return Response(raw, media_type=TYPES[form], headers=headers)

    return file


def _relations(workers: Workers) -> Callable[[Request], Awaitable[Response]]:
    async def relations(request: Request) -> Response:
        views = await answer_client(request, workers, "views")
        tables = await answer_client(request, workers, "tables")
        return JSONResponse({"tables": tables, "views": views})

    return relations


def _describe(workers: Workers) -> Callable[[Request], Awaitable[Response]]:
    async def describe(request: Request) -> Response:
        name = request.query_params.get("name", "")
        return PlainTextResponse(await answer_client(request, workers, "describe", name=name))

    return describe


def _no_query(sql: object) -> str | None:
    if not isinstance(sql, str) or not sql.strip():
        return "there is no query"
    if len(sql) > LONGEST_SQL:
        return f"the query is longer than {LONGEST_SQL:,} characters"
    return None


async def _explain(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 503 if isinstance(error, Busy) else 400)
