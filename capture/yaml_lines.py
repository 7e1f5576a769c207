"""Finds the line of a YAML file that holds a field, so that an error can point at it."""

from __future__ import annotations

import yaml


def line_of(text: str, steps: tuple[str | int, ...]) -> int | None:
    """1-based line of the value at `steps` (keys and list indexes), or of its nearest parent.

    None where not even the first two steps exist. `text` is valid YAML.
    """
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    line, found = None, 0
    for step in steps:
        node = _child(node, step)
        if node is None:
            break
        line, found = node.start_mark.line + 1, found + 1
    return line if found >= min(2, len(steps)) else None


def _child(node: yaml.Node | None, step: str | int) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == step), None)
    if isinstance(node, yaml.SequenceNode) and str(step).isdecimal():
        index = int(step)
        return node.value[index] if index < len(node.value) else None
    return None
