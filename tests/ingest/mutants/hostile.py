"""Values that no honest producer writes: numbers at the ends of their ranges, and names of every kind."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")
NUMBERS = (
    0, 1, -1, 2, 127, 128, 1 << 20, (1 << 31) - 1, 1 << 31, -(1 << 31), (1 << 32) - 1, 1 << 32,
    (1 << 53) + 1, 1 << 62, (1 << 63) - 1, 1 << 63, -(1 << 63), (1 << 64) - 1, 10**30,
)  # fmt: skip
NAMES = (
    "", " ", "\n", "\t", "\0", "a\0b", "\x1b[2J\x1b]0;t\x07", "\u202egnp.exe", "\u200b", "é", "\U0001f600",
    "a\r\nb", "=cmd()", "'; drop table ops; --", "../../etc/passwd", "/", ".", "{}", "{0}", "%s", "%",
    "<img src=x onerror=alert(1)>", "`a`", "$name", "null", "None", "nan", "1e999", "-0", "\ufeff", "\ud800",
    "/device:TPU:99999999999999999999", "/device:TPU:-1", "/device:TPU:0", "/device:GPU:4294967296",
    "/host:CPU", "/host:metadata", "XLA Ops", "XLA Modules", "Steps", "Async XLA Ops",
    "jit_f(18446744073709551616)", "jit_f(-1)", "jit_f()",
    "execute_model: \u0663 reqs, \u0661\u0662 toks", "TPU_\u0661_bfc",
    "execute_model: 999999999999999999999 reqs, 1 toks",
    "%all-reduce.1 = f32[99999999999,99999999999]{0} all-reduce(f32[1]{0} %x), "
    "replica_groups=[1048576,1048576]<=[1099511627776]",
    "%a = f32[0]{0} all-gather(), replica_groups={{0,1},{1,0},{}}, dimensions={9}",
    "%w = (f32[2], (s32[], token[])) while(%w), body=%w, condition=%w",
    "%c = f32[2]{0} collective-permute(f32[2]{0} %c), source_target_pairs={{0,9223372036854775807}}",
)  # fmt: skip
LONG = 1 << 16
_WHOLE_PATHS = 0.2  # how often all places of one path are changed instead of one


def drawn_alike(
    places: Iterable[tuple[Hashable, T]], draw: random.Random
) -> tuple[list[T], list[T]]:
    """The places of one path, and which of them to change; each path is as likely, however often it occurs.

    Args:
        places: path and place of everything in a tree; empty: both lists are empty.
        draw: where chance comes from.
    """
    by_path: dict[Hashable, list[T]] = {}
    for path, place in places:
        by_path.setdefault(path, []).append(place)
    if not by_path:
        return [], []
    alike = by_path[draw.choice(sorted(by_path))]
    return alike, alike if draw.random() < _WHOLE_PATHS else [draw.choice(alike)]


def number(draw: random.Random) -> int:
    """A number at the end of some range."""
    return draw.choice(NUMBERS)


def name(draw: random.Random) -> str:
    """A name: odd, long, or of characters drawn from everywhere."""
    match draw.randrange(8):
        case 0:
            return draw.choice("aé\n/%{(") * LONG
        case 1:
            places = (draw.randrange(0x110000) for _ in range(draw.randrange(20)))
            return "".join(chr(place) for place in places if not 0xD800 <= place < 0xE000)
        case _:
            return draw.choice(NAMES)


def renumbered(text: str, draw: random.Random) -> str:
    """A text with one run of its digits replaced by a hostile number."""
    starts = [at for at, mark in enumerate(text) if mark.isdigit()]
    if not starts:
        return text + str(number(draw))
    at = draw.choice(starts)
    end = at
    while end < len(text) and text[end].isdigit():
        end += 1
    return f"{text[:at]}{number(draw)}{text[end:]}"
