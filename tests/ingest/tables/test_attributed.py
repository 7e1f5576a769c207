"""Time of a step by op: by hand, against picoseconds one by one, and on whole runs."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import strategies as st

from tests.layers import first_few, layered
from tests.synth.cases import CASES
from tests.synth.write import write_run
from xlahouse.ingest.events.spans import shares
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.tables.busy import busy_intervals
from xlahouse.ingest.tables.device_steps import (
    OUTSIDE,
    attributed_times,
    launch_spans,
    split_steps,
)
from xlahouse.ingest.tables.placed_ops import PlacedOps
from xlahouse.sql import Warehouse

CLASSES = ("compute", "collective", "copy", "wait")
SPANS = st.lists(
    st.tuples(st.sampled_from(CLASSES), st.integers(0, 40), st.integers(0, 15)),
    min_size=1,
    max_size=12,
)


def attribute(rows, steps=(0,), pairs=()):
    """Times of ops (category, start, duration[, step]); pairs: (row of start, row of done)."""
    rows = [(*row, 0) if len(row) == 3 else row for row in rows]
    names = {"wait": "barrier-cores"}
    category = [row[0] for row in rows]
    kinds = pl.DataFrame(
        {
            "op": [names.get(each, "x") for each in category],
            "category": category,
            "on_async_line": [False] * len(rows),
            "masked": [False] * len(rows),
            "communicates": [False] * len(rows),
        }
    )
    known = [step for step in steps if step is not None]
    launches = pl.DataFrame(
        {"launch": [*known, None], "request": [0] * len(known) + [None], "step": [*known, None]}
    ).with_columns(phase=pl.lit(None, pl.String))
    start, duration = (np.array([row[k] for row in rows], np.int64) for k in (1, 2))
    ops = PlacedOps(
        kinds=kinds,
        launches=launches,
        device_id=np.zeros(len(rows), np.int64),
        kind=np.arange(len(rows)),
        launch=np.array([len(known) if row[3] is None else known.index(row[3]) for row in rows]),
        start_ps=start,
        duration_ps=duration,
        self_ps=duration,
    )
    transfers = pl.DataFrame(
        [
            {
                "device_id": 0,
                "request": 0,
                "step": rows[first][3],
                "is_async": True,
                "start_ps": rows[first][1],
                "duration_ps": rows[done][1] + rows[done][2] - rows[first][1],
                "row": first,
                "done_row": done,
            }
            for first, done in pairs
        ]
    )
    split = split_steps(launch_spans(ops), busy_intervals(ops, transfers))
    return attributed_times(ops, transfers, split).tolist(), split.table


def test_compute_comes_before_collectives_in_flight():
    # METRICS, Time split: compute [0, 80), collectives [30, 40) and [60, 100): 20 are exposed.
    rows = [("compute", 0, 80), ("collective", 30, 10), ("collective", 60, 40)]
    assert attribute(rows)[0] == [80, 0, 20]


def test_an_exposed_instant_belongs_in_equal_parts_to_those_in_flight():
    # METRICS, Time split: compute [0, 10), c1 [5, 25), c2 [15, 30): 10 and 10.
    rows = [("compute", 0, 10), ("collective", 5, 20), ("collective", 15, 15)]
    assert attribute(rows)[0] == [10, 10, 10]


def test_a_remainder_goes_to_the_op_that_started_first():
    # [0, 2) the first alone; [2, 9) all three: 7 = 3 x 2 + 1, the 1 to the first; [9, 10) the third.
    rows = [("compute", 0, 9), ("compute", 2, 7), ("compute", 2, 8)]
    assert attribute(rows)[0] == [2 + 2 + 1, 2, 2 + 1]


def test_copies_come_before_barriers_and_control_has_nothing():
    # collective [0, 10); copy [5, 20): 10 of its own; barrier [15, 30): 10; while [0, 40): none.
    rows = [("control", 0, 40), ("collective", 0, 10), ("copy", 5, 15), ("wait", 15, 15)]
    assert attribute(rows)[0] == [0, 10, 10, 10]


def test_time_in_flight_is_the_start_ops():
    # Start [0, 1), compute [10, 30), done [40, 50): in flight 50, of which 20 computes.
    rows = [("collective", 0, 1), ("compute", 10, 20), ("collective", 40, 10)]
    assert attribute(rows, pairs=[(0, 2)])[0] == [30, 20, 0]
    # Without its start a done has the time in which it ran.
    assert attribute(rows)[0] == [1, 20, 10]


def test_a_start_that_takes_no_time_has_its_flight():
    rows = [("collective", 0, 0), ("collective", 40, 10)]
    assert attribute(rows, pairs=[(0, 1)])[0] == [50, 0]


def test_time_past_the_next_steps_start_counts_nowhere():
    rows = [("compute", 0, 10, 0), ("compute", 30, 20, 0), ("compute", 40, 50, 1)]
    assert attribute(rows, steps=(0, 1))[0] == [10, 10, 50]


def test_what_is_outside_every_step_is_unknown_unless_the_device_has_none():
    rows = [("compute", 0, 10, 0), ("compute", 20, 5, None)]
    assert attribute(rows, steps=(0, None))[0] == [10, OUTSIDE]
    assert attribute(rows[1:], steps=(None,))[0] == [5]


@layered(60, 1000, SPANS)
def test_every_picosecond_is_shared(spans):
    rows = sorted(spans, key=lambda row: row[1])
    found, table = attribute(rows)
    share = [Fraction(0)] * len(rows)
    for at in range(60):
        running = [k for k, row in enumerate(rows) if row[1] <= at < row[1] + row[2]]
        first = min((CLASSES.index(rows[k][0]) for k in running), default=None)
        owners = [k for k in running if CLASSES.index(rows[k][0]) == first]
        for k in owners:
            share[k] += Fraction(1, len(owners))
    assert sum(found) == sum(share)
    (step,) = table.to_dicts()
    waits = sum(each for each, row in zip(found, rows, strict=True) if row[0] == "wait")
    assert waits == step["sync_wait_ps"]
    # A piece's remainder is below the number of its ops; an op has a piece or two by each other op.
    assert all(abs(a - b) < 2 * len(rows) ** 2 for a, b in zip(found, share, strict=True))


def test_intervals_apart_keep_what_they_have():
    found = shares(np.array([0, 5, 6, 20]), np.array([5, 10, 8, 30]))
    assert found.tolist() == [5, 4, 1, 10]


@pytest.mark.parametrize(
    "name", first_few(["tp_overlapped_and_hidden", "pp_ticks", "tp_skewed", "unmarked"], 2)
)
def test_ops_of_a_run_add_up_to_its_steps(name, tmp_path):
    write_run(CASES[name], tmp_path / "in")
    ingest_paths([str(tmp_path / "in")], str(tmp_path / "wh"))
    with Warehouse(tmp_path / "wh") as warehouse:
        rows = warehouse.query("""
            select any_value(s.window_ps - s.idle_ps), sum(o.attributed_ps)
            from device_time as s join ops as o
                on o.device_id = s.device_id and o.step is not distinct from s.step
                and o.request is not distinct from s.request
            group by s.device_id, s.request, s.step
        """).rows
    assert rows
    assert [busy for busy, _ in rows] == [parts for _, parts in rows]
