"""End to end: synthetic traces through ingest and views give their closed forms, row for row."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from itertools import zip_longest

import pytest

from tests.synth.answers.all import answers
from tests.synth.answers.runs import run_comparison, scaling, setup_summary
from tests.synth.cases import CASES
from tests.synth.describe import Run
from tests.synth.draw import draw_run
from tests.synth.mesh import coordinate
from tests.synth.summaries import SUMS
from tests.synth.walk import schedule
from tests.synth.write import write_run
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.check.audits import run_audits
from xlahouse.sql.warehouse import Warehouse


class Ingested:
    """One of several runs in a warehouse: its description, its answers, its rows."""

    def __init__(self, run, warehouse, run_id, cache):
        self.run, self.expected = run, answers(run)
        self.warehouse, self.run_id, self.cache = warehouse, run_id, cache

    def rows(self, sql):
        """The run's rows of a query, which has to give run_id; it is asked once for all runs."""
        if sql not in self.cache:
            self.cache[sql] = defaultdict(list)
            for row in self.warehouse.query(sql).arrow().to_pylist():
                self.cache[sql][row["run_id"]].append(row)
        return self.cache[sql][self.run_id]

    def members(self):
        """(program, op, group) -> its devices in group order."""
        groups = defaultdict(list)
        sql = "select * from replica_groups order by program_id, op, group_index, position"
        for row in self.rows(sql):
            key = row["program_id"], row["op"], row["group_index"]
            groups[key].append(row["device_id"])
        return {key: tuple(devices) for key, devices in groups.items()}


pytestmark = pytest.mark.xdist_group("synthetic")
RUNS = CASES | {run.name: run for run in map(draw_run, range(100, 106))}


def ingest(runs, folder):
    """Write and ingest runs into one warehouse; name -> Ingested."""
    for number, run in enumerate(runs):
        write_run(run, folder / "traces" / str(number))
    results = ingest_paths([str(folder / "traces")], str(folder / "warehouse"))
    warehouse, cache = Warehouse(str(folder / "warehouse")), {}
    ids = {result.name: result.run_id for result in results}
    return {run.name: Ingested(run, warehouse, ids[run.name], cache) for run in runs}


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """All runs in one warehouse, so that a view which mixes runs is caught too."""
    return ingest(RUNS.values(), tmp_path_factory.mktemp("synthetic"))


@pytest.fixture(params=list(RUNS))
def ingested(request, everything):
    return everything[request.param]


def in_order(rows, columns):
    """Rows restricted to some columns, sorted by what is exact, then by their floats."""
    values = [tuple(row[column] for column in columns) for row in rows]
    exact = [[str(v) for v in row if not isinstance(v, float)] for row in values]
    floats = [[v for v in row if isinstance(v, float)] for row in values]
    order = sorted(range(len(values)), key=lambda k: (exact[k], floats[k]))
    return [values[k] for k in order]


def equal(found, expected):
    """Exact, but for floats: sums in another order differ in their last digits."""
    return (
        found is not None
        and expected is not None
        and all(
            math.isclose(one, other, rel_tol=1e-12)
            if isinstance(one, float) and isinstance(other, float)
            else one == other
            for one, other in zip(found, expected, strict=True)
        )
    )


def assert_same(found, expected, columns):
    """Equal in any order of rows; on failure the first differences are shown."""
    pairs = zip_longest(in_order(found, columns), in_order(expected, columns))
    differing = [{"found": one, "expected": other} for one, other in pairs if not equal(one, other)]
    assert differing[:4] == [], f"{len(differing)} rows differ in {columns}"


def test_nothing_is_wrong_with_the_run(ingested):
    findings = ingested.rows("select run_id, severity, code, message from issues")
    assert [row for row in findings if row["severity"] == "error"] == []
    (row,) = ingested.rows("select run_id, status, device_count, expected_device_count from runs")
    traced = len(ingested.run.positions)
    assert row["device_count"] == traced
    assert row["expected_device_count"] == len(ingested.run.devices)
    assert row["status"] == ("complete" if traced == len(ingested.run.devices) else "partial")


def test_every_event_is_accounted_for(ingested):
    rows = ingested.rows(
        "select * from coverage where events_read <> rows_written + events_rejected"
        " or events_rejected > 0"
    )
    assert rows == []


