"""The device that comes last to its collectives most often."""

from __future__ import annotations

from dataclasses import dataclass

from xlahouse.sql.answers.source import Source
from xlahouse.sql.answers.words import duration, percent

NO_LAG = "no collective has known arrivals of several devices of accelerators"
# Several devices that came last equally often are told by how late they came.
_SQL = """
with known as (
    select
        device_id, host, last_ratio, mean_lag_ps,
        count(*) over () as devices,
        count(*) over (partition by last_ratio) - 1 as alike
    from straggler_v2
    where run_id = $run and last_ratio is not null
)
select *
from known
where devices > 1
order by last_ratio desc, mean_lag_ps desc nulls last, device_id
limit 1
"""
OFTEN = 1.5  # times the share of a device if each came last equally often


@dataclass(frozen=True)
class Lagging:
    """The device that comes last most often."""

    device_id: int  # as in devices
    host: str | None  # of the device; None where it is not known
    last_ratio: float  # share of its collectives that it enters last
    mean_lag_ps: float | None  # how much later than the first it arrives
    devices: int  # of which it is one
    alike: int = 0  # others that come last as often: each group of an axis may have its own


def most_lagging(source: Source, run_id: str) -> Lagging | None:
    """The device that comes last most often; None where no arrivals can be compared."""
    rows = source.query(_SQL, {"run": run_id}).dicts()
    return Lagging(**rows[0]) if rows else None


def lagging_text(found: Lagging) -> str:
    """Such as `device 3 of host0 comes last to 75 % of its collectives, 0.47 µs after the first`."""
    if not found.last_ratio:
        return "none lags: they come to each collective together"
    of = f" of {found.host}" if found.host else ""
    lag = f", {duration(found.mean_lag_ps)} after the first" if found.mean_lag_ps else ""
    said = f"device {found.device_id}{of} comes last to {percent(found.last_ratio)} of its collectives{lag}"
    if found.last_ratio * found.devices < OFTEN:
        return f"none lags most of the time: {said}"
    return f"{said}; {found.alike:,} more as often" if found.alike else said
