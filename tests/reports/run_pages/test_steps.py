"""Length of steps: over the requests of a marked run, and of executions where no marker names steps."""

from __future__ import annotations

from tests.reports.example import Store
from tests.reports.sections import filled, rows_of
from tests.reports.vega_lite import assert_valid, data
from xlahouse.reports.panels.efficiency import steps

MS = 10**9


def store_of(programs, windows_ms, marked=()):
    """A run without markers: program and longest window of each execution on two devices."""
    devices = (0, 1)
    launches = [
        {"run_id": "r", "device_id": device, "launch": n, "step": n, "module": program}
        for n, program in enumerate(programs)
        for device in devices
    ]
    times = [
        {"run_id": "r", "device_id": device, "step": n, "window_ps": (ms - device) * MS}
        for n, ms in enumerate(windows_ms)
        for device in devices
    ]
    return Store(
        {
            "runs": [{"run_id": "r"}],
            "launches": launches,
            "device_time_v1": times,
            "step_latency_v1": [
                {"run_id": "r", "request": 0, "step": n, "latency_s": s}
                for n, s in enumerate(marked)
            ],
        }
    )


def test_executions_of_several_programs_are_no_series():
    store = store_of(["f", "g"] * 3, [5, 90, 7, 80, 6, 82])
    rows = rows_of(store, steps.PANEL, "r")
    picked = rows.select("program", "first_step", "last_step", "steps", "p50_s", "max_s")
    # The longest of both devices; g has the most time.
    assert picked.rows() == [("g", 1, 5, 3, 0.082, 0.09), ("f", 0, 4, 3, 0.006, 0.007)]
    section = filled(store, steps.PANEL, "r")
    assert_valid(section)
    (figure,) = section.figures
    assert figure.title == "Length of an execution"
    assert [row["program"] for row in data(figure.spec)] == ["g", "f"]


def test_executions_of_one_program_are_a_series():
    store = store_of(["f", "f", "f"], [5, 7, 6])
    rows = rows_of(store, steps.PANEL, "r")
    assert rows.select("first_step", "p50_s").rows() == [(0, 0.005), (1, 0.007), (2, 0.006)]
    (figure,) = filled(store, steps.PANEL, "r").figures
    assert figure.title == "Length of each execution"


def test_steps_of_markers_are_no_executions():
    store = store_of(["f", "g"], [5, 90], marked=(0.2, 0.3, 0.4))
    rows = rows_of(store, steps.PANEL, "r")
    # Step 0 is the prefill.
    assert rows.select("program", "first_step", "p50_s").rows() == [(None, 1, 0.3), (None, 2, 0.4)]
