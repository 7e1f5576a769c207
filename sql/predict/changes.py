"""What a user changes in a replay: links, latency, host, skew, overlap, chip, circuits."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from xlahouse.capture.errors import WarehouseError

EVERY_AXIS = "*"

_RATE = re.compile(r"([0-9.]+(?:[eE][0-9]+)?)\s*([KMGT]?)B/s")  # b is for bits
_TIMES = re.compile(r"([0-9.]+(?:e-?[0-9]+)?)x?", re.IGNORECASE)
_SPAN = re.compile(r"(\+?)([0-9.]+(?:e-?[0-9]+)?)\s*(ps|ns|us|ms|s)", re.IGNORECASE)
_PS = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}
_UNITS = {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@dataclass(frozen=True)
class Rate:
    """Another bandwidth: so many times the present one, or so many bytes per second that a member sends."""

    times: float | None = None  # of the present bandwidth; None: bytes_per_s is given
    bytes_per_s: float | None = None  # that a member sends; None: times is given


@dataclass(frozen=True)
class LinkLatency:
    """Another latency of each step of a ring: in place of the fitted one, or on top of it."""

    ps: int  # of one step of a ring
    is_added: bool  # whether it comes on top of the fitted one


@dataclass(frozen=True)
class Reconfigure:
    """Optical circuits in place of links: the time of a change, ports of a device, and when they change."""

    delay_ps: int  # time of a change
    circuits: int = 1  # ports of a device
    rails: bool = False  # whether only transfers between hosts need circuits
    policy: str = "every"  # when ports change, by a name of POLICIES


@dataclass(frozen=True)
class Change:
    """What is changed; as built, nothing."""

    ici: Rate | None = None  # bandwidth of links inside a slice
    dcn: Rate | None = None  # bandwidth between slices
    latency: LinkLatency | None = None  # of a step of a ring
    host: float = 1.0  # factor on the time of the host
    no_skew: bool = False  # whether all members of a transfer arrive together
    perfect_overlap: bool = False  # whether transfers hide behind compute as far as they can
    chip: str | None = None  # kind of chip in place of the run's own
    no_exposed: str | None = None  # an axis whose transfers take no time, or EVERY_AXIS
    no_masked: bool = False  # whether a pipeline's masked executions take no time
    hbm_at_peak: bool = False  # whether ops read and write at the peak of HBM
    reconfigure: Reconfigure | None = None  # circuits in place of links


def parse_rate(text: str) -> Rate:
    """`2x`, `0.5x` or `25GB/s`.

    Raises:
        WarehouseError: it is neither.
    """
    rate = _RATE.fullmatch(text.strip())
    if rate and (value := _number(rate[1])):
        return Rate(bytes_per_s=value * _UNITS[rate[2]])
    times = _TIMES.fullmatch(text.strip())
    if times and (value := _number(times[1])):
        return Rate(times=value)
    raise WarehouseError(f"{text!r} is not a bandwidth; write 2x or 25GB/s, above 0")


def parse_latency(text: str) -> LinkLatency:
    """`1us` in place of the fitted latency, `+1us` on top of it.

    Raises:
        WarehouseError: it is neither.
    """
    found = _SPAN.fullmatch(text.strip())
    value = None if found is None else _number(found[2], least=0)
    if found is None or value is None:
        raise WarehouseError(f"{text!r} is not a latency; write 1us, or +1us to add it")
    return LinkLatency(round(value * _PS[found[3].lower()]), found[1] == "+")


def parse_delay(text: str) -> int:
    """`10ms` in ps.

    Raises:
        WarehouseError: it is not a time.
    """
    found = _SPAN.fullmatch(text.strip())
    value = None if found is None or found[1] else _number(found[2], least=0)
    if found is None or value is None:
        raise WarehouseError(f"{text!r} is not a time; write 10ms, or 0s")
    return round(value * _PS[found[3].lower()])


def _number(text: str, least: float = 1e-12) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= least else None


def describe(change: Change) -> str:
    """The change in words that are the same for the same change: a part of a predicted run's identity."""
    parts = [
        *(
            f"{name}={_rate(rate)}"
            for name, rate in (("ici", change.ici), ("dcn", change.dcn))
            if rate
        ),
        *([f"latency={_latency(change.latency)}"] if change.latency else []),
        *([f"host={change.host:g}"] if change.host != 1 else []),
        *(["no-skew"] if change.no_skew else []),
        *(["perfect-overlap"] if change.perfect_overlap else []),
        *([f"chip={change.chip}"] if change.chip else []),
        *([f"no-exposed={change.no_exposed}"] if change.no_exposed else []),
        *(["no-masked"] if change.no_masked else []),
        *(["hbm-at-peak"] if change.hbm_at_peak else []),
        *([_reconfigure(change.reconfigure)] if change.reconfigure else []),
    ]
    return ", ".join(parts) or "nothing"


def _rate(rate: Rate) -> str:
    return f"{rate.times:g}x" if rate.times is not None else f"{rate.bytes_per_s:g}B/s"


def _reconfigure(given: Reconfigure) -> str:
    scope = ", rails" if given.rails else ""
    delay = f"{given.delay_ps / _PS['us']:.9g}us"
    return f"reconfigure={delay}, circuits={given.circuits}{scope}, policy={given.policy}"


def _latency(latency: LinkLatency) -> str:
    return f"{'+' if latency.is_added else ''}{latency.ps / _PS['us']:.9g}us"
