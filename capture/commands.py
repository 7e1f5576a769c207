"""Commands in the text of findings, made ready to be pasted into a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

DEFAULT_WAREHOUSE = "./warehouse"
# A command as remedies and advice write it: between backquotes, with these words to be filled in.
COMMAND = re.compile(r"`(xlahouse [^`]*)`")
RUN, TRACES = "RUN", "TRACES"


def filled(text: str, run: str, warehouse: str, traces: Sequence[str] = ()) -> str:
    """A text whose commands name the run, its traces and its warehouse.

    Args:
        text: with commands between backquotes.
        run: name or id of the run.
        warehouse: its folder or URL.
        traces: the run's files; none: TRACES stays for the user to fill in.
    """
    place = "" if warehouse == DEFAULT_WAREHOUSE else f" -w {shlex.quote(warehouse)}"
    words = {RUN: shlex.quote(run)} | ({TRACES: _given(traces)} if traces else {})

    def fill(found: re.Match[str]) -> str:
        command = found[1]
        for word, value in words.items():
            command = re.sub(rf"\b{word}\b", lambda _, value=value: value, command)
        return f"`{command}{place}`"

    return COMMAND.sub(fill, text)


def _given(traces: Sequence[str]) -> str:
    """The one file, or the folder that holds all of them."""
    if len(traces) == 1:
        return shlex.quote(traces[0])
    parts = [path.split("/")[:-1] for path in traces]
    same = 0
    while all(len(each) > same and each[same] == parts[0][same] for each in parts):
        same += 1
    return shlex.quote("/".join(parts[0][:same]) or ".")