def test_row_counts(ingested):
    found = ingested.rows(
        """
        select run_id, device_id, sum(launches) as launches, sum(ops) as ops,
            sum(collectives) as collectives
        from (
            select run_id, device_id, 0 as launches, 0 as ops, 0 as collectives
            from devices where traced
            union all select run_id, device_id, 1, 0, 0 from launches
            union all select run_id, device_id, 0, 1, 0 from ops
            union all select run_id, device_id, 0, 0, 1 from collectives
        )
        group by run_id, device_id
        """
    )
    columns = ("device_id", "launches", "ops", "collectives")
    assert_same(found, ingested.expected["row_counts"], columns)


def ran(ingested):
    """(program, op) of the collectives that ran on a traced device."""
    return {
        (r["program_id"], r["op"])
        for r in ingested.rows("select run_id, program_id, op from collectives")
    }


def test_collective_axis(ingested):
    members, programs = ingested.members(), ran(ingested)
    found = [
        {**row, "members": tuple(sorted(members[row["program_id"], row["op"], row["group_index"]]))}
        for row in ingested.rows("select * from collective_axis_v1")
        if (row["program_id"], row["op"]) in programs
    ]
    expected = [
        {**row, "members": tuple(sorted(row["members"]))}
        for row in ingested.expected["collective_axis"]
        if (row["program_id"], row["op"]) in programs
    ]
    assert_same(found, expected, ("program_id", "op", "members", "axis", "partial"))


def test_members_stand_in_group_order(ingested):
    """Rings follow this order. A permute's group is a set: its pairs say who sends to whom."""
    rows = ingested.rows(
        "select run_id, program_id, op from collectives where kind <> 'collective-permute'"
    )
    ordered = {(row["program_id"], row["op"]) for row in rows}
    found = {
        (*key[:2], devices) for key, devices in ingested.members().items() if key[:2] in ordered
    }
    expected = {
        (row["program_id"], row["op"], row["members"])
        for row in ingested.expected["collective_axis"]
        if (row["program_id"], row["op"]) in ordered
    }
    assert found == expected


def test_traffic_volume(ingested):
    columns = ("device_id", "phase", "axis", "kind", "collectives", "instances")
    found = ingested.rows("select * from traffic_volume_v1")
    expected = ingested.expected["traffic_volume"]
    assert_same(found, expected, (*columns, "payload_bytes", "wire_bytes"))


def test_traffic_matrix(ingested):
    columns = ("phase", "axis", "kind", "algorithm", "source_device_id", "target_device_id")
    found = ingested.rows("select * from traffic_matrix_v1")
    assert_same(found, ingested.expected["traffic_matrix"], (*columns, "bytes"))


def test_collective_bandwidth(ingested):
    columns = ("program_id", "op", "axis", "kind", "phase", "request", "step", "group_size")
    columns += ("participants_seen", "payload_bytes", "wire_bytes", "skew_ps", "transfer_ps")
    columns += ("is_bound", "algbw_bytes_per_s", "busbw_bytes_per_s")
    found = ingested.rows("select * from collective_bandwidth_v1")
    assert_same(found, ingested.expected["collective_bandwidth"], columns)


def test_device_time(ingested):
    parts = ("window", "compute", "collective", "overlapped", "exposed", "copy", "exposed_copy")
    parts += ("sync_wait", "busy", "idle")
    columns = ("device_id", "request", "step", "phase", *(f"{part}_ps" for part in parts))
    found = ingested.rows("select * from device_time_v1 where step is not null")
    assert_same(found, ingested.expected["device_time"], columns)


def test_latency(ingested):
    columns = ("request", "source", "ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s")
    found = ingested.rows("select * from latency_v1")
    assert_same(found, ingested.expected["latency"], columns)


def test_comm_compute(ingested):
    names = [*(f"{name}_ps" for name in SUMS), "phase", "device_steps"]
    names += ["comm_compute_ratio", "exposed_ratio", "idle_ratio"]
    found = ingested.rows("select * from comm_compute_v1 where phase is not null")
    assert_same(found, ingested.expected["comm_compute"], names)


def test_step_latency(ingested):
    found = ingested.rows("select * from step_latency_v1")
    columns = ("request", "step", "phase", "latency_s")
    assert_same(found, ingested.expected["step_latency"], columns)


def test_run_summary(ingested):
    expected = ingested.expected["run_summary"]
    assert_same(ingested.rows("select * from run_summary_v1"), expected, list(expected[0]))


