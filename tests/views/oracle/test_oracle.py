"""Every view on irregular random runs against plain loops over their tables."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.views.oracle import (
    clocks,
    compatibility,
    compiles,
    costs,
    exposed,
    hosts,
    idle,
    links,
    meetings,
    memory,
    pairs,
    peaks,
    profile,
    requests,
    rings,
    roofline,
    sequence,
    split,
    summary,
    traffic,
)
from tests.views.oracle.busy import add_busy_intervals
from tests.views.oracle.drawn import Drawn, Row
from tests.views.oracle.reading import Run
from tests.views.oracle.times import draw_run
from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse

pytestmark = pytest.mark.verify(together=True)

FIRST = int(os.environ.get("XLAHOUSE_ORACLE_SEED", 0))
RUNS = int(os.environ.get("XLAHOUSE_ORACLE_RUNS", 32))  # all in one warehouse: runs may not mix
CONTRACT = json.loads((Path(__file__).parents[1] / "contract.json").read_text())
VIEWS: dict[str, Callable[[Run], Iterator[Row]]] = {
    "run_mesh_v1": traffic.run_mesh,
    "hardware_peaks_v1": peaks.hardware_peaks,
    "hbm_capacity_v1": peaks.hbm_capacity,
    "collective_axis_v1": traffic.collective_axis,
    "traffic_volume_v1": traffic.traffic_volume,
    "collective_latency_summary_v2": traffic.collective_latency_summary,
    "traffic_interval_v1": sequence.traffic_interval,
    "traffic_interval_summary_v2": sequence.traffic_interval_summary,
    "traffic_burst_v2": sequence.traffic_burst,
    "traffic_window_v2": sequence.traffic_window,
    "traffic_window_summary_v2": sequence.traffic_window_summary,
    "reconfiguration_fit_v2": sequence.reconfiguration_fit,
    "reconfiguration_cost_v1": sequence.reconfiguration_cost,
    "traffic_profile_v1": profile.traffic_profile,
    "traffic_timeline_v1": sequence.traffic_timeline,
    "collective_bandwidth_v3": meetings.collective_bandwidth,
    "bandwidth_summary_v3": meetings.bandwidth_summary,
    "clock_offset_v2": clocks.clock_offset,
    "straggler_v2": meetings.straggler,
    "device_time_v1": split.device_time,
    "comm_compute_v2": split.comm_compute,
    "exposed_collective_v1": exposed.exposed_collective,
    "step_time_v1": split.step_time,
    "load_balance_v1": split.load_balance,
    "sync_wait_v1": split.sync_wait,
    "idle_gap_v2": idle.idle_gap,
    "bubble_v2": idle.bubble,
    "step_latency_v1": requests.step_latency,
    "latency_v2": requests.latency,
    "launch_overhead_v1": requests.launch_overhead,
    "scheduling_v2": requests.scheduling,
    "host_gap_v1": hosts.host_gap,
    "compile_v1": compiles.waited_for,
    "memory_timeline_v2": memory.memory_timeline,
    "program_memory_v1": memory.program_memory,
    "memory_at_peak_v1": memory.memory_at_peak,
    "op_profile_v1": costs.op_profile,
    "layer_breakdown_v1": costs.layer_breakdown,
    "module_breakdown_v1": costs.module_breakdown,
    "mfu_v2": costs.mfu,
    "mbu_v2": costs.mbu,
    "run_summary_v2": summary.run_summary,
    "step_load_v1": traffic.step_load,
}
MATRICES = {
    "traffic_matrix_v1": traffic.traffic_matrix,
    "traffic_demand_v1": traffic.traffic_demand,
}
# Running sums over transfers of gigabytes, and over picoseconds of seconds, lose the last digits.
LEEWAY = {"traffic_timeline_v1": 1e-3, "exposed_collective_v1": 1e-3, "traffic_profile_v1": 1e4}


def compiled_targets(view, run):
    """How many rows of a matrix name a target that the compiler chose."""
    if not rings.is_square(run):
        return 0
    rows = MATRICES[view](run)
    return sum(r["algorithm"] == "compiled" and r["target_device_id"] is not None for r in rows)


def known_jobs(run):
    """In how many phases the demand is known."""
    return sum(demand is not None for _, demand in compatibility.jobs(run).values())


# What some tests are about, and how much of it they ask for.
RARE = {
    known_jobs: 6,
    partial(compiled_targets, "traffic_matrix_v1"): 20,
    partial(compiled_targets, "traffic_demand_v1"): 20,
}


@pytest.fixture(scope="module")
def runs():
    """RUNS of them, and more while there is too little of what is rare."""
    drawn, counts = [], Counter()
    while len(drawn) < RUNS or any(counts[each] < least for each, least in RARE.items()):
        seed = FIRST + len(drawn)
        run = draw_run(Drawn(Random(seed), f"seed {seed}"))
        add_busy_intervals(run)
        hosts.add_host_gaps(run)
        drawn.append(Run(run.run_id, run.tables))
        counts.update({each: each(drawn[-1]) for each in RARE})
    return drawn


@pytest.fixture(scope="module")
def warehouse(runs, tmp_path_factory):
    tables: dict[str, list[Row]] = {}
    for run in runs:
        for name, rows in run.tables.items():
            tables.setdefault(name, []).extend(rows)
    root = write_warehouse(tmp_path_factory.mktemp("oracle") / "warehouse", tables)
    with Warehouse(str(root)) as opened:
        yield opened


def same(found, want, leeway):
    """Equal, floats up to their last digits."""
    if isinstance(want, float) and isinstance(found, float):
        return math.isclose(found, want, rel_tol=1e-9, abs_tol=leeway)
    return found == want


def asked(value, kind):
    """A value as its column's type has it."""
    return float(value) if kind == "DOUBLE" and value is not None else value


