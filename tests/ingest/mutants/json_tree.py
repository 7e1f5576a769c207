"""Mutates values of JSON and YAML: keys, types, numbers, texts, depth; and writes what neither allows."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from tests.ingest.mutants import hostile

Value = Any  # what JSON holds
Path = tuple[str, ...]
_DEEP = "@deep@"  # stands for nesting that no encoder writes


def _places(value: Value, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """(path, container, key) of every value in a tree; all items of a list have one path."""
    pairs = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, inner in [*pairs]:
        here = (*path, str(key) if isinstance(value, dict) else "[]")
        yield here, value, key
        yield from _places(inner, here)


def mutate(value: Value, draw: random.Random) -> None:
    """Change a tree in place, once or a few times."""
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        places = ((path, (owner, key)) for path, owner, key in _places(value))
        alike, chosen = hostile.drawn_alike(places, draw)
        if not alike:
            return
        change, seed = draw.choice(_CHANGES), draw.randrange(1 << 32)
        for owner, key in reversed(chosen):  # so that the places of a list stay while items go
            change(owner, key, alike, random.Random(seed))


def mutated_json(raw: bytes, draw: random.Random) -> bytes:
    """A document with changes, as JSON or almost."""
    value = json.loads(raw)
    mutate(value, draw)
    return dumped(value, draw)


def dumped(value: Value, draw: random.Random) -> bytes:
    """The JSON of a tree, with NaN and depth that JSON does not have."""
    text = json.dumps(value, ensure_ascii=draw.random() < 0.5)
    if _DEEP in text:
        depth = draw.choice((100, 1100, 100_000))
        opened, closed = draw.choice((("[", "]"), ('{"a":', "}")))
        text = text.replace(f'"{_DEEP}"', opened * depth + "1" + closed * depth, 1)
    return text.encode("utf-8", "surrogatepass")


def _drop(owner: Any, key: Any, alike: list[Any], draw: random.Random) -> None:
    if isinstance(owner, dict):
        owner.pop(key, None)
    elif key < len(owner):
        del owner[key]


def _double(owner: Any, key: Any, alike: list[Any], draw: random.Random) -> None:
    if isinstance(owner, list) and key < len(owner):
        owner.insert(key, owner[key])
    elif isinstance(owner, dict):
        owner[f"{key}2"] = owner.get(key)


def _many(owner: Any, key: Any, alike: list[Any], draw: random.Random) -> None:
    if isinstance(owner, list) and key < len(owner):
        owner.extend([owner[key]] * draw.choice((10, 1000, 5000)))


def _retype(owner: Any, key: Any, alike: list[Any], draw: random.Random) -> None:
    _set(
        owner,
        key,
        draw.choice((None, True, "7", 7, -7.5, [], {}, [[]], {"a": 1}, [1, "a", None], "")),
    )


def _number(owner: Any, key: Any, alike: list[Any], draw: random.Random) -> None:
    odd = (float("nan"), float("inf"), -float("inf"), 1e308, -1e-308, 0.1, 1e18, 2.0**63, -0.0)
    _set(
        owner, key, draw.choice((hostile.number(draw), draw.choice(odd), str(hostile.number(draw))))
    )


def _text(owner: Any, key: Any, alike: list[Any], draw: random.Random) -> None:
    old = _get(owner, key)
    texts = [text for place in alike if isinstance(text := _get(*place), str)] or [""]
    renumbered = hostile.renumbered(old, draw) if isinstance(old, str) else ""
    _set(
        owner,
        key,
        draw.choice((hostile.name(draw), hostile.name(draw), draw.choice(texts), renumbered)),
    )


def _key(owner: Any, key: Any, alike: list[Any], draw: random.Random) -> None:
    if isinstance(owner, dict) and key in owner:
        owner[hostile.name(draw)] = owner.pop(key)


def _deep(owner: Any, key: Any, alike: list[Any], draw: random.Random) -> None:
    _set(owner, key, _DEEP)


def _get(owner: Any, key: Any) -> Any:
    if isinstance(owner, dict):
        return owner.get(key)
    return owner[key] if key < len(owner) else None


def _set(owner: Any, key: Any, value: Any) -> None:
    if isinstance(owner, dict) or key < len(owner):
        owner[key] = value


_CHANGES = (
    _drop,
    _drop,
    _double,
    _many,
    _retype,
    _retype,
    _number,
    _number,
    _text,
    _text,
    _key,
    _deep,
)
