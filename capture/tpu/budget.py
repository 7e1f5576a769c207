"""Refuses to create a slice for a plan that takes longer than the hours it is created for."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from xlahouse.capture.errors import CaptureError, ManifestError
from xlahouse.capture.run.dry_run import FORECAST_PACKAGES
from xlahouse.capture.run.runner import choose_experiments
from xlahouse.capture.slices import Slice, parse_slice


def check_hours(plan: Path, names: tuple[str, ...], asked: Slice, hours: float) -> str:
    """One line on the hours that the plan's experiments for a slice take.

    Args:
        plan: the plan file.
        names: experiments, `*` matches any letters; (): all.
        asked: the slice.
        hours: that it may be used.

    Raises:
        ManifestError: they take longer, or none is for the slice.
        CaptureError: the estimate needs packages that are not installed.
    """
    missing = [name for name in FORECAST_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise CaptureError(
            f"the hours of a plan need {' and '.join(missing)}: pip install 'xlahouse[capture]', or "
            "create the slice without --plan"
        )
    from xlahouse.capture.run.forecast import forecast
    from xlahouse.capture.run.hours import hours_of

    chosen = [
        each
        for each in choose_experiments(plan, names)
        if each.slice and parse_slice(each.slice) == asked
    ]
    found = hours_of((each, forecast(each)) for each in chosen)
    if not found:
        raise ManifestError(
            f"{plan}: no experiment that is chosen has `slice: {asked.accelerator_type}`"
        )
    (taken,) = found
    text = (
        f"{plan}: {taken.experiments} experiments on {asked.accelerator_type} take about "
        f"{taken.hours:.2f} hours"
    )
    if taken.hours > hours:
        raise ManifestError(
            f"{text}, more than --hours {hours:g}; choose fewer with --experiment, or raise --hours "
            "(`xlahouse capture PLAN --dry-run` lists what takes how long)"
        )
    return text
