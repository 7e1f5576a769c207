"""The device that comes last most often, by rows worked out by hand."""

from __future__ import annotations

import pytest

from tests.reports.example import Store
from xlahouse.sql.answers.lagging import Lagging, lagging_text, most_lagging

US = 10**6


def row(device, ratio, lag, run="r"):
    return {
        "run_id": run,
        "device_id": device,
        "host": "h",
        "last_ratio": ratio,
        "mean_lag_ps": lag,
    }


def test_the_device_that_comes_last_most_often():
    rows = [row(0, 0.25, 3.0), row(1, 0.75, 1.0), row(2, None, None), row(9, 1.0, 9.0, "other")]
    found = most_lagging(Store({"straggler_v2": rows}), "r")
    assert found == Lagging(1, "h", 0.75, 1.0, 2)
    tied = [row(0, 0.5, 3.0), row(1, 0.5, 7.0)]
    assert most_lagging(Store({"straggler_v2": tied}), "r") == Lagging(1, "h", 0.5, 7.0, 2, alike=1)


def test_one_device_alone_is_compared_with_none():
    rows = [row(0, 0.5, 3.0), row(1, None, None)]
    assert most_lagging(Store({"straggler_v2": rows}), "r") is None


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            Lagging(3, "h", 0.75, 0.47 * US, 4),
            "device 3 of h comes last to 75 % of its collectives, 470 ns after the first",
        ),
        (Lagging(3, None, 0.75, None, 4), "device 3 comes last to 75 % of its collectives"),
        # Of four devices each would come last to a quarter.
        (
            Lagging(2, None, 0.3, 2 * US, 4),
            "none lags most of the time: device 2 comes last to 30 % of its collectives, 2 µs after the "
            "first",
        ),
        # Two groups of two, of which one always comes last in each.
        (
            Lagging(1, None, 1.0, US, 4, alike=1),
            "device 1 comes last to 100 % of its collectives, 1 µs after the first; 1 more as often",
        ),
        (Lagging(0, None, 0.0, 0.0, 4), "none lags: they come to each collective together"),
    ],
)
def test_lag_in_words(found, text):
    assert lagging_text(found) == text