def exact(row):
    """What a row is told by: all but floats."""
    return tuple(None if isinstance(value, float) else value for value in row)


def differences(found, expected, leeway=1e-12):
    """(missing, unexpected) rows."""
    left: dict[tuple, list[tuple]] = {}
    for row in found:
        left.setdefault(exact(row), []).append(row)
    missing = []
    for want in expected:
        rows = left.get(exact(want), [])
        match = next(
            (
                row
                for row in rows
                if all(same(*pair, leeway) for pair in zip(row, want, strict=True))
            ),
            None,
        )
        if match is None:
            missing.append(want)
        else:
            rows.remove(match)
    return missing, [row for rows in left.values() for row in rows]


def disagreeing(view, oracle, runs, rows_of):
    """Run -> rows that the view lacks, or has too many; `rows_of` gives the view's by run."""
    wrong, names = {}, list(next(row for run in runs for row in oracle(run)))
    for run in runs:
        expected = list(oracle(run))
        wanted = [tuple(asked(r[n], CONTRACT[view][n]) for n in names) for r in expected]
        found = rows_of(run, names, expected)
        missing, left = differences(found, wanted, LEEWAY.get(view, 1e-12))
        if missing or left:
            wrong[run.run_id] = {"missing": missing[:3], "unexpected": left[:3]}
    return f"{len(wrong)} runs differ: {names} {dict(list(wrong.items())[:2])}" if wrong else ""


def by_run(warehouse, view):
    """`rows_of` of a view that is computed once for all runs."""
    columns, found = list(CONTRACT[view]), {}
    for row in warehouse.query(f"select * from {view}").rows:
        found.setdefault(row[columns.index("run_id")], []).append(row)

    def rows_of(run, names, _):
        places = [columns.index(name) for name in names]
        return [tuple(row[place] for place in places) for row in found.get(run.run_id, ())]

    return rows_of


@pytest.mark.parametrize("view", VIEWS)
def test_view(view, runs, warehouse):
    assert not disagreeing(view, VIEWS[view], runs, by_run(warehouse, view))


@pytest.mark.parametrize("view", MATRICES)
def test_matrices(view, runs, warehouse):
    """Rings as the compiler states them are known here of four chips."""
    every = by_run(warehouse, view)

    def oracle(run):
        rows = MATRICES[view](run)
        return [r for r in rows if r["algorithm"] != "compiled" or rings.is_square(run)]

    def rows_of(run, names, expected):
        place = names.index("algorithm")
        rows = every(run, names, expected)
        return [row for row in rows if row[place] != "compiled" or rings.is_square(run)]

    assert not disagreeing(view, oracle, runs, rows_of)


