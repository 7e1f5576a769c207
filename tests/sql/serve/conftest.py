"""A warehouse with hostile names, and a server on it, as the command line starts one."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.warehouse import write_warehouse

HOSTILE = "<img src=x onerror=alert(1)>"
MAIN = "from xlahouse.sql.cli import main; main()"


@dataclass(frozen=True)
class Server:
    """Where a server listens."""

    url: str  # without a slash at its end
    token: str | None = None
    pid: int = 0

    def get(self, path: str, **headers: str) -> tuple[int, bytes]:
        """Status and body."""
        return self._open(urllib.request.Request(f"{self.url}{path}", headers=headers))

    def ask(self, sql: str, **headers: str) -> tuple[int, dict[str, Any]]:
        """Status and answer of a query."""
        status, raw = self.post(json.dumps({"sql": sql}).encode(), **headers)
        return status, json.loads(raw) if raw.startswith(b"{") else {"error": raw.decode()}

    def post(self, body: bytes, **headers: str) -> tuple[int, bytes]:
        """Status and body of the answer to a query's body."""
        headers = {"Content-Type": "application/json", **headers}
        return self._open(
            urllib.request.Request(f"{self.url}/api/query", body, headers, method="POST")
        )

    def file(self, sql: str, format: str) -> tuple[int, bytes]:
        """Status and body of a query's rows as a file."""
        return self.get(f"/api/file?{urlencode({'q': sql, 'format': format})}")

    @staticmethod
    def _open(request: urllib.request.Request) -> tuple[int, bytes]:
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()


@contextmanager
def serving(root: Path, *words: str) -> Iterator[Server]:
    """A server on a warehouse, ended afterwards."""
    command = [sys.executable, "-c", MAIN, "serve", "-w", str(root), "--port", "0", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url, _, token = process.stdout.readline().strip().partition("/sql")
            yield Server(url, token.removeprefix("?token=") or None, process.pid)
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [
        {"run_id": "ab12", "op": name, "device_id": 0, "duration_ps": (1 << 53) + 1}
        for name in (HOSTILE, "=1+1")
    ]
    tables = {
        "runs": [{"run_id": "ab12", "name": "base", "status": "complete", "device_count": 1}],
        "devices": [{"run_id": "ab12", "device_id": 0, "traced": True}],
        "ops": rows,
        "issues": [
            {"run_id": "ab12", "severity": "warning", "code": "no_hlo", "message": "m", "count": 1}
        ],
    }
    return write_warehouse(tmp_path_factory.mktemp("served") / "secret-place" / "w", tables)


@pytest.fixture(scope="session")
def server(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    site = tmp_path_factory.mktemp("site")
    (site / "index.html").write_text("<!doctype html><title>the site</title>")
    limits = ("--timeout", "2", "--memory", "500MB", "--limit", "1500", "--workers", "1")
    with serving(root, "--site", str(site), *limits) as started:
        yield started
