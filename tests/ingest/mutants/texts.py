"""Mutates YAML, SQL and HLO text: their lines, numbers, brackets and words, and what YAML alone can do."""

from __future__ import annotations

import random

import yaml

from tests.ingest.damage import damage
from tests.ingest.mutants import hostile
from tests.ingest.mutants.json_tree import mutate

_YAML = (
    "&a [*a]", "&a {b: *a}", "{[1]: 2}", "? [a]\n: b", "!!python/object/apply:os.system [ls]", "!!binary x",
    "!!timestamp 2026-13-99", "2026-01-01", "2026-01-01T99:99:99Z", "0x7fffffffffffffffffff", ".nan", "-.inf",
    "1_000", "0o777", "!!int abc", "!!float x", "!!set {a, b}", "!!omap [a: 1]", "<<: 1",
    "{<<: [1]}", "~", "@",
    "`", "*nowhere", "|\n  a\n b", "'", '"\\x"', "%TAG ! x", "---\na: 1\n---\nb: 2", "\t",
    "[" * 2000, "{a: " * 2000,
    "1" * 5000, "190:20:30", "!!str", "? ", "- - - - -", "=", "y", "1e999",
)  # fmt: skip


def bomb(levels: int = 9, wide: int = 9) -> str:
    """YAML of a few lines that stands for wide**levels values."""
    lines = ["a0: &a0 [x]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * wide)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


def mutated_yaml(text: str, draw: random.Random) -> bytes:
    """A YAML file with its values, its syntax or its bytes changed."""
    match draw.randrange(6):
        case 0:
            return damage(text.encode(), draw)
        case 1:
            return mutated_lines(text, draw)
        case 2:
            lines = text.splitlines()
            at = draw.randrange(len(lines))
            key, colon, _ = lines[at].partition(":")
            lines[at] = f"{key}{colon} {draw.choice(_YAML)}"
            return "\n".join(lines).encode("utf-8", "surrogatepass")
        case 3 if draw.random() < 0.3:
            key = next(
                (line.partition(":")[0] for line in text.splitlines() if line[:1].isalpha()), "a"
            )
            return (text + bomb() + f"{key}: *a8\n").encode()
        case _:
            value = yaml.safe_load(text)
            mutate(value, draw)
            written = yaml.safe_dump(value, allow_unicode=True, sort_keys=False)
            return written.encode("utf-8", "surrogatepass")


def mutated_lines(text: str, draw: random.Random) -> bytes:
    """A text with lines, numbers, words or brackets changed, once or a few times."""
    lines = text.splitlines(keepends=True)
    for _ in range(draw.choice((1, 1, 2, 5))):
        if not lines:
            break
        at = draw.randrange(len(lines))
        match draw.randrange(8):
            case 0:
                del lines[at]
            case 1:
                lines.insert(draw.randrange(len(lines) + 1), lines[at])
            case 2:
                del lines[at:]
            case 3 | 4:
                lines[at] = hostile.renumbered(lines[at], draw)
            case 5:
                lines[at] = _bracketed(lines[at], draw)
            case 6:
                lines[at] = _reworded(lines[at], lines, draw)
            case 7:
                lines[at] = damage(lines[at].encode(), draw).decode("latin-1")
    return "".join(lines).encode("utf-8", "surrogatepass")


def _bracketed(line: str, draw: random.Random) -> str:
    marks = [at for at, mark in enumerate(line) if mark in "()[]{}<>=,%\"'"]
    if not marks:
        return line
    at = draw.choice(marks)
    return line[:at] + line[at] * draw.choice((0, 2, 100, 20_000)) + line[at + 1 :]


def _reworded(line: str, lines: list[str], draw: random.Random) -> str:
    words, others = line.split(" "), draw.choice(lines).split(" ")
    words[draw.randrange(len(words))] = draw.choice((draw.choice(others), hostile.name(draw)))
    return " ".join(words)
