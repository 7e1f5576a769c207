"""Planted faults of views that nothing can catch, each with the reason."""

from __future__ import annotations

# Faults that change no answer on any warehouse that keeps to the tables' contract: view -> beginning
# of the fault -> why. Whatever else survives is a case that is missing.
HARMLESS: dict[str, dict[str, str]] = {
    "_mesh_axis_v1": {
        "strided: GT for size >= 1": "the logarithm of 1 adds nothing",
        "strided: size >= 1 with 2": "the logarithm of 1 adds nothing",
        "stride_size: LTE": "no product of whole numbers is e^28",
        "stride_size: stride_exponent < 28 with": "such a mesh has more places than devices anyway",
        "axes: GTE for ARRAY_LENGTH": "a mesh of more than eight axes is refused for their number",
        "axes: ARRAY_LENGTH(c.mesh) > 8 with": "a mesh of nine axes is refused for their number",
    },
    "_mesh_state_v1": {
        "axes: LTE for SUM(": "no product of whole numbers is e^28",
        "counted: GTE for ARRAY_POSITION": "DuckDB gives NULL, Spark 0, for what is not in a list",
    },
    "step_latency_v1": {
        "ends: rows without": "a step without passes has no times, and NULL joins nothing",
    },
    "_op_half_v1": {
        "from: rows without": "who reads it asks for one half or the other",
    },
    "_meeting_v1": {
        "seen: rows without NOT c.instance": "instances are joined by number, and NULL joins nothing",
    },
    "straggler_v1": {
        "judged: rows without NOT c.instance": "instances are joined by number, and NULL joins nothing",
    },
    "_ccl_other_v1": {
        "planes: rows without": "only traced TPUs have planes of such names",
    },
    "_async_pair_v1": {
        "halves: rows without o.is_async": "an op whose opcode is half of a pair is asynchronous",
        "halves: rows without o.kernel": "a copy that is a kernel has no done",
        "halves: rows without NOT o.category": "the time of a collective is that of its transfer",
    },
    "run_mesh_v1": {
        "from: rows without": "a mesh that lists other devices is refused",
    },
    "_transfer_v1": {
        "moving: rows without axis": "what has no axis has a group of one",
    },
    "ccl_bench_v1": {
        "copy_ops: rows without is_async": "an op is asynchronous in all its executions, or in none",
    },
    "reconfiguration_fit_v1": {
        "windows: rows without": "an axis is joined by number, and NULL joins nothing",
    },
    "traffic_window_summary_v1": {
        "windows: rows without": "an axis is joined by number, and NULL joins nothing",
    },
    "ccl_legacy_v1": {
        "intervals: join without": "an interval more often, or without a step, changes no share",
        "chosen: rows without": "an event more is looked at, and adds nothing",
        "halves: rows without copy_half": "what is no half has no number, and is beside none",
        "working: rows without duration_ps": "an op of no length adds nothing",
        "categories: rows without NOT device_id": "no event of a host has a category",
        "grouped: rows without": "other categories have no metric",
        "edges: rows without": "an edge of nothing changes no level",
        "intervals: rows without e.duration_ps": "an event of no length adds nothing",
        "intervals: rows without duration_ps": "a step of no length adds nothing",
        "halves: no run_id": "any numbers do that keep the order within a run and number",
        "halves: no copy_number": "any numbers do that keep the order within a run and number",
        "chosen: GTE": "an event more is looked at, and adds nothing",
        "names: GTE": "an event more is looked at, and adds nothing",
        "names: model_flops > 0 with 1": "no name has one FLOP in all",
        "names: bytes_accessed > 0 with 1": "no name has one byte in all",
        "copies: GTE": "a copy of no length adds nothing",
        "edges: GTE": "an edge of nothing changes no level",
        "working: GTE": "an op of no length adds nothing",
        "intervals: GTE for e.duration_ps": "an event of no length adds nothing",
        "intervals: GTE for duration_ps": "a step of no length adds nothing",
        "intervals: SELECT c.run_id": "only whether a copy is in flight counts",
        "intervals: SELECT run_id": "twice every step's part and twice the whole",
    },
    "_between_steps_v1": {
        "windows: rows without NOT step": "a device without steps has one window",
        "occupied: rows without step": "what a step runs lies in its window, or reaches into the next one's",
        "occupied: rows without category": "what is masked is computed, too",
        "from: join without w.run_id": "another run's windows have numbers far away",
        "from: GTE": "a piece of no length adds nothing",
    },
    "_device_group_v1": {
        "coordinates: join without a.run_id": "other runs' strides only stretch the numbers",
        "peer_group: -1 with": "any number that no place has",
        "peer_group: -2 with": "any numbers that no place has",
    },
    "_idle_total_v1": {
        "levels: GTE": "with one stage the level is not looked at",
        "levels: 2 *": "any numbers that keep groups and stages apart",
    },
    "_idle_cause_v1": {
        "ended: rows without": "a gap of no length is no gap",
        "gaps: 0 AS stage_idle_ps with 1": "with one stage it is not looked at",
        "ended: GTE": "a gap of no length adds nothing",
        "ended: idle_ps > 0 with 1": "a gap of one picosecond tells",
        "gaps: no gap_start_ps in GROUP BY": "a gap has one start and one end",
        "gaps: no gap_end_ps in GROUP BY": "a gap has one start and one end",
        "gaps: gap_after_ps > 0 with 1": "a piece of one picosecond tells",
        "gaps: gap_before_ps > 0 with 1": "a piece of one picosecond tells",
    },
    "_masked_work_v1": {
        "worked: rows without": "neither sum takes others, and without stages nothing is masked",
        "reaches: rows without": "without stages nothing is masked",
        "worked: join without b.request": "what lies outside the window is cut off",
        "worked: join without b.step": "what lies outside the window is cut off",
        "worked: GTE": "with one stage nothing is masked",
        "reaches: GTE": "with one stage nothing is masked",
        "judged: most_masked_ps > 0 with": "a tick is longer",
    },
    "bubble_v1": {"told: GTE": "with one stage it is the branch before"},
    "latency_v1": {
        "percentiles: CAST(": "a divisor of 101 for 100 tells from 99 steps on",
        "percentiles: 99 * places": "tells from 100 steps on",
    },
    "step_time_v1": {"phase: LTE": "equals are the other branch"},
    "load_balance_v1": {"phase: LTE": "equals are the other branch"},
    "clock_offset_v1": {
        "shared: rows without NOT host": "hosts are joined by name, and NULL joins nothing",
        "offsets: CAST(": "a divisor of 101 for 100 tells from 99 instances on",
        "median_skews: CAST(": "a divisor of 101 for 100 tells from 99 instances on",
    },
    "scheduling_v1": {
        "percentiles: CAST(": "a divisor of 101 for 100 tells from 99 launches on",
    },
    "collective_axis_v1": {
        "pair_axes: no s.": "index, name and size of an axis follow from each other",
        "group_axes: no m.": "index, name and size of an axis follow from each other",
        "judged: GTE": "no moves is the branch before",
    },
    "_collective_wire_v1": {
        "placed: join without g.world": "a device is in one world",
        "placed: join without g.group_index": "a device is in one group of an instruction",
        "placed: GTE for c.payload_bytes": "no bytes are a size of their own",
    },
    "_run_key_v1": {
        "run_key: no 1": "it is one partition on purpose",
        "run_key: ROW_NUMBER": "any unit above the parts of a run",
        "axis_unit: ": "any unit above the phases of a run",
    },
    "_in_flight_v1": {
        "lines: no 1": "it is one partition on purpose",
        "lines: ROW_NUMBER": "any numbers do that differ",
        "summed: LTE for start_ps": "what only touches has the same union the longer way",
        "summed: LTE for end_ps": "what ends together has the same union the longer way",
    },
    "_axis_key_v1": {
        "numbered: no run_id in PARTITION BY": "any numbers do that differ within a run",
        "numbered: 1 + ROW_NUMBER": "any numbers do that differ within a run",
    },
    "_op_total_v1": {
        f"summed: no {text} in GROUP BY": "of an op's texts the least are taken in the end"
        for text in ("module", "opcode", "category", "hlo_category", "component")
    },
    "_phase_number_v1": {
        "phase_number: no run_id in PARTITION BY": "any numbers do that differ within a run",
    },
    "scaling_v1": {
        "workloads: rows without NOT r.model": "models are joined by name, and NULL joins nothing",
        "known_axes: rows without": "a size of 1 alone is left out",
        "wide: join without": "a size of 1 alone is left out",
        "pipelines: rows without": "a size of 1 alone is left out",
        "pipelines: GTE for size": "a size of 1 alone is left out",
        "placed: join without k.": "an axis that a workload lacks has size 1 alone, which is left out",
        "known_axes: GTE": "sizes of 1 alone are left out",
        "placed: no w.": "a run has one model and one workload",
    },
    "roofline_v1": {
        "summed: GTE for o.executions": "an op that never ran has no row to begin with"
    },
    "run_comparison_v1": {"verdict: LTE for difference": "no difference is inconclusive before"},
    "_group_chip_v1": {"on_one_chip: GTE": "a group of one sends nothing"},
    "traffic_volume_v1": {"instances: DISTINCT": "a device has an instance once"},
    "_instance_v1": {"seen: DISTINCT": "a device has an instance once"},
    "traffic_matrix_v1": {
        "sent: no world": "a device is in one world",
        "sent: no axis": "an instruction has one axis",
        "seated: join without g.world": "a device is in one world",
        "by_pairs: join without p.world": "a device is in one world",
        "by_pairs: join without p.target": "what a device sends to itself has no payload",
    },
    "_burst_v1": {
        "ordered: no line_key": "an axis' key is of one run, and scope run has no device",
        "bursts: no line_key": "an axis' key is of one run, and scope run has no device",
        "placed: no": "a number over more rows has the same order",
    },
    "traffic_timeline_v1": {
        "bins: rows without": "bins beyond the last one are left out",
        "widths: no s.first_ps": "a run has one",
        "widths: no s.span_ps": "a run has one",
        "bytes: GTE for r.passing": "a rate that has ended is 0 but for its last digits",
        "bins: LTE for": "bins beyond the run are left out",
        "bins: a.n < 5 with": "bins beyond the run are left out",
        "running: no run_id in PARTITION BY #2": "passing only hides the last digits of ended rates",
        "running: no axis in PARTITION BY #2": "passing only hides the last digits of ended rates",
        "changes: SELECT run_id, axis, last_bin + 1, 0, 0, 0, -unknowns"
        " FROM stretches with 1 #3": "passing hides last digits only",
        "changes: SELECT run_id, axis, last_bin, last_bytes, 0, 0, 0"
        " FROM stretches with 1 #2": "passing hides last digits only",
        "changes: SELECT run_id, axis, first_bin, first_bytes": "passing hides last digits only",
        "changes: CAST(0 AS BIGINT) with 1": "passing hides last digits only",
    },
    "expected_traffic_v1": {
        "expected_count: LTE for moves": "the bound is no limit that anything is measured by",
        "answered: LTE for bytes": "the bound is no limit that anything is measured by",
    },
    "collective_latency_summary_v1": {
        "nearest: GTE for payload_bytes": "no bytes are a size of their own",
    },
    "bandwidth_summary_v1": {
        "nearest: GTE for payload_bytes": "no bytes are a size of their own",
    },
    "link_traffic_v1": {
        "measured: rows without": "equals go no way",
        "numbers: rows without": "no way is longer than 32",
        "ways: GTE for target": "equals go no way",
        "ways: LTE for target": "equals go no way",
        "numbers: LTE for a.n": "no way is longer than 32",
        "numbers: a.n < 4 with": "no way is longer than 32",
    },
}
