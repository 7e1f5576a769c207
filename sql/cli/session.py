"""Interactive SQL: a prompt that completes names, keeps a history, times queries and pages results."""

from __future__ import annotations

import io
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

from xlahouse.capture.errors import XlahouseError
from xlahouse.sql.cli.options import of_one_run
from xlahouse.sql.drawing import draw, draw_records, elision, terminal_width
from xlahouse.sql.export.catalogue import (
    describe_table,
    describe_view,
    find_table,
    find_view,
    list_tables,
    list_views,
)
from xlahouse.sql.formats import TABLE_ROWS
from xlahouse.sql.library import TABLES
from xlahouse.sql.limits import NO_LIMITS, QueryLimits, memory_wall
from xlahouse.sql.nearest import suggest
from xlahouse.sql.outputs import state_folder

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse

WELCOME = "xlahouse: SQL ends with ;   .help lists commands   Ctrl-D leaves"
COMMANDS = {
    ".tables": "list the tables",
    ".views": "list the views",
    ".schema NAME": "describe a table or view, with a view's SQL",
    ".runs": "list the runs",
    ".format table|line": "show rows as a table, or a line a column",
    ".timer on|off": "show the time of each query",
    ".help": "list these commands",
    ".quit": "leave",
}
RUNS_SQL = (
    "select run_id, name, parallelism, status, captured_at from runs order by captured_at, run_id"
)


class Shell:
    """Answers statements and commands, one after the other.

    Args:
        warehouse: that queries read.
        out: where answers go.
        page: shows a text that is longer than the screen; None: answers are never paged.
        limits: of each query.
        run: the one run that queries see; None: all.

    Raises:
        WarehouseError: there is no such run.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        out: IO[str],
        page: Callable[[str], None] | None = None,
        limits: QueryLimits = NO_LIMITS,
        run: str | None = None,
    ) -> None:
        self.warehouse, self._out, self._page = warehouse, out, page
        self._limits, self._rows = limits, limits.rows or TABLE_ROWS
        self._run = None if run is None else warehouse.resolve_run(run)
        self._timer, self._lines = True, False

    def answer(self, text: str) -> bool:
        """Run a statement or a command; False where it was the command to leave.

        An error is printed in a line, and the shell goes on.
        """
        text = text.strip()
        if text in (".quit", ".exit"):
            return False
        try:
            if text.startswith("."):
                self._show(self._command(text))
            elif text.rstrip(";").strip():
                self._query(text)
        except XlahouseError as error:
            self._out.write(f"{error}\n")
        except KeyboardInterrupt:
            self._out.write("interrupted\n")
        return True

    def _query(self, sql: str) -> None:
        began = time.perf_counter()
        with memory_wall(self._limits.memory_bytes):
            opened = self.warehouse
            result = (of_one_run(opened, self._run, sql) if self._run else opened).query(sql)
            rows = result.head(self._rows + 1)
        took = time.perf_counter() - began
        shown = io.StringIO()
        hidden = []
        if self._lines:
            draw_records(result.columns, rows[: self._rows], shown)
        else:
            width = terminal_width(self._out)
            hidden = draw(result.columns, rows[: self._rows], shown, width)
        more = len(rows) > self._rows
        count = f"the first {self._rows:,} rows" if more else f"{len(rows):,} rows"
        count = "1 row" if count == "1 rows" else count
        self._show(shown.getvalue())
        if hidden:
            self._out.write(f"{elision(hidden, '.format line shows all')}\n")
        if not rows:
            self._out.writelines(f"{line}\n" for line in self.warehouse.run_hints(sql))
        self._out.write(f"{count}, {took:.3f} s\n" if self._timer else f"{count}\n")

    def _show(self, text: str) -> None:
        if self._page and text.count("\n") >= shutil.get_terminal_size().lines - 2:
            self._page(text)
        else:
            self._out.write(text)

    def _command(self, text: str) -> str:
        name, _, argument = text.partition(" ")
        argument = argument.strip().rstrip(";")
        library = self.warehouse.library
        if name == ".tables":
            return _pairs(list_tables())
        if name == ".views":
            return _pairs(list_views(library))
        if name == ".schema":
            if argument in TABLES or not argument:
                return describe_table(find_table(argument))
            return describe_view(library, find_view(library, argument))
        if name == ".runs":
            self._query(RUNS_SQL)
            return ""
        if name == ".format" and argument in ("table", "line"):
            self._lines = argument == "line"
            return ""
        if name == ".timer" and argument in ("on", "off"):
            self._timer = argument == "on"
            return ""
        if name == ".help":
            return _pairs(iter(COMMANDS.items()))
        hint = suggest(name, [command.partition(" ")[0] for command in COMMANDS])
        return f"no command {text}{hint or '; .help lists them'}\n"


def _pairs(rows: Iterator[tuple[str, str]]) -> str:
    found = list(rows)
    width = max(len(name) for name, _ in found)
    return "".join(f"{name.ljust(width)}  {text}\n" for name, text in found)


def is_whole(text: str) -> bool:
    """Whether a text can be run: a command, or a statement that ends with `;`."""
    text = text.strip()
    return not text or text.startswith(".") or text.endswith(";")


def run_script(shell: Shell, lines: Iterator[str]) -> None:
    """Answer statements and commands from a pipe, without a prompt."""
    waiting = ""
    for line in lines:
        waiting += line
        if is_whole(waiting):
            if not shell.answer(waiting):
                return
            waiting = ""
    shell.answer(waiting)


def run_prompt(shell: Shell, history: Path | None = None) -> None:
    """Answer statements at a prompt until the user leaves; Ctrl-C drops a line or ends a query."""
    from xlahouse.sql.cli.prompt import open_prompt

    session = open_prompt(shell.warehouse.library, history)
    print(WELCOME, file=sys.stderr)
    while True:
        try:
            text = session.prompt()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if not shell.answer(text):
            return


def history_file() -> Path:
    """The file of the prompt's history, by the XDG directories."""
    return state_folder() / "history"
