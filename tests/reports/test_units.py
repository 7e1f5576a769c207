"""Numbers as people read them."""

from __future__ import annotations

import pytest

from xlahouse.reports.charts.units import (
    BYTES,
    plural,
    show_bandwidth,
    show_by_name,
    show_bytes,
    show_count,
    show_exact,
    show_factor,
    show_ps,
    show_ratio,
    show_s,
    suit,
)
from xlahouse.reports.page import unbroken


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (show_bytes(10_485_760), "10.5 MB"),
        (show_bytes(0), "0 B"),
        (show_bytes(5_368_709_120), "5.37 GB"),
        (show_bytes(2e15), "2,000 TB"),
        (show_bandwidth(44.12e9), "44.1 GB/s"),
        (show_ps(121_687_640_000), "122 ms"),
        (show_ps(999), "999 ps"),
        (show_s(0.0123), "12.3 ms"),
        (show_s(-0.0123), "-12.3 ms"),
        (show_ratio(0.125), "12.5 %"),
        (show_ratio(0), "0 %"),
        (show_ratio(4.2e-7), "< 0.01 %"),
        (show_ratio(1), "100 %"),
        (show_by_name("ttft_s")(7.974e-05), "79.7 µs"),
        (show_by_name("duration_ps")(121_687_640_000), "122 ms"),
        (show_by_name("wire_bytes")(933_888), "934 kB"),
        (show_by_name("busbw_bytes_per_s")(44.12e9), "44.1 GB/s"),
        (show_by_name("output_tokens_per_s_per_chip")(25_081.47), "25,081"),
        (show_by_name("output_tokens_per_s")(31.25), "31.2"),
        (show_by_name("exposed_ratio")(0.25), "0.25"),
        (show_factor(0.625), "0.625"),
        (show_factor(22_695.04), "22,695"),
        (show_count(1_240), "1,240"),
        (show_exact(134_479_872.0), "134,479,872"),
        (show_exact(0.6251234567891), "0.625123457"),
    ],
)
def test_a_value_keeps_three_digits_and_a_unit_that_suits_it(shown, text):
    assert shown.replace("\u00a0", " ") == text


@pytest.mark.parametrize(
    "show", [show_bytes, show_bandwidth, show_ps, show_s, show_ratio, show_factor, show_count]
)
def test_unknown_is_never_zero(show):
    assert show(None) == "not known"


def test_a_unit_never_leaves_its_number():
    assert " " not in show_bytes(10_485_760)


def test_the_greatest_value_decides_the_unit_of_an_axis():
    assert suit([None, 5.0, 2e6], BYTES).symbol == "MB"
    assert suit([], BYTES).symbol == "B"


def test_plurals():
    assert [plural(count, "run") for count in (0, 1, 1200)] == ["0 runs", "1 run", "1,200 runs"]


def test_a_unit_stays_on_the_line_of_its_number():
    text = "7 % of 180 ms, 12.3 µs, 64.4 GB; 4 steps, 2 Bytes and 3 sorts"
    shown = "7~% of 180~ms, 12.3~µs, 64.4~GB; 4 steps, 2 Bytes and 3 sorts"
    assert unbroken(text) == shown.replace("~", "\u00a0")
