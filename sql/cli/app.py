"""The command line: one function per verb, which imports its modules when it is called."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Callable
from functools import cache
from typing import Annotated

try:
    import typer

    from xlahouse.capture.errors import LowMemoryError, XlahouseError, lacks_memory
    from xlahouse.sql.blame import is_interrupt
    from xlahouse.sql.cli.capture import capture
    from xlahouse.sql.cli.check import check
    from xlahouse.sql.cli.compact import compact
    from xlahouse.sql.cli.compare import compare
    from xlahouse.sql.cli.compile import compile
    from xlahouse.sql.cli.demo import demo
    from xlahouse.sql.cli.drop import drop
    from xlahouse.sql.cli.export import export_app
    from xlahouse.sql.cli.ingest import ingest
    from xlahouse.sql.cli.options import LimitsOption
    from xlahouse.sql.cli.predict import predict
    from xlahouse.sql.cli.query import query
    from xlahouse.sql.cli.report import report
    from xlahouse.sql.cli.runs import runs
    from xlahouse.sql.cli.serve import mcp, serve
    from xlahouse.sql.cli.set import set_app
    from xlahouse.sql.cli.shell import shell
    from xlahouse.sql.cli.summary import summary
    from xlahouse.sql.cli.tables import tables
    from xlahouse.sql.cli.tpu import tpu_app
    from xlahouse.sql.cli.views import views
    from xlahouse.sql.drawing import visible
    from xlahouse.sql.interrupt import left_behind
except KeyboardInterrupt:  # no traceback of imports
    sys.exit(130)

app = typer.Typer(
    name="xlahouse",
    help="A SQL warehouse for XLA profiler traces: capture, ingest, query, report.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for verb in (
    demo,
    capture,
    compile,
    ingest,
    runs,
    query,
    shell,
    views,
    tables,
    check,
    report,
    summary,
    compare,
    predict,
    compact,
    drop,
    serve,
    mcp,
):
    app.command()(verb)
app.add_typer(set_app, name="set")
app.add_typer(export_app, name="export")
app.add_typer(tpu_app, name="tpu")


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 the input is at fault, 2 wrong usage, 130 interrupted."""
    _speak_utf8()
    code: str | int | None = 1
    try:
        _command()(prog_name="xlahouse")
    except SystemExit as done:
        code = done.code
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        if isinstance(error, RuntimeError) and is_interrupt(error):
            code = 130
        elif (said := _said(error)) is None:
            raise
        else:
            for line in said.splitlines():
                print(f"xlahouse: {visible(line)}", file=sys.stderr)
    if left_behind():  # a query that does not stop: waiting for it would be without end
        _flushed()
        os._exit(code if isinstance(code, int) and code else 1)
    gc.freeze()  # else Python scans all loaded objects once more: a seventh of a second
    sys.exit(code if _flushed() else code or 1)


@cache
def _command() -> Callable[..., object]:
    """The verbs and options as click has them: reading all signatures takes a tenth of a second."""
    return typer.main.get_command(app)


def _speak_utf8() -> None:
    """Print UTF-8 under every locale: our texts go beyond ASCII, and names have any bytes."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (open for as long as the process runs)
    if sys.stdout is None:
        print("xlahouse: stdout is closed; send it to a file or to /dev/null", file=sys.stderr)
        sys.exit(1)
    for stream, errors in ((sys.stdout, "surrogateescape"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors=errors)


def _said(error: Exception) -> str | None:
    """What a user is told of an error; None of an error that is a fault of xlahouse."""
    if isinstance(error, XlahouseError):
        return str(error)
    if lacks_memory(error):
        return str(LowMemoryError())
    return _what_failed(error) if isinstance(error, OSError) else None


def _what_failed(error: OSError) -> str:
    said = error.strerror or str(error)
    if error.filename:
        return f"{error.filename}: {said}; check what it is, and who may read and write it"
    return f"{said}; check for free space where the output goes"


def _flushed() -> bool:
    """Whether the output arrived; the rest is dropped, or Python complains when it exits."""
    try:
        sys.stdout.flush()
    except ValueError:  # closed by a writer that failed, and has reported it
        return False
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            print(f"xlahouse: stdout: {error.strerror or error}", file=sys.stderr)
        return False
    return True


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"xlahouse {version('xlahouse')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
    limits: LimitsOption = None,
) -> None:
    pass
