"""Finds the line of a field in a YAML file, for error messages."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import yaml


def line_of(text: str, steps: tuple[str | int, ...]) -> int | None:
    """1-based line of the key or item at `steps` (keys and list indexes); None if it is absent.

    `text` is valid YAML. An item's line is the one that it starts on.
    """
    import yaml  # only wrong files need it

    node, line = _composed(text), 1
    for step in steps:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == step), None)
        elif isinstance(node, yaml.SequenceNode) and str(step).isdecimal():
            found = next(((item, item) for item in node.value[int(step) :]), None)
        else:
            found = None
        if found is None:
            return None
        line, node = found[0].start_mark.line + 1, found[1]
    return line


@lru_cache(maxsize=1)
def _composed(text: str) -> yaml.Node | None:
    """The nodes of a text, which is asked about once for each of its faults."""
    import yaml

    found: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    return found