def test_mfu(ingested):
    found = ingested.rows("select * from mfu_v1 where phase is not null")
    expected = ingested.expected["mfu"]
    assert_same(found, expected, list(expected[0]))


def test_expected_traffic(ingested):
    found = ingested.rows("select * from expected_traffic_v1")
    expected = ingested.expected["expected_traffic"]
    assert_same(found, expected, list(expected[0]) if expected else ["run_id"])


def test_link_traffic(ingested):
    found = ingested.rows("select * from link_traffic_v1")
    expected = ingested.expected["link_traffic"]
    assert_same(found, expected, list(expected[0]) if expected else ["run_id"])


def test_what_comes_from_the_model(ingested):
    for view in ("mbu", "mfu_analytic"):
        expected = ingested.expected[view]
        name = view.removesuffix("_analytic")
        found = ingested.rows(f"select * from {name}_v1 where phase is not null")
        assert_same(found, expected, list(expected[0]))


def test_op_profile(ingested):
    """Without the cost of ops that are no compute: no view uses it."""
    found = ingested.rows("select * from op_profile_v1 where phase is not null")
    for row in found:
        row["category"] = row["category"].replace("host_transfer", "copy")
    expected = ingested.expected["op_profile"]
    columns = [name for name in expected[0] if name != "flops"]
    assert_same(found, expected, columns)
    compute = [[row for row in rows if row["category"] == "compute"] for rows in (found, expected)]
    assert_same(*compute, [*columns, "flops"])


def test_layout(ingested):
    expected = ingested.expected["layout"]
    assert_same(ingested.rows("select * from layout_v1"), expected, list(expected[0]))


def test_hardware_peaks(ingested):
    sql = "select p.* from hardware_peaks_v1 as p inner join devices using (run_id, device_id) where traced"
    expected = ingested.expected["hardware_peaks"]
    assert_same(ingested.rows(sql), expected, list(expected[0]))


def test_ccl_bench(ingested):
    expected = ingested.expected["ccl_bench"]
    assert_same(ingested.rows("select * from ccl_bench_v1"), expected, ["metric", "value"])


def test_self_time_by_category(ingested):
    """Copies to the host count with the others here; loops hold what is counted elsewhere."""
    found = ingested.rows(
        """
        select run_id, phase, replace(category, 'host_transfer', 'copy') as category,
            sum(executions) as executions, sum(self_ps) as self_ps
        from layer_breakdown_v1 where phase is not null and category <> 'control' group by all
        """
    )
    columns = ("phase", "category", "executions", "self_ps")
    assert_same(found, ingested.expected["category_time"], columns)


def test_layer_breakdown(ingested):
    if ingested.run.loop or "pp" in ingested.run.axes:
        return  # a loop's body names no layer, a stacked program local ones
    found = ingested.rows(
        "select * from layer_breakdown_v1 where phase is not null and category = 'compute'"
    )
    columns = ("phase", "layer", "component", "executions", "self_ps")
    assert_same(found, ingested.expected["layer_time"], columns)


def test_module_breakdown(ingested):
    found = ingested.rows(
        "select * from module_breakdown_v1"
        " where phase is not null and launches > 0 and module <> 'jit_iota'"
    )
    columns = ("phase", "program_id", "launches", "launch_ps")
    assert_same(found, ingested.expected["module_launches"], columns)


def test_roofline(ingested):
    found = ingested.rows(
        "select * from roofline_v1 where category in ('compute', 'collective')"
        " and module <> 'jit_iota' and opcode not like '%-start'"
    )
    columns = ("program_id", "op", "category", "devices", "executions", "observed_ps")
    assert_same(found, ingested.expected["roofline"], (*columns, "flops", "math_ps"))


@pytest.mark.parametrize(
    "view",
    ["launch_overhead", "load_balance", "scheduling", "step_time", "straggler", "clock_offset"],
)
def test_times(ingested, view):
    where = " where step is not null" if view in ("load_balance", "step_time") else ""
    expected = ingested.expected[view]
    columns = [name for name in expected[0] if name != "start"]
    assert_same(ingested.rows(f"select * from {view}_v1{where}"), expected, columns)


@pytest.mark.parametrize("view", ["bubble", "idle_gap", "sync_wait"])
def test_idleness(ingested, view):
    expected = ingested.expected[view]
    found = ingested.rows(f"select * from {view}_v1 where step is not null")
    assert_same(found, expected, list(expected[0]) if expected else ["device_id"])


