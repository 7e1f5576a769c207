"""Numbers as people read them: bytes, times, shares and counts with the unit that suits their size.

None is always `not known`, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from xlahouse.capture.words import plural as plural  # for pages, beside the other words of units

NOT_KNOWN = "not known"
SPACE = "\u00a0"  # keeps a unit on the line of its number


@dataclass(frozen=True)
class Unit:
    """A unit of an amount."""

    factor: float  # what to divide an amount by
    symbol: str  # behind the amount


BYTES = (Unit(1, "B"), Unit(1e3, "kB"), Unit(1e6, "MB"), Unit(1e9, "GB"), Unit(1e12, "TB"))
PICOSECONDS = (Unit(1, "ps"), Unit(1e3, "ns"), Unit(1e6, "µs"), Unit(1e9, "ms"), Unit(1e12, "s"))
SECONDS = (Unit(1e-9, "ns"), Unit(1e-6, "µs"), Unit(1e-3, "ms"), Unit(1, "s"))
FLOPS = tuple(
    Unit(10.0 ** (3 * k), f"{letter}FLOP")
    for k, letter in enumerate(("", "k", "M", "G", "T", "P", "E"))
)
FLOP_RATES = tuple(Unit(unit.factor, f"{unit.symbol}/s") for unit in FLOPS)
BANDWIDTH = tuple(Unit(unit.factor, f"{unit.symbol}/s") for unit in BYTES)


def suit(values: Iterable[float | None], units: tuple[Unit, ...]) -> Unit:
    """The largest unit in which the greatest of `values` is at least 1; the smallest unit for none."""
    top = max((abs(value) for value in values if value is not None), default=0.0)
    fitting = [unit for unit in units if top >= unit.factor]
    return fitting[-1] if fitting else units[0]


def show(value: float | None, units: tuple[Unit, ...]) -> str:
    """`value` with three significant digits and the unit that suits it."""
    if value is None:
        return NOT_KNOWN
    unit = suit([value], units)
    if unit.factor == 1 and float(value).is_integer():
        return f"{value:,.0f}{SPACE}{unit.symbol}"
    return f"{_three_digits(value / unit.factor)}{SPACE}{unit.symbol}"


def show_bytes(value: float | None) -> str:
    """Bytes -> `10.5 MB` (decimal prefixes)."""
    return show(value, BYTES)


def show_ps(value: float | None) -> str:
    """Picoseconds -> `12.3 ms`."""
    return show(value, PICOSECONDS)


def show_s(value: float | None) -> str:
    """Seconds -> `12.3 ms`."""
    return show(value, SECONDS)


def show_bandwidth(value: float | None) -> str:
    """Bytes per second -> `44.1 GB/s`."""
    return show(value, BANDWIDTH)


def show_flops(value: float | None) -> str:
    """FLOPs -> `17.6 TFLOP`."""
    return show(value, FLOPS)


def show_flop_rate(value: float | None) -> str:
    """FLOP/s -> `187 TFLOP/s`."""
    return show(value, FLOP_RATES)


def show_ratio(value: float | None) -> str:
    """0..1 -> `12.3 %`; what would round to nothing is `< 0.01 %`, never 0."""
    if value is None:
        return NOT_KNOWN
    if 0 < value < 1e-4:
        return f"<{SPACE}0.01{SPACE}%"
    return f"{_three_digits(value * 100)}{SPACE}%"


def show_factor(value: float | None) -> str:
    """A ratio that may exceed 1 -> `0.513`."""
    return NOT_KNOWN if value is None else _three_digits(value)


def show_count(value: float | None) -> str:
    """A count with thousands separators."""
    return NOT_KNOWN if value is None else f"{value:,.0f}"


def show_exact(value: float | None) -> str:
    """A number to copy: integers whole, other numbers with nine digits."""
    if value is None:
        return NOT_KNOWN
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.9g}"


def show_text(value: object) -> str:
    """Any other fact; None is `not known`."""
    return NOT_KNOWN if value is None else str(value)


def show_any(value: object) -> str:
    """A value of a column without a description."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return show_exact(value) if number else show_text(value)  # type: ignore[arg-type]


def show_by_name(name: str) -> Callable[[float | None], str]:
    """How to show values of a metric, by the unit at the end of its name; a number where it has none."""
    return next((show for ending, show in _ENDINGS.items() if name.endswith(ending)), show_factor)


# The first that fits counts.
_ENDINGS = {
    "bytes_per_s": show_bandwidth,
    "_per_s": show_factor,
    "_s": show_s,
    "_ps": show_ps,
    "bytes": show_bytes,
}


def _three_digits(value: float) -> str:
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size == 0:
        return "0"
    if size < 1:
        return f"{value:.3g}"
    return f"{value:.{2 if size < 10 else 1 if size < 100 else 0}f}"
