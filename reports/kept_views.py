"""Views that several panels of a run read: slow ones, so each is computed once a run, not once a panel."""

from __future__ import annotations

KEPT_VIEWS = (
    "_all_idle_v1",
    "_between_steps_v2",
    "_burst_v2",
    "_idle_level_v1",
    "_interval_v1",
    "_meeting_v2",
    "_op_total_v1",
    "_step_window_v1",
    "_wire_v1",
    "bubble_v2",
    "device_time_v1",
    "latency_v3",
    "step_latency_v1",
    "traffic_burst_v2",
    "traffic_matrix_v1",
)
