"""Effects in words: how many times, or by how many per cent, a metric changes."""

from __future__ import annotations

from xlahouse.reports.charts.units import show_factor


def show_effect(ratio: float | None) -> str:
    """Second over first -> `x 3.6` from a doubling or to a half on, else `+2 %`."""
    if ratio is None:
        return "not known"
    if ratio >= 2 or ratio <= 0.5:
        return f"x\u00a0{show_factor(ratio)}"
    change = round((ratio - 1) * 100, 1 if abs(ratio - 1) < 0.1 else 0)
    return f"{change:+g}\u00a0%" if change else "±0\u00a0%"
