"""The closed forms against the files themselves, measured by brute force on what was written."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial

import pytest

from tests.each import check_each
from tests.layers import first_few
from tests.synth.answers.all import answers
from tests.synth.brute_hlo import collective_instructions, components, expand, shape_bytes
from tests.synth.brute_time import meetings, periods, split, steps_of, what
from tests.synth.cases import CASES
from tests.synth.clocks import comparable
from tests.synth.decode import decode
from tests.synth.draw import draw_run
from tests.synth.walk import schedule
from tests.synth.write import write_run
from xlahouse.sql.library import shipped

RUNS = CASES | {run.name: run for run in map(draw_run, range(24))}


CHECKS = {}
PERIOD = ("period_ps", "between_requests_ps")


def check(function):
    """Note down a check of (run, what was decoded from its files, its closed forms)."""
    CHECKS[function.__name__] = function
    return function


@check
def time_split_matches_every_elementary_piece(written):
    _run, decoded, expected = written
    names = ("device_id", "phase", "request", "step")
    rows = {tuple(r[name] for name in names): r for r in expected["device_time"]}
    assert len(rows) == len(expected["device_time"])
    assert {key[0] for key in rows} <= set(decoded.devices)
    for device in decoded.devices:
        steps = steps_of(decoded, device)
        assert set(steps) == {key[1:] for key in rows if key[0] == device}
        for key, events in steps.items():
            row = rows[(device, *key)]
            of_window = {k: v for k, v in row.items() if k not in PERIOD and k.endswith("_ps")}
            assert split(events) == of_window


@check
def periods_match_markers_and_ops(written):
    _run, decoded, expected = written
    found = periods(decoded)
    for row in expected["device_time"]:
        key = row["device_id"], row["request"], row["step"]
        assert found[key] == tuple(row[name] for name in PERIOD), key


@check
def window_is_the_sum_of_its_parts(written):
    for row in written[2]["device_time"]:
        parts = ("compute", "exposed", "exposed_copy", "sync_wait", "idle")
        assert row["window_ps"] == sum(row[f"{part}_ps"] for part in parts)


@check
def matrix_adds_up_to_the_wire(written):
    _, _, expected = written
    for algorithm in ("ring", "bidirectional_ring", "direct"):
        sent = Counter()
        for row in expected["traffic_matrix"]:
            if row["algorithm"] == algorithm:
                key = row["source_device_id"], row["phase"], row["axis"], row["kind"]
                sent[key] += row["bytes"]
        wire = {
            (r["device_id"], r["phase"], r["axis"], r["kind"]): r["wire_bytes"]
            for r in expected["traffic_volume"]
            if r["wire_bytes"]
        }
        assert sent == pytest.approx(wire, rel=1e-12)


@check
def row_counts(written):
    _, decoded, expected = written
    for row in expected["row_counts"]:
        events = decoded.devices[row["device_id"]]
        lines = Counter(e.line for e in events)
        ops = sum(lines[name] for name in ("XLA Ops", "Async XLA Ops", "XLA TraceMe", "Steps"))
        starts = [e for e in events if e.line == "XLA Ops" and what(e) == "collective"]
        done = sum("-done(" in e.name for e in starts)
        found = (lines["XLA Modules"], ops, len(starts) - done)
        assert (row["launches"], row["ops"], row["collectives"]) == found


@check
def axes_are_what_the_hlo_says_through_the_device_assignment(written):
    _run, decoded, expected = written
    groups = defaultdict(set)
    for row in expected["collective_axis"]:
        groups[row["program_id"], row["op"]].add(row["members"])
    found = set()
    for number, module in decoded.modules.items():
        assignment = module.device_assignment
        table = [list(d.replica_device_ids) for d in assignment.computation_devices]
        partitions, replicas = len(table), assignment.replica_count
        devices = [table[k % partitions][k // partitions] for k in range(partitions * replicas)]
        for op, instruction, _ in collective_instructions(module):
            if instruction.source_target_pairs:
                pairs = [(p.source, p.target) for p in instruction.source_target_pairs]
                repeat = replicas if instruction.channel_id else partitions
                step = partitions if instruction.channel_id else 1
                scale = 1 if instruction.channel_id else partitions
                members = [
                    [k * scale + r * step for k in chain]
                    for r in range(repeat)
                    for chain in components(pairs)
                ]
            else:
                members = expand(instruction, replicas, partitions)
            if (number, op) in groups:
                found.add((number, op))
                assert groups[number, op] == {tuple(devices[k] for k in m) for m in members}
    ran = {(n, op) for n, op in groups if n in decoded.modules}
    assert found == ran


@check
def payloads_are_what_the_shapes_say(written):
    _run, decoded, expected = written
    sizes = {
        (row["program_id"], row["op"]): row["payload_bytes"]
        for row in expected["collective_bandwidth"]
        if row["participants_seen"] == row["group_size"]  # else a permute's senders may be missing
    }
    for number, module in decoded.modules.items():
        for op, instruction, computation in collective_instructions(module):
            by_id = {i.id: i for i in computation.instructions}
            shapes = [by_id[i].shape for i in instruction.operand_ids]
            if instruction.opcode.startswith("all-gather"):
                result = instruction.shape
                shapes = [result.tuple_shapes[1] if result.tuple_shapes else result]
            if (number, op) in sizes:
                assert sizes[number, op] == shape_bytes(shapes[0])


@check
def bandwidth_times_match_the_events(written):
    """Skew and transfer of every instance, from the events of its members in each step."""
    run, decoded, expected = written
    position = {device: place for place, device in enumerate(run.devices)}
    rows = defaultdict(list)
    for row in expected["collective_bandwidth"]:
        at = row["phase"], row["request"], row["step"]
        rows[row["program_id"], row["op"], row["members"], at].append(
            (row["skew_ps"], row["transfer_ps"])
        )
    found = defaultdict(lambda: defaultdict(list))
    for device in decoded.devices:
        for at, events in steps_of(decoded, device).items():
            for row in meetings(events):
                found[(*row[:2], at)][device].append(row[2:])
    for (program, op, members, at), values in rows.items():
        if at[0] is None:
            continue
        here = found[program, op, at]
        seen = [here[device] for device in members if device in here]
        measured = []
        for parts in zip(*seen, strict=True):
            arrivals, starts, ends = zip(*parts, strict=True)
            together = comparable(run, [position[d] for d in members if d in here])
            if "-start" in op:
                transfer = max(ends) - max(starts) if together else None
            else:
                transfer = min(e - s for s, e in zip(starts, ends, strict=True))
            skew = max(arrivals) - min(arrivals) if len(seen) > 1 and together else None
            measured.append((skew, transfer))
        assert Counter(measured) == Counter(values)


@check
def latency_matches_markers_and_ops(written):
    run, decoded, expected = written
    starts = {e.stats["request"]: e.start for e in decoded.host if e.name == "xlahouse.prefill"}
    if not starts:
        return  # without markers there is no TTFT
    ends = defaultdict(int)
    for device in decoded.devices:
        for (label, *key), events in steps_of(decoded, device).items():
            if label != "warmup":
                ends[tuple(key)] = max(ends[tuple(key)], *(e.end for e in events))
    for row in expected["latency"]:
        request, last = row["request"], run.output_tokens - 1
        first = ends[request, 0]
        assert row["ttft_s"] == pytest.approx((first - starts[request]) * 1e-12, rel=1e-12)
        if last:
            tpot = (ends[request, last] - first) / last * 1e-12
            assert row["tpot_s"] == pytest.approx(tpot, rel=1e-12)
        else:
            assert row["tpot_s"] is None


@check
def every_program_of_the_schedule_is_there(written):
    run, decoded, _ = written
    ours = {
        times.program.id
        for times in schedule(run)
        if any(run.traced(p) for p in times.program.positions)
    }
    assert ours | set(decoded.modules) == set(decoded.modules)


@pytest.mark.parametrize("name", first_few(RUNS, 12))
def test_files_hold_what_the_closed_forms_say(name, tmp_path):
    run = RUNS[name]
    written = run, decode(write_run(run, tmp_path)), answers(run)
    check_each("checks", {each: partial(check, written) for each, check in CHECKS.items()})


# Public views whose answer has another name, or stands elsewhere.
ELSEWHERE = {
    "run_mesh": "coordinates: end_to_end/test_structure.py, test_coordinates",
    "layer_breakdown": "layer_time and category_time",
    "module_breakdown": "module_launches",
    "ccl_legacy": "their definitions over the exported JSON: tests/sql/export/ccl_naive.py",
    **dict.fromkeys(
        ("serving_step", "serving_batch", "serving_summary", "interference"),
        "runs of servers: test_server.py, and tests/views/oracle/serving.py",
    ),
    "op_diff": "two runs: tests/views/test_op_diff.py",
    "traffic_compatibility": "two runs: its cases, and tests/views/oracle",
    **dict.fromkeys(
        ("predicted_step", "prediction_error"),
        "predicted and measured runs: their cases, and tests/views/oracle/predictions.py",
    ),
    **dict.fromkeys(("setup_summary", "run_comparison", "scaling"), "several runs: answers_runs"),
}


def test_every_view_has_a_closed_form():
    known = set(answers(CASES["tp4"])) | set(ELSEWHERE)
    assert {view.name.rpartition("_v")[0] for view in shipped().public} <= known
