"""Clocks of TPUs, over which a compiler's cycles are times."""

from __future__ import annotations

import re
from typing import NamedTuple

from xlahouse.capture.errors import WarehouseError

_HZ = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([kMG]?)Hz", re.IGNORECASE)
_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}


class ChipClock(NamedTuple):
    """A chip's clock, and where it stands."""

    hz: float  # cycles per second
    source: str  # a document or a run


# By generation. A chip without an entry has no public clock: users state it.
CLOCKS = {
    "v2": ChipClock(0.70e9, "Jouppi et al., CACM 63(7), 2020"),
    "v3": ChipClock(0.94e9, "Jouppi et al., CACM 63(7), 2020"),
    "v4": ChipClock(1.05e9, "Jouppi et al., ISCA 2023"),
    "v5e": ChipClock(1.50e9, "its peak over 4 MXUs of 128 x 128"),
    "v5p": ChipClock(1.75e9, "its peak over 8 MXUs of 128 x 128"),
    "v6e": ChipClock(1.75e9, "cycles and times of one public trace: 1.74 to 1.79 GHz"),
}


def parse_clock(text: str) -> ChipClock:
    """`1.75GHz`, stated by a user.

    Raises:
        WarehouseError: it is not a frequency.
    """
    found = _HZ.fullmatch(text.strip())
    hz = float(found[1]) * _UNITS[found[2].lower()] if found else 0.0
    if hz <= 0:
        raise WarehouseError(f"{text!r} is not a clock frequency; write 1.75GHz")
    return ChipClock(hz, "stated by the user")


def clock_of(generation: str | None, stated: str | None, name: str, kind: str | None) -> ChipClock:
    """The clock of a run's chips.

    Args:
        generation: of the chips, as CLOCKS has it; None where it is not known.
        stated: by the user, in place of the table.
        name: of the run.
        kind: of its devices.

    Raises:
        WarehouseError: none is known.
    """
    if stated is not None:
        return parse_clock(stated)
    if generation not in CLOCKS:
        raise WarehouseError(
            f"{name}: the clock of {kind or 'its chips'} is not known, so the compiler's cycles cannot "
            "be turned into times; state it with `--clock 1.75GHz`"
        )
    return CLOCKS[generation]
