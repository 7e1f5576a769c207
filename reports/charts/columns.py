"""Columns of tables by the values that they hold, and the columns that many panels share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlahouse.reports.charts.panel import TableColumn
from xlahouse.reports.charts.units import (
    show_bandwidth,
    show_bytes,
    show_count,
    show_exact,
    show_factor,
    show_flops,
    show_ps,
    show_ratio,
    show_s,
    show_text,
)


def text_column(name: str, heading: str, show: Callable[[Any], str] = show_text) -> TableColumn:
    """Text, to the left."""
    return TableColumn(name, heading, show, numeric=False)


def dashed_column(name: str, heading: str) -> TableColumn:
    """Text, with a dash for NULL, which means that the row has no such text."""
    return text_column(name, heading, lambda value: value or "-")


def count_column(name: str, heading: str) -> TableColumn:
    """A count of things, or a number that names one, such as a device's."""
    return TableColumn(name, heading, show_count)


def bytes_column(name: str, heading: str) -> TableColumn:
    """Bytes."""
    return TableColumn(name, heading, show_bytes, show_exact)


def ps_column(name: str, heading: str) -> TableColumn:
    """A time in picoseconds."""
    return TableColumn(name, heading, show_ps, show_exact)


def s_column(name: str, heading: str) -> TableColumn:
    """A time in seconds."""
    return TableColumn(name, heading, show_s, show_exact)


def ratio_column(name: str, heading: str) -> TableColumn:
    """A share of a whole, shown in per cent."""
    return TableColumn(name, heading, show_ratio, show_exact)


def factor_column(name: str, heading: str) -> TableColumn:
    """A ratio or a rate that may exceed 1."""
    return TableColumn(name, heading, show_factor, show_exact)


def flops_column(name: str, heading: str) -> TableColumn:
    """FLOPs."""
    return TableColumn(name, heading, show_flops, show_exact)


def bandwidth_column(name: str, heading: str) -> TableColumn:
    """Bytes per second."""
    return TableColumn(name, heading, show_bandwidth, show_exact)


def metric_column(name: str, heading: str, metric: str = "metric") -> TableColumn:
    """A value in the unit that the row's metric has at the end of its name, such as `ttft_s`."""
    return TableColumn(name, heading, show_factor, show_exact, metric=metric)


PHASE_COLUMN = text_column("phase", "Phase")
AXIS_COLUMN = text_column("axis", "Axis")
KIND_COLUMN = text_column("kind", "Kind")
FROM_AXIS_COLUMN = text_column("from_axis", "From axis")
TO_AXIS_COLUMN = text_column("to_axis", "To axis")
DEVICE_COLUMN = count_column("device_id", "Device")
# The shares of a window, in the order of METRICS' time split.
SHARE_COLUMNS = (
    ps_column("compute_ps", "Compute"),
    ps_column("exposed_ps", "Exposed comm."),
    ps_column("exposed_copy_ps", "Exposed copy"),
    ps_column("sync_wait_ps", "Sync wait"),
    ps_column("idle_ps", "Idle"),
)
# Statistics of a time over many.
SUMMARY_COLUMNS = (
    ps_column("min_ps", "Least"),
    ps_column("p50_ps", "p50"),
    ps_column("mean_ps", "Mean"),
    ps_column("p95_ps", "p95"),
    ps_column("p99_ps", "p99"),
    ps_column("max_ps", "Most"),
)
