"""Views that several panels of a run read: slow ones, so each is computed once a run, not once a panel."""

from __future__ import annotations

KEPT_VIEWS = (
    "_burst_v2",
    "_collective_wire_v1",
    "_idle_cause_v1",
    "_idle_split_v1",
    "_idle_total_v1",
    "_interval_v1",
    "_meeting_v2",
    "_op_total_v1",
    "_wire_v1",
    "bubble_v2",
    "step_latency_v1",
    "traffic_burst_v2",
    "traffic_matrix_v1",
)
