"""Reads DuckDB's JSON form of a statement: a part that a node lacks is empty, never an error."""

from __future__ import annotations

from typing import TypeAlias

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
Node: TypeAlias = dict[str, Json]


def kind(node: Node) -> str:
    """The node's type, such as BASE_TABLE; empty where it has none."""
    return text(node, "type")


def text(node: Node, part: str) -> str:
    """A part that is a text."""
    found = node.get(part)
    return found if isinstance(found, str) else ""


def texts(node: Node, part: str) -> list[str]:
    """A part that is a list of texts, in lower case: names of columns or of a path."""
    found = node.get(part)
    return [str(item).lower() for item in found] if isinstance(found, list) else []


def child(node: Node, part: str) -> Node:
    """A part that is a node."""
    found = node.get(part)
    return found if isinstance(found, dict) else {}


def children(node: Node, part: str) -> list[Node]:
    """A part that is a list of nodes."""
    found = node.get(part)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
