"""Log axes of times and sizes, with a label and its unit at each power of ten."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import altair as alt

from xlahouse.reports.charts.units import BYTES, SECONDS, SPACE, Unit

# Vega's own labels of a log axis are at 2, 3, 5, … as far as there is room, which is unreadable.
_LEAST_VALUE = {"s": 1e-12, "B": 1.0}
_AXIS_UNITS: dict[str, tuple[Unit, ...]] = {"s": (Unit(1e-12, "ps"), *SECONDS), "B": BYTES}


def time_log(values_s: Iterable[float | None], title: str) -> dict[str, object]:
    """Scale, axis and title of a channel of seconds; spread it into `alt.X` or `alt.Y`."""
    return _channel(values_s, title, "s")


def size_log(values_bytes: Iterable[float | None], title: str) -> dict[str, object]:
    """Scale, axis and title of a channel of bytes."""
    return _channel(values_bytes, title, "B")


def decades(values: Iterable[float | None], least: float = 1e-12) -> list[float]:
    """The powers of ten from at most the least to at least the greatest of the positive values."""
    known = [value for value in values if value is not None and value > 0]
    low = math.floor(math.log10(max(min(known, default=least), least)) + 1e-9)
    high = math.ceil(math.log10(max(known, default=least)) - 1e-9)
    return [float(f"1e{power}") for power in range(low, max(high, low + 1) + 1)]


def decade_label(kind: str) -> str:
    """A Vega expression that writes a power of ten of `s` (seconds) or `B` (bytes) with its unit."""
    text = ""
    for unit, above in zip(_AXIS_UNITS[kind], _AXIS_UNITS[kind][1:], strict=False):
        # Half a decade below the next unit: powers of ten are not exact in floating point.
        text += f"datum.value < {above.factor / 3!r} ? {_number(unit)} : "
    return text + _number(_AXIS_UNITS[kind][-1])


def _number(unit: Unit) -> str:
    return f"format(datum.value / {unit.factor!r}, ',.0f') + '{SPACE}{unit.symbol}'"


def _channel(values: Iterable[float | None], title: str, kind: str) -> dict[str, object]:
    ticks: Sequence[float] = decades(values, _LEAST_VALUE[kind])
    return {
        "title": f"{title} (log scale)",
        "scale": alt.Scale(type="log", domain=[ticks[0], ticks[-1]], nice=False),
        "axis": alt.Axis(
            values=ticks, labelExpr=decade_label(kind), labelOverlap="greedy", labelSeparation=8
        ),
    }
