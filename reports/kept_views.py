"""Views that several panels of a run read: each is computed once a run, not once a panel."""

from __future__ import annotations

from xlahouse.sql.answers.summary import SUMMARY_VIEWS

KEPT_VIEWS = (
    *SUMMARY_VIEWS,
    "_all_idle_v1",
    "_burst_v2",
    "_idle_level_v1",
    "_interval_v1",
    "_meeting_v2",
    "_op_total_v1",
    "_wire_v1",
    "bubble_v2",
    "traffic_burst_v2",
    "traffic_matrix_v1",
)