def test_roofline(runs, warehouse):
    """Of runs whose links are those of four chips, or not known."""
    linked = "select distinct run_id from collective_bandwidth_v3 where ici_link_count is not null"
    others = {run_id for (run_id,) in warehouse.query(linked).rows}
    told = [run for run in runs if rings.is_square(run) or run.run_id not in others]
    assert len(told) > 4
    rows_of = by_run(warehouse, "roofline_v2")
    assert not disagreeing("roofline_v2", roofline.roofline, told, rows_of)


def test_op_diff(runs, warehouse):
    """Every pair of some runs: one run's rows are of no other's."""
    some = {run.run_id: pairs.phases(run) for run in runs[:8]}
    expected = {
        (base, other): list(pairs.op_diff(some[base], some[other]))
        for base in some
        for other in some
        if base != other
    }
    names = list(next(rows[0] for rows in expected.values() if rows))
    listed = ", ".join(f"'{run}'" for run in some)
    sql = f"""
        select run_id, other_run_id, {", ".join(names)} from op_diff_v1
        where run_id in ({listed}) and other_run_id in ({listed})
    """
    found: dict[tuple, list] = {pair: [] for pair in expected}
    for base, other, *row in warehouse.query(sql).rows:
        found[base, other].append(tuple(row))
    types = CONTRACT["op_diff_v1"]
    for pair, rows in expected.items():
        wanted = [tuple(asked(row[n], types[n]) for n in names) for row in rows]
        wrong = differences(found[pair], wanted, 1e-3)
        assert wrong == ([], []), f"{pair}: {names}"


def test_compatibility(runs, tmp_path):
    """Pairs of jobs whose common period is short enough to try every shift, on a link that is set."""
    capacity, tables = 2e9, {}
    some = sorted(runs, key=known_jobs, reverse=True)[:10] + runs[:10]
    some = list({run.run_id: run for run in some}.values())
    for run in some:
        for name, rows in run.tables.items():
            tables.setdefault(name, []).extend(rows)
    told = {row["run_id"]: row for row in tables.get("run_settings", [])}
    peaks = {"shared_link_bytes_per_s": capacity}
    tables["run_settings"] = [
        {**told.get(run.run_id, {"run_id": run.run_id}), "peaks": peaks} for run in some
    ]
    busy = {
        (run.run_id, phase): job for run in some for phase, job in compatibility.jobs(run).items()
    }
    with Warehouse(str(write_warehouse(tmp_path, tables))) as opened:
        found = opened.query("select * from traffic_compatibility_v1").dicts()
    assert len(found) == len(busy) ** 2
    tried = 0
    for row in found:
        first, second = (
            busy[row["run_id"], row["phase"]],
            busy[row["other_run_id"], row["other_phase"]],
        )
        known = first[1] is not None and second[1] is not None
        assert not known or (row["period_ps"], row["other_period_ps"]) == (first[0], second[0])
        if (row["common_period_ps"] or 0) <= 500 * min(first[0], second[0]) // 100:
            expected = compatibility.compatibility(first, second, capacity)
            assert all(same(row[name], value, 1e-6) for name, value in expected.items()), (
                row,
                expected,
            )
            tried += row["best_score"] is not None
    assert tried > 5  # a job beside itself always has a common period


def test_links(runs, warehouse):
    """What four chips carry, under each phase and algorithm of which every target is known."""
    square = [run for run in runs if rings.is_square(run)]

    every = by_run(warehouse, "link_traffic_v1")

    def rows_of(run, names, expected):
        known = {(row["phase"], row["algorithm"]) for row in expected}
        phase, algorithm = names.index("phase"), names.index("algorithm")
        rows = every(run, names, expected)
        return [row for row in rows if (row[phase], row[algorithm]) in known]

    assert not disagreeing("link_traffic_v1", links.link_traffic, square, rows_of)


def test_link_use(runs, warehouse):
    """Least times and busiest links of transfers between four chips."""
    square = [run for run in runs if rings.is_square(run) and run.collectives]
    rows_of = by_run(warehouse, "collective_bandwidth_v3")
    assert not disagreeing("collective_bandwidth_v3", links.link_use, square, rows_of)
