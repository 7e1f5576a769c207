"""The limits of what an input may cost: each has a name, and `--limits NAME=NUMBER` raises it.

A small file can ask for any amount of memory: by packing, by numbers that stand for lists, by nesting.
A limit that is hit costs the part, the file or the plan that hit it, with a message that names the limit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from xlahouse.capture.errors import ManifestError


@dataclass(frozen=True)
class Limit:
    """How much of something one input may ask for."""

    name: str  # by which `--limits` raises it
    most: int  # the most that is accepted
    what: str  # the thing that is counted, with its scope
    costs: str  # the part that is left out where the limit is hit


LIMITS = {
    limit.name: limit
    for limit in (
        Limit("text_bytes", 1 << 26, "bytes of a plan, card, manifest, SQL file or setting", "it"),
        Limit("unpacked_bytes", 1 << 32, "bytes that a packed trace unpacks to", "the rest of it"),
        Limit(
            "unpacked_ratio",
            100,
            "times the packed size of a trace or archive (its unpacked size, beyond 64 MiB)",
            "the rest of it, or the archive",
        ),
        Limit("archive_bytes", 1 << 35, "bytes of all files of an archive", "the archive"),
        Limit("archive_files", 100_000, "files of an archive", "the archive"),
        Limit("planes", 1 << 12, "planes of an xplane file", "the file"),
        Limit("lines", 1 << 16, "lines of a plane", "the plane"),
        Limit(
            "events", 1 << 25, "events of a plane, or of a Chrome trace", "the plane, or the rest"
        ),
        Limit(
            "json_bytes", 1 << 24, "bytes of one event of a Chrome trace, or of its header", "it"
        ),
        Limit(
            "group_members",
            1 << 23,
            "members of replica groups of a run's programs",
            "the largest groups",
        ),
        Limit("dump_files", 100_000, "files of an HLO dump", "the run"),
        Limit("dump_bytes", 1 << 30, "bytes of a file of an HLO dump", "it"),
        Limit("yaml_bytes", 1 << 20, "characters of a plan or card", "it"),
        Limit(
            "yaml_values",
            1 << 20,
            "values of a plan or card, each alias with all that it stands for",
            "it",
        ),
        # a TPU v5p pod has 8,960 chips, a TPU7x pod 9,216
        Limit("mesh_devices", 1 << 16, "devices of a mesh", "the plan, setting or run"),
        Limit("experiments", 10_000, "experiments of a plan's entry", "the plan"),
        Limit("requests", 100_000, "requests of a serving experiment", "the plan"),
    )
}
VARIABLE = "XLAHOUSE_LIMITS"  # of the environment, which processes that are started inherit


def most(name: str) -> int:
    """The value of a limit, as it holds in this process and those that it starts.

    Raises:
        ManifestError: the environment's text is wrong.
    """
    return _parsed(os.environ.get(VARIABLE, "")).get(name, LIMITS[name].most)


def use_limits(text: str) -> None:
    """Set limits by a text such as `events=1000000,archive_files=10`; others have their defaults.

    Raises:
        ManifestError: the text is not of that form, or names no limit.
    """
    _parsed(text)
    os.environ[VARIABLE] = text


def exceeded(name: str) -> str:
    """What is wrong with an input that exceeds a limit, and how to raise that."""
    return (
        f"more than {most(name):,} {LIMITS[name].what}; if it is right, raise the limit with "
        f"--limits {name}=NUMBER"
    )


@lru_cache
def _parsed(text: str) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, _, number = (word.strip() for word in part.partition("="))
        if name not in LIMITS:
            raise ManifestError(f"--limits {part!r}: limits are {', '.join(LIMITS)}")
        digits = number.replace("_", "")
        if not (digits.isascii() and digits.isdecimal() and 0 < len(digits) <= 18 and int(digits)):
            raise ManifestError(
                f"--limits {part!r}: {number!r} is not a whole number from 1 on; write {name}="
                f"{2 * LIMITS[name].most}"
            )
        found[name] = int(digits)
    return found


def described() -> str:
    """The limits as a Markdown table."""
    rows = (
        f"| `{limit.name}` | {limit.most:,} | {limit.what} | {limit.costs} |"
        for limit in LIMITS.values()
    )
    head = ("| limit | default | of | what it costs to exceed it |", "| --- | ---: | --- | --- |")
    return "\n".join((*head, *rows))
