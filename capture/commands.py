"""Commands in the text of findings, made ready to be pasted into a shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

DEFAULT_WAREHOUSE = "./warehouse"
# A command as remedies and advice write it: between backquotes, with these words to be filled in. Ingest
# fills in the traces; the run's name and the warehouse's place may change, so whoever shows a finding does.
COMMAND = re.compile(r"`(xlahouse [^`]*)`")
RUN, TRACES = "RUN", "TRACES"
STATE_MESH = "`xlahouse set mesh RUN MESH` states the mesh"


def with_mesh(text: str, devices: int | None) -> str:
    """A text whose STATE_MESH has the simplest mesh of so many devices, which has one axis.

    Args:
        text: with STATE_MESH in it, or not.
        devices: of the run; None or 1 leaves the mesh to the reader.
    """
    if not devices or devices < 2:
        return text
    simplest = f"`xlahouse set mesh RUN tp={devices}` states a mesh of one axis"
    return text.replace(STATE_MESH, simplest)


def filled(text: str, words: Mapping[str, str], warehouse: str = DEFAULT_WAREHOUSE) -> str:
    """A text with the words of its commands filled in.

    Args:
        text: with commands between backquotes; one that no shell could parse stays as it is.
        words: RUN or TRACES -> what stands for it.
        warehouse: a folder or URL, which commands then name.
    """

    def fill(found: re.Match[str]) -> str:
        try:
            parts = shlex.split(found[1])
        except ValueError:
            return found[0]
        return f"`{located(shlex.join(words.get(part, part) for part in parts), warehouse)}`"

    return COMMAND.sub(fill, text)


def shown(text: str, run: str, warehouse: str) -> str:
    """A finding's text as people see it: its commands name the run and the warehouse.

    Args:
        text: as the table `issues` has it.
        run: name of the run.
        warehouse: that the finding was read from.
    """
    return filled(text, {RUN: run}, warehouse)


def located(command: str, warehouse: str) -> str:
    """A command line that names the warehouse, unless it is the default one."""
    return command if warehouse == DEFAULT_WAREHOUSE else f"{command} -w {shlex.quote(warehouse)}"


def all_of(traces: Sequence[str]) -> str:
    """The one file, or the folder that holds all of them."""
    if len(traces) == 1:
        return traces[0]
    parts = [path.split("/")[:-1] for path in traces]
    same = 0
    while all(len(each) > same and each[same] == parts[0][same] for each in parts):
        same += 1
    return "/".join(parts[0][:same]) or "."
