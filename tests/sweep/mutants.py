"""Mutants of a trace: every name in it renamed, and every kind of fact dropped, one at a time.

A name is that of a plane, line, event, stat, argument, category or header. Which of them a reader depends on
need not be stated: a mutant of a name that no reader knows changes nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.synth.protos import XSpace

_STEM = re.compile(r"%?[A-Za-z_][A-Za-z_:<>$ /-]*")
_LONGEST_WORD = 60  # a stat's longer text is an instruction or a path
Json = dict[str, Any]


@dataclass(frozen=True)
class Mutant:
    """A trace with one change."""

    what: str  # plane, line, event, stat, word (a stat's text), key, header, …
    name: str  # the name that was changed
    change: str  # renamed or dropped
    raw: bytes  # the trace

    @property
    def label(self) -> str:
        """`stat hlo_op renamed`."""
        return f"{self.what} {self.name} {self.change}"


def stem_of(name: str) -> str:
    """The part of a name before its numbers: `%all-reduce.1 = f32[8]` -> `%all-reduce`."""
    found = _STEM.match(name)
    return found[0] if found else name


def renamed(name: str, stem: str) -> str:
    """A name with its stem replaced by another word, of the same length and unlike any real one."""
    sign = "%" if stem.startswith("%") else ""
    return f"{sign}q{stem.removeprefix(sign)[:0:-1].lower().swapcase()}" + name[len(stem) :]


def of_xplane(raw: bytes) -> Iterator[Mutant]:
    """The mutants of an xplane."""
    for what, names, change in _XPLANE:
        for name in sorted(names(XSpace.FromString(raw))):
            for how in ("renamed", "dropped"):
                space = XSpace.FromString(raw)
                if change(space, name, how == "dropped"):
                    changed = space.SerializeToString()
                    if changed != raw:
                        yield Mutant(what, name, how, changed)


def _plane_names(space: Any) -> set[str]:
    return {re.sub(r"\d+$", "", plane.name) for plane in space.planes if plane.name}


def _change_plane(space: Any, name: str, drop: bool) -> bool:
    kept = []
    for plane in space.planes:
        if re.sub(r"\d+$", "", plane.name) != name:
            kept.append(plane)
        elif not drop:
            number = plane.name[len(name) :]
            plane.name = f"/q{name[:0:-1]}{number}"
            kept.append(plane)
    _keep(space.planes, kept)
    return True


def _line_names(space: Any) -> set[str]:
    return {stem_of(line.name) for plane in space.planes for line in plane.lines}


def _change_line(space: Any, name: str, drop: bool) -> bool:
    for plane in space.planes:
        kept = []
        for line in plane.lines:
            # A host's line is a thread: a trace without it is another trace, of which less happened.
            if stem_of(line.name) != name or (drop and plane.name.startswith("/host")):
                kept.append(line)
            elif not drop:
                line.name = renamed(line.name, name)
                kept.append(line)
        _keep(plane.lines, kept)
    return True


def _event_names(space: Any) -> set[str]:
    return {stem_of(entry.value.name) for plane in space.planes for entry in plane.event_metadata}


def _change_event(space: Any, name: str, drop: bool) -> bool:
    """Events are only renamed: a trace without an event is another trace, of which less happened."""
    if drop:
        return False
    bare = name.removeprefix("%")
    for plane in space.planes:
        for entry in plane.event_metadata:
            if stem_of(entry.value.name) == name:
                entry.value.name = renamed(entry.value.name, name)
                if entry.value.display_name.startswith(bare):
                    entry.value.display_name = renamed(entry.value.display_name, bare)
    return True


def _stat_names(space: Any) -> set[str]:
    return {_stat_name(plane, stat) for plane in space.planes for stat in _all_stats(plane)}


def _change_stat(space: Any, name: str, drop: bool) -> bool:
    for plane in space.planes:
        names = {entry.key: entry.value.name for entry in plane.stat_metadata}
        numbers = {key for key, value in names.items() if value == name}
        if drop:
            for owner in _owners(plane):
                _keep(owner.stats, [s for s in owner.stats if s.metadata_id not in numbers])
            referred = {s.ref_value for s in _all_stats(plane)}
            kept = [e for e in plane.stat_metadata if e.key not in numbers - referred]
            _keep(plane.stat_metadata, kept)
        else:
            for entry in plane.stat_metadata:
                if entry.key in numbers:
                    entry.value.name = renamed(name, stem_of(name))
    return True


def _words(space: Any) -> set[str]:
    """`stat=word` of the texts of stats."""
    found = set()
    for plane in space.planes:
        names = {entry.key: entry.value.name for entry in plane.stat_metadata}
        for stat in _all_stats(plane):
            word = _word(stat, names)
            if word and len(word) <= _LONGEST_WORD:
                found.add(f"{names.get(stat.metadata_id, '')}={stem_of(word)}")
    return found


def _change_word(space: Any, name: str, drop: bool) -> bool:
    """Texts are only renamed: to drop one is to drop its stat."""
    if drop:
        return False
    stat_name, _, stem = name.partition("=")
    for plane in space.planes:
        names = {entry.key: entry.value.name for entry in plane.stat_metadata}
        for stat in _all_stats(plane):
            word = _word(stat, names)
            if word and names.get(stat.metadata_id) == stat_name and stem_of(word) == stem:
                stat.str_value = renamed(word, stem)
    return True


def _word(stat: Any, names: dict[int, str]) -> str | None:
    kind = stat.WhichOneof("value")
    if kind == "ref_value":
        return names.get(stat.ref_value)
    return stat.str_value if kind == "str_value" else None


def _stat_name(plane: Any, stat: Any) -> str:
    return next((e.value.name for e in plane.stat_metadata if e.key == stat.metadata_id), "")


def _owners(plane: Any) -> Iterator[Any]:
    yield plane
    yield from (entry.value for entry in plane.event_metadata)
    yield from (event for line in plane.lines for event in line.events)


def _all_stats(plane: Any) -> Iterator[Any]:
    return (stat for owner in _owners(plane) for stat in owner.stats)


def _keep(field: Any, kept: list[Any]) -> None:
    copies = [type(each).FromString(each.SerializeToString()) for each in kept]
    del field[:]
    field.extend(copies)


_Change = Callable[[Any, str, bool], bool]
_XPLANE: tuple[tuple[str, Callable[[Any], set[str]], _Change], ...] = (
    ("plane", _plane_names, _change_plane),
    ("line", _line_names, _change_line),
    ("event", _event_names, _change_event),
    ("stat", _stat_names, _change_stat),
    ("word", _words, _change_word),
)


def of_chrome(raw: bytes) -> Iterator[Mutant]:
    """The mutants of a Chrome trace, given as JSON text."""
    whole: Json = json.loads(raw)
    events = whole["traceEvents"]
    changes: list[tuple[str, str, Callable[[Json], Json | None], bool]] = []
    for key in sorted(whole.keys() - {"traceEvents"}):
        yield Mutant("header", key, "renamed", _with_header(whole, key, f"q{key[::-1]}"))
        yield Mutant("header", key, "dropped", _with_header(whole, key, None))
    for what, names in _chrome_names(events).items():
        for name in sorted(names):
            changes += [(what, name, _CHROME[what](name, drop), drop) for drop in (False, True)]
    for what, name, change, drop in changes:
        if drop and what in ("event", "word", "category"):
            continue  # a trace without an event is another trace
        changed = [new for event in events if (new := change(event)) is not None]
        if changed != events:
            yield Mutant(
                what,
                name,
                "dropped" if drop else "renamed",
                _text(whole | {"traceEvents": changed}),
            )


def _with_header(whole: Json, key: str, other: str | None) -> bytes:
    rest = {name: value for name, value in whole.items() if name != key}
    return _text(rest | ({} if other is None else {other: whole[key]}))


def _text(whole: Json) -> bytes:
    return json.dumps(whole).encode()


def _chrome_names(events: list[Json]) -> dict[str, set[str]]:
    """What -> names in the events."""
    found: dict[str, set[str]] = {what: set() for what in _CHROME}
    for event in events:
        args = event.get("args")
        args = args if isinstance(args, dict) else {}
        if event.get("ph") == "M":
            word = args.get("name") or args.get("labels")
            if isinstance(word, str):
                found["line"].add(f"{event['name']}={stem_of(word)}")
            continue
        found["event"].add(stem_of(str(event.get("name", ""))))
        found["key"] |= event.keys() & {"cat", "id", "bp", "bind_id", "flow_in", "flow_out", "args"}
        if isinstance(event.get("cat"), str):
            found["category"].add(event["cat"])
        found["stat"] |= args.keys()
        for key, word in args.items():
            short = isinstance(word, str) and 1 < len(word) <= _LONGEST_WORD
            if short and _STEM.match(word):
                found["word"].add(f"{key}={stem_of(word)}")
    return found


def _line(name: str, drop: bool) -> Callable[[Json], Json | None]:
    said, _, stem = name.partition("=")

    def change(event: Json) -> Json | None:
        args = event.get("args") or {}
        if event.get("ph") != "M" or event["name"] != said:
            return event
        key = "labels" if "labels" in args else "name"
        word = args.get(key)
        if not isinstance(word, str) or stem_of(word) != stem:
            return event
        return None if drop else event | {"args": args | {key: renamed(word, stem)}}

    return change


def _event(name: str, drop: bool) -> Callable[[Json], Json | None]:
    def change(event: Json) -> Json | None:
        word = str(event.get("name", ""))
        if event.get("ph") == "M" or stem_of(word) != name:
            return event
        return event | {"name": renamed(word, name)}

    return change


def _key(name: str, drop: bool) -> Callable[[Json], Json | None]:
    def change(event: Json) -> Json | None:
        if name not in event or event.get("ph") == "M":
            return event
        rest = {key: value for key, value in event.items() if key != name}
        return rest if drop else rest | {f"q{name}": event[name]}

    return change


def _category(name: str, drop: bool) -> Callable[[Json], Json | None]:
    return lambda event: event if event.get("cat") != name else event | {"cat": f"q{name[::-1]}"}


def _argument(name: str, drop: bool) -> Callable[[Json], Json | None]:
    def change(event: Json) -> Json | None:
        args = event.get("args")
        if event.get("ph") == "M" or not isinstance(args, dict) or name not in args:
            return event
        rest = {key: value for key, value in args.items() if key != name}
        return event | {"args": rest if drop else rest | {f"q{name[::-1]}": args[name]}}

    return change


def _word_of(name: str, drop: bool) -> Callable[[Json], Json | None]:
    key, _, stem = name.partition("=")

    def change(event: Json) -> Json | None:
        args = event.get("args")
        word = args.get(key) if isinstance(args, dict) else None
        if event.get("ph") == "M" or not isinstance(word, str) or stem_of(word) != stem:
            return event
        return event | {"args": args | {key: renamed(word, stem)}}

    return change


_CHROME = {
    "line": _line,
    "event": _event,
    "key": _key,
    "category": _category,
    "stat": _argument,
    "word": _word_of,
}