@pytest.mark.parametrize(
    "view",
    [
        "traffic_interval",
        "traffic_interval_summary",
        "traffic_burst",
        "traffic_window",
        "traffic_window_summary",
        "reconfiguration_fit",
        "traffic_timeline",
        "collective_latency_summary",
        "bandwidth_summary",
    ],
)
def test_traffic(ingested, view):
    found = ingested.rows(f"select * from {view}_v1")
    expected = ingested.expected[view]
    if view == "traffic_burst":  # time zero is not the answers' own
        found = [{**row, "length_ps": row["end_ps"] - row["start_ps"]} for row in found]
    columns = [name for name in expected[0] if name not in ("start", "end")] if expected else ()
    assert_same(found, expected, columns or ["run_id"])


@pytest.mark.parametrize("view", [setup_summary, run_comparison, scaling])
def test_runs_side_by_side(everything, view):
    warehouse = next(iter(everything.values())).warehouse
    setups = dict(warehouse.query("select run_id, setup from runs").rows)
    runs = {one.run_id: (one.run, setups[one.run_id]) for one in everything.values()}
    assert len(set(setups.values())) < len(setups)  # some are repeats
    expected = list(view(runs))
    found = warehouse.query(f"select * from {view.__name__}_v1").dicts()
    assert_same(found, expected, list(expected[0]))


def test_audits_find_nothing(everything):
    warehouse = next(iter(everything.values())).warehouse
    assert [finding for finding in run_audits(warehouse) if finding.rows] == []


def test_launches_are_linked(ingested):
    rows = ingested.rows("select run_id, module, enqueue_ps, start_ps from launches")
    step_launches = [row for row in rows if row["module"] != "jit_iota"]
    assert all(row["enqueue_ps"] < row["start_ps"] for row in step_launches)
    assert all(row["enqueue_ps"] is None for row in rows if row["module"] == "jit_iota")


def test_launch_instances(ingested):
    """An instance holds each device of its program that saw the pass, once."""
    run, devices = ingested.run, defaultdict(list)
    sql = "select run_id, program_id, launch_instance, device_id from launches where module <> 'jit_iota'"
    for row in ingested.rows(sql):
        devices[row["program_id"], row["launch_instance"]].append(row["device_id"])
    found = Counter((program, tuple(sorted(group))) for (program, _), group in devices.items())
    expected = Counter()
    for times in schedule(run):
        for each in times.passes:
            seen = [p for p in times.program.positions if run.traced(p) and run.saw(p, each.index)]
            group = tuple(sorted(run.devices[p] for p in seen))
            expected[times.program.id, group] += times.per_step if group else 0
    assert found == +expected


def test_coordinates(ingested):
    """Every device of the mesh has the coordinates that the description gives it."""
    run = ingested.run
    found = ingested.rows("select run_id, device_id, axis, coordinate from run_mesh_v1")
    expected = [
        {"device_id": run.devices[p], "axis": axis, "coordinate": coordinate(run.mesh, p, axis)}
        for p in range(len(run.devices))
        for axis in run.axes
    ]
    if run.traced_hosts:  # devices that nothing traced knows of have no rows
        known = {row["device_id"] for row in found}
        expected = [row for row in expected if row["device_id"] in known]
    assert_same(found, expected, ("device_id", "axis", "coordinate"))


def test_worlds_share_device_numbers_and_nothing_else(tmp_path):
    """Two processes a host, each with devices 0 to 3 of its own: twice everything, nothing mixed."""
    run = Run(worlds=2, lag_ps=(0, 5_003, 70_001, 11))
    ingested = ingest([run], tmp_path)[run.name]
    devices = ingested.rows("select * from devices where traced")
    pairs = Counter((row["world"], row["logical_id"]) for row in devices)
    assert pairs == Counter((world, number) for world in range(2) for number in range(4))
    columns = ("op", "phase", "request", "step", "group_size", "participants_seen")
    columns += ("payload_bytes", "wire_bytes", "skew_ps", "transfer_ps")
    found = ingested.rows("select * from collective_bandwidth_v1")
    assert_same(found, ingested.expected["collective_bandwidth"] * 2, columns)
    volume = ingested.rows("select * from traffic_volume_v1")
    columns = ("phase", "kind", "collectives", "payload_bytes", "wire_bytes")
    assert_same(volume, ingested.expected["traffic_volume"] * 2, columns)
