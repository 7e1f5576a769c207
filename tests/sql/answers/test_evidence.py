"""What is behind a loss, in words: rows of a query worked out by hand, and a warehouse of two launches."""

from __future__ import annotations

import pytest

from tests.sql.answers.test_summary import AXES, TIMES
from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse
from xlahouse.sql.answers.evidence import evidence
from xlahouse.sql.answers.split import split_time


class Rows:
    """A source that has one answer."""

    def __init__(self, *rows):
        self.rows = list(rows)

    def query(self, sql, params):
        self.params = params
        return self

    def dicts(self):
        return self.rows


# 280 ps between two steps. Of 16 launches 14 follow another at once: their mean says nothing of the 2.
@pytest.mark.parametrize(
    ("launches", "gap", "enqueued", "late", "said"),
    [
        (2, 280, 280, 240, "the host is late by 0.12 ns a launch"),
        (16, 280, 280, 240, "the host is late by 0.12 ns a step"),
        (2, 280, 140, 80, "the host is late by 0.04 ns a launch"),
        (
            2,
            280,
            280,
            120,
            "a launch starts 0.14 ns after the one before has ended, and the host had",
        ),
        (
            16,
            280,
            280,
            120,
            "the gaps before the launches of a step add up to 0.14 ns, and the host",
        ),
        (2, 280, None, None, "the trace does not say when the host enqueued it"),
        (2, 120, 120, 120, "most of it lies inside launches, not between them"),
        (0, None, None, None, ""),
    ],
)
def test_how_late_the_host_is(launches, gap, enqueued, late, said):
    split = split_time(TIMES, AXES)
    part = next(part for part in split.parts if part.name == "between_steps")
    row = {"launches": launches, "gap_ps": gap, "enqueued_gap_ps": enqueued, "late_ps": late}
    row |= {"late_launches": launches, "latest_ps": late}
    found = evidence(Rows(row), "ab12", split, part)
    assert found == said or (said and said in found)


@pytest.mark.parametrize(
    ("enqueued", "said"),
    [
        (None, "; the trace does not say when the host enqueued it"),
        (-400, ", and the host had enqueued most of them in time"),
        (850, None),
    ],
)
def test_how_late_the_host_is_by_launches(enqueued, said, tmp_path):
    """Two launches of 100, at 0 and at 1,000: a gap of 900. Enqueued at 850 the host is late by 750."""
    launch = {"run_id": "r", "device_id": 0, "phase": "decode", "duration_ps": 100}
    launches = [
        {**launch, "step": step, "start_ps": start, "enqueue_ps": enqueued}
        for step, start in enumerate((0, 1000))
    ]
    tables = {
        "runs": [{"run_id": "r"}],
        "devices": [{"run_id": "r", "device_id": 0, "core": "tensorcore", "traced": True}],
        "launches": launches,
    }
    split = split_time(TIMES, AXES)
    part = next(part for part in split.parts if part.name == "between_steps")
    with Warehouse(write_warehouse(tmp_path, tables)) as warehouse:
        found = evidence(warehouse, "r", split, part)
    assert found.endswith(said) if said else found.startswith("the host is late by 0.75 ns")


def test_a_few_long_gaps_are_no_lateness_of_every_launch(tmp_path):
    """Of 30 launches of 100, the first waits for none, 28 follow after 10 and were enqueued long before; the
    last one starts 9,000 after the one before, and was enqueued 50 before it: late by 8,950."""
    ends = [110 * step for step in range(29)]
    starts = [*ends, ends[-1] + 100 + 9000]
    enqueued = [start - 200 for start in ends] + [starts[-1] - 50]
    launch = {"run_id": "r", "device_id": 0, "phase": "decode", "duration_ps": 100}
    tables = {
        "runs": [{"run_id": "r"}],
        "devices": [{"run_id": "r", "device_id": 0, "core": "tensorcore", "traced": True}],
        "launches": [
            {**launch, "launch": step, "step": step, "start_ps": start, "enqueue_ps": enqueue}
            for step, (start, enqueue) in enumerate(zip(starts, enqueued, strict=True))
        ],
    }
    split = split_time(TIMES, AXES)
    part = next(part for part in split.parts if part.name == "between_steps")
    with Warehouse(write_warehouse(tmp_path, tables)) as warehouse:
        found = evidence(warehouse, "r", split, part)
    assert found == "the host is late for 1 of 29 launches, by 8.95 ns each"


def test_what_is_behind_other_losses():
    split = split_time(TIMES, AXES)
    parts = {(part.name, part.axis): part for part in split.parts}
    cause = Rows({"cause": "host", "idle_ps": 45})
    assert evidence(cause, "ab12", split, parts["idle", None]) == (
        "75 % of it while the device waits for the host"
    )
    for steps, said in (
        (0, "ops of a program that runs"),
        (2, "kernels, which the host launches one by one"),
    ):
        device = Rows({"cause": "device", "idle_ps": 45, "steps_of_host": steps})
        assert evidence(device, "ab12", split, parts["idle", None]) == f"75 % of it between {said}"
    every = Rows({"cause": "unattributed", "idle_ps": 60})
    assert evidence(every, "ab12", split, parts["idle", None]) == "all without a known cause"
    collective = Rows({"kind": "all-reduce", "count": 48, "exposed_ps": 150.0})
    said = evidence(collective, "ab12", split, parts["exposed", "tp"])
    assert said == "75 % of it in all-reduce, 24 a step"
    assert collective.params == {"run": "ab12", "phase": "decode", "axis": "tp"}
    copies = Rows({"kernel": "copy-done", "executions": 12})
    assert evidence(copies, "ab12", split, parts["exposed_copy", None]) == (
        "most copy time is in copy-done, 6 a step"
    )
    late = {
        "device_id": 13,
        "host": "host1",
        "last_ratio": 0.75,
        "mean_lag_ps": 40e6,
        "devices": 16,
    }
    assert evidence(Rows(late), "ab12", split, parts["sync_wait", None]) == (
        "device 13 of host1 comes last to 75 % of its collectives, 40 µs after the first"
    )
    nameless = Rows(late | {"host": None, "mean_lag_ps": None})
    assert evidence(nameless, "ab12", split, parts["sync_wait", None]) == (
        "device 13 comes last to 75 % of its collectives"
    )
    assert evidence(Rows(), "ab12", split, parts["idle", None]) == ""
    together = Rows(late | {"last_ratio": 0.0})
    for none in (together, Rows()):
        assert evidence(none, "ab12", split, parts["sync_wait", None]) == ""
