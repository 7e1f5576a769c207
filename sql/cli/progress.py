"""Shows progress on stderr: a spinner on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from xlahouse.sql.drawing import visible

if TYPE_CHECKING:
    from rich.console import Console


class Say(Protocol):
    """Takes a line: one that stays, or one that the next replaces (`passing`)."""

    def __call__(self, message: str, *, passing: bool = False) -> None: ...


@contextmanager
def progress(task: str) -> Iterator[Say]:
    """Show that `task` runs; gives the function that reports its progress.

    Where stderr is not a terminal, passing lines are left out.
    """
    if not sys.stderr.isatty():
        yield _say_plainly
        return
    from rich.console import Console

    console = Console(stderr=True)
    with console.status(task) as status:

        def say(message: str, *, passing: bool = False) -> None:
            if passing:
                status.update(f"{task}: {visible(message)}")
            else:
                _print(console, visible(message))

        yield say


def _say_plainly(message: str, *, passing: bool = False) -> None:
    if not passing:
        print(visible(message), file=sys.stderr, flush=True)


def _print(console: Console, message: str) -> None:
    console.print(message, markup=False, highlight=False, soft_wrap=True)
