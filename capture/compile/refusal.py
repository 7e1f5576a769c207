"""A program that needs more HBM than a chip has: the compiler's statement, read from its message."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xlahouse.capture.errors import CaptureError

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = r"(?P<{0}>\d+(?:\.\d+)?)(?P<{0}_unit>[KMGT]?)B?"
_EXCEEDED = re.compile(
    r"Ran out of memory in memory space hbm\. Used "
    + _SIZE.format("needed")
    + " of "
    + _SIZE.format("available")
    + r" hbm"
)
_PART = re.compile(r"^ {4}(?P<name>\w[\w ]*?) +" + _SIZE.format("size") + r" *$", re.MULTILINE)
_NAMES = {"arguments": "weights, cache and inputs", "program": "temporaries"}


@dataclass(frozen=True)
class Refusal:
    """HBM that a program needs and has, in bytes of one device, rounded as the compiler prints them."""

    needed_bytes: float  # by all that is live at once
    available_bytes: float  # without the part that the runtime reserves
    parts: dict[str, float]  # bytes by the compiler's name, such as arguments

    def __str__(self) -> str:
        kinds = [
            f"{_NAMES[name]} {size / 2**30:.2f}"
            for name, size in sorted(self.parts.items(), key=lambda part: -part[1])
            if name in _NAMES
        ]
        listed = f": {', '.join(kinds)}" if kinds else ""
        return (
            f"needs {self.needed_bytes / 2**30:.2f} GiB of HBM, and a program can have "
            f"{self.available_bytes / 2**30:.2f} GiB{listed}"
        )


class DoesNotFitError(CaptureError):
    """The compiler refused a program, since it needs more HBM than a chip has.

    Args:
        program: prefill or decode.
        refusal: the compiler's statement.
    """

    def __init__(self, program: str, refusal: Refusal) -> None:
        super().__init__(f"the {program} {refusal}")
        self.program, self.refusal = program, refusal


def refusal_error(program: str, message: str) -> CaptureError:
    """The error for the compiler's message on a program that it refused."""
    found = _EXCEEDED.search(message)
    if found is None:
        first = message.partition("\n")[0]
        return CaptureError(f"the compiler refused the {program}: {first}")
    listed = message[found.end() :].partition("\n\n")[2].partition("\n\n")[0]
    parts = {part["name"]: _bytes(part, "size") for part in _PART.finditer(listed)}
    needed, available = _bytes(found, "needed"), _bytes(found, "available")
    return DoesNotFitError(program, Refusal(needed, available, parts))


def _bytes(found: re.Match[str], name: str) -> float:
    return float(found[name]) * _UNITS[found[f"{name}_unit"]]
