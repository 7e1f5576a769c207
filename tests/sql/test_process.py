"""What surrounds a command: interrupts, closed and full outputs, locales; never a traceback."""

from __future__ import annotations

import errno
import io
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from fsspec.registry import _registry

from tests.test_rooms import ROOT
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.events.files import open_fs
from xlahouse.sql import Warehouse
from xlahouse.sql.blame import blame
from xlahouse.sql.cli import app as cli

SCRIPT = [sys.executable, "-c", "from xlahouse.sql.cli import main; main()"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_warehouse(tmp_path_factory.mktemp("process") / "w", {})


def in_shell(arguments: list[str], redirection: str) -> subprocess.CompletedProcess[bytes]:
    command = f"{shlex.join([*SCRIPT, *arguments])} {redirection}"
    return subprocess.run(["sh", "-c", command], capture_output=True, check=False)


def test_an_interrupted_query_says_nothing(root: Path, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    query = ["query", "from range(1000000000000)", "--format", "csv", "-o", str(fifo)]
    running = subprocess.Popen(
        [*SCRIPT, *query, "-w", str(root)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with fifo.open("rb") as read:
        assert read.readline() == b"range\n"  # now it runs
        running.send_signal(signal.SIGINT)
        while read.read(1 << 16):
            pass
    assert running.communicate() == (b"", b"")
    assert running.returncode == 130


def _raising(error: BaseException):
    def verb(**_: object) -> None:
        raise error

    return verb


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, ""),
        (RuntimeError("Query interrupted"), 130, ""),
        (PermissionError(errno.EACCES, "Permission denied", "/w/x"), 1, "/w/x: Permission denied"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "No space left on device"),
        (OSError(errno.ENOMEM, "Cannot allocate memory", "/lib/x"), 1, "not enough memory"),
        (MemoryError(), 1, "not enough memory"),
        (duckdb.OutOfMemoryException("failed to allocate"), 1, "not enough memory"),
        (ImportError("x.so: failed to map segment from shared object"), 1, "not enough memory"),
        (RuntimeError("can't start new thread"), 1, "not enough memory"),
        (NameError("name '_POLARS_TYPE_TO_CONSTRUCTOR' is not defined"), 1, "not enough memory"),
    ],
    ids=repr,
)
def test_what_ends_a_verb_is_one_line_at_most(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    said: str,
) -> None:
    monkeypatch.setattr(cli, "_command", lambda: _raising(error))
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert len(shown.err.splitlines()) == (1 if said else 0)
    assert said in shown.err


@pytest.mark.parametrize("kind", [RuntimeError, ImportError])
def test_an_error_of_ours_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    monkeypatch.setattr(cli, "_command", lambda: _raising(kind("a fault of xlahouse")))
    with pytest.raises(kind, match="a fault"):
        cli.main()


def test_an_interrupt_that_duckdb_saw_first_is_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt), blame("select 1"):
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError, match="else"), blame("select 1"):
        raise RuntimeError("something else")


@pytest.mark.parametrize("arguments", [["runs"], ["views"]], ids=" ".join)
def test_a_closed_stdout_is_one_line(root: Path, arguments: list[str]) -> None:
    done = in_shell([*arguments, *(["-w", str(root)] if arguments == ["runs"] else [])], ">&-")
    assert done.returncode == 1
    assert done.stderr == b"xlahouse: stdout is closed; send it to a file or to /dev/null\n"


def test_a_closed_stdin_is_wrong_usage(root: Path) -> None:
    done = in_shell(["query", "-", "-w", str(root)], "<&-")
    assert done.returncode == 2
    assert b"stdin is closed" in done.stderr
    assert b"Traceback" not in done.stderr


class Full(io.RawIOBase):
    """A device without space."""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError("no file")

    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("format", ["table", "csv", "json", "parquet"])
def test_a_full_stdout_is_one_line(
    root: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    from xlahouse.sql.formats import write_result

    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(Full())))
    with (
        Warehouse(root) as warehouse,
        pytest.raises(WarehouseError, match="stdout cannot be written: No space left"),
    ):
        write_result(warehouse.query("from range(100000)"), format)
    monkeypatch.undo()


@pytest.mark.parametrize(
    "arguments", [["tables", "runs"], ["set", "peaks", "--help"]], ids=" ".join
)
def test_no_locale_forbids_our_words(arguments: list[str]) -> None:
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [*SCRIPT, *arguments], capture_output=True, check=True, env={**os.environ, **ascii_only}
    )
    assert "…" in done.stdout.decode("utf-8")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "the path is empty"),
        ("gs://b/f", "gs:// needs a package that is not installed: pip install 'xlahouse[gs]'"),
        (
            "simplecache::s3://b/f",
            "s3:// needs a package that is not installed: pip install 'xlahouse[s3]'",
        ),
        ("foo://x", "foo:// is not a known kind of URL"),
    ],
)
def test_a_store_that_cannot_be_opened(
    monkeypatch: pytest.MonkeyPatch, url: str, message: str
) -> None:
    for package in ("gcsfs", "s3fs"):
        monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    for kind in ("gs", "s3"):  # fsspec keeps the classes that it has once imported
        monkeypatch.delitem(_registry, kind, raising=False)
    with pytest.raises(WarehouseError) as caught:
        open_fs(url)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_marker_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "warehouse.json").mkdir()
    with pytest.raises(WarehouseError, match=r"warehouse.json cannot be read: Is a directory"):
        Warehouse(tmp_path)


def test_who_connects_turns_the_bar_off() -> None:
    """DuckDB draws one on stdout after two seconds, among rows and lines of a protocol. All connections but
    those that run nothing long: a parser, a table in memory, a list of names."""
    short = {"sql/guard.py", "sql/result.py", "sql/cli/completion.py"}
    rooms = [
        path
        for room in ("capture", "ingest", "sql", "reports")
        for path in (ROOT / room).rglob("*.py")
    ]
    connect = {
        str(path.relative_to(ROOT))
        for path in rooms
        if "duckdb.connect(" in path.read_text("utf-8")
    }
    quiet = {
        name
        for name in connect
        if "enable_progress_bar = false" in (ROOT / name).read_text("utf-8")
    }
    assert len(connect) > len(short)
    assert connect - quiet == short
