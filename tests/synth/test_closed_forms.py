"""The closed forms against the files themselves, measured by brute force on what was written."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from tests.synth.answers import answers
from tests.synth.cases import CASES
from tests.synth.decode import decode
from tests.synth.protos import ELEMENT_BYTES, ELEMENT_TYPES
from tests.synth.walk import schedule
from tests.synth.write import write_run

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


@pytest.fixture(scope="module", params=list(CASES))
def written(request, tmp_path_factory):
    run = CASES[request.param]
    folder = tmp_path_factory.mktemp(run.name)
    return run, decode(write_run(run, folder)), answers(run)


def what(event):
    """The kind of an event for the time split; an async pair is told by its opcode."""
    opcode = re.search(r" ([a-z-]+)\(", event.name)
    opcode = opcode[1] if opcode else event.name
    if opcode.startswith("copy"):
        return "copy"
    if opcode.startswith(("async", *COLLECTIVES)) or "all-reduce-scatter" in event.name:
        return "collective"
    return {"while": "control", "barrier-cores": "sync_wait"}.get(opcode, "compute")


def intervals(events):
    """(start, end, kind) of a step's ops, with each async pair as one interval in flight."""
    starts = {}
    for event in events:
        kind = what(event)
        if event.line == "Async XLA Ops" or kind == "control" or event.name == "dependency-wait":
            continue
        yield event.start, event.end, kind
        if "-start(" in event.name and kind == "collective":
            starts[event.display] = event.start
        elif "-done(" in event.name and kind == "collective":
            yield starts[event.display.replace("done", "start")], event.end, kind


def split(events):
    """The time split by looking at every elementary piece of time."""
    spans = list(intervals(events))
    times = sorted({t for start, end, _ in spans for t in (start, end)})
    sums = Counter()
    for begin, end in pairwise(times):
        here = {kind for start, stop, kind in spans if start <= begin and stop >= end}
        for kind in here:
            sums[kind] += end - begin
        first = next(
            (k for k in ("compute", "collective", "copy", "sync_wait") if k in here), "idle"
        )
        sums[f"only {first}"] += end - begin
        sums["overlapped"] += (end - begin) * ({"compute", "collective"} <= here)
    return {
        "window_ps": times[-1] - times[0],
        "compute_ps": sums["compute"],
        "collective_ps": sums["collective"],
        "overlapped_ps": sums["overlapped"],
        "exposed_ps": sums["only collective"],
        "copy_ps": sums["copy"],
        "exposed_copy_ps": sums["only copy"],
        "sync_wait_ps": sums["only sync_wait"],
        "idle_ps": sums["only idle"],
        "busy_ps": sums["only compute"] + sums["only collective"] + sums["only copy"],
    }


def steps_of(decoded, device):
    """(request, step) -> ops, by the marker around the enqueue of the launch that holds them."""
    markers = [e for e in decoded.host if e.name in ("xlahouse.prefill", "xlahouse.decode")]
    enqueued = {e.stats["_p"]: e.start for e in decoded.host if "_p" in e.stats}
    events = decoded.devices[device]
    found = defaultdict(list)
    for module in (e for e in events if e.line == "XLA Modules"):
        at = enqueued.get(module.stats["_c"])
        marker = next((m for m in markers if at is not None and m.start <= at < m.end), None)
        if marker is not None:
            inside = (e for e in events if module.start <= e.start < module.end)
            ops = [e for e in inside if e.line in ("XLA Ops", "XLA TraceMe")]
            found[marker.stats["request"], marker.stats["step_num"]] += ops
    return found


def test_time_split_matches_every_elementary_piece(written):
    _run, decoded, expected = written
    rows = {(r["device_id"], r["request"], r["step"]): r for r in expected["device_time"]}
    assert len(rows) == len(expected["device_time"])
    assert {key[0] for key in rows} == set(decoded.devices)
    for device in decoded.devices:
        steps = steps_of(decoded, device)
        assert set(steps) == {key[1:] for key in rows if key[0] == device}
        for (request, step), events in steps.items():
            row = rows[device, request, step]
            assert split(events) == {k: v for k, v in row.items() if k.endswith("_ps")}


def test_window_is_the_sum_of_its_parts(written):
    for row in written[2]["device_time"]:
        parts = ("compute", "exposed", "exposed_copy", "sync_wait", "idle")
        assert row["window_ps"] == sum(row[f"{part}_ps"] for part in parts)


def test_matrix_adds_up_to_the_wire(written):
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


def test_row_counts(written):
    _, decoded, expected = written
    for row in expected["row_counts"]:
        events = decoded.devices[row["device_id"]]
        lines = Counter(e.line for e in events)
        ops = sum(lines[name] for name in ("XLA Ops", "Async XLA Ops", "XLA TraceMe", "Steps"))
        starts = [e for e in events if e.line == "XLA Ops" and what(e) == "collective"]
        done = sum("-done(" in e.name for e in starts)
        found = (lines["XLA Modules"], ops, len(starts) - done)
        assert (row["launches"], row["ops"], row["collectives"]) == found


def expand(instruction, replicas, partitions):
    """Flattened ids of each group, in every notation and id mode of the format."""
    listed = instruction.collective_device_list
    if listed.HasField("iota"):
        iota = listed.iota
        order = [0]
        for size in iota.iota_reshape_dims:
            order = [head * size + k for head in order for k in range(size)]
        sizes, perm = list(iota.iota_reshape_dims), list(iota.iota_transpose_perm)
        key = {}
        for flat in order:
            rest, digits = flat, []
            for size in reversed(sizes):
                rest, digit = divmod(rest, size)
                digits.insert(0, digit)
            key[flat] = [digits[k] for k in perm]
        order.sort(key=key.get)
        n = iota.num_devices_per_group
        groups = [order[k : k + n] for k in range(0, len(order), n)]
    else:
        given = listed.replica_groups or instruction.replica_groups
        groups = [list(group.replica_ids) for group in given]
    if instruction.use_global_device_ids:
        return groups
    if not instruction.channel_id:
        groups = groups or [list(range(replicas))]
        return [[r * partitions + p for r in g] for p in range(partitions) for g in groups]
    if instruction.opcode == "all-reduce":
        every = range(partitions)
        return [[r * partitions + p for r in g for p in every] for g in groups or [range(replicas)]]
    groups = groups or [list(range(partitions))]
    return [[r * partitions + p for p in g] for r in range(replicas) for g in groups]


def components(pairs):
    """Chains of a shift's pairs, in the order in which data travels."""
    following = dict(pairs)
    for head in set(following) - set(following.values()):
        chain = [head]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        yield chain


def collective_instructions(module):
    """(traced op, the collective itself, its computation) of each collective of a module."""
    inner = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.opcode.removesuffix("-start") in COLLECTIVES:
                inner[computation.id] = instruction, computation
                yield instruction.name, instruction, computation
    for instruction in module.computations[-1].instructions:
        for called in instruction.called_computation_ids:
            if instruction.opcode in ("fusion", "async-start") and called in inner:
                yield instruction.name, *inner[called]


def test_axes_are_what_the_hlo_says_through_the_device_assignment(written):
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


def shape_bytes(shape):
    types = {number: name for name, number in ELEMENT_TYPES.items()}
    size = ELEMENT_BYTES[types[shape.element_type]]
    for dim in shape.dimensions:
        size *= dim
    return size


def test_payloads_are_what_the_shapes_say(written):
    _run, decoded, expected = written
    sizes = {
        (row["program_id"], row["op"]): row["payload_bytes"]
        for row in expected["collective_bandwidth"]
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


def test_bandwidth_times_match_the_events(written):
    """Skew and transfer of every instance, from the events of its members in each step."""
    _run, decoded, expected = written
    rows = defaultdict(list)
    for row in expected["collective_bandwidth"]:
        key = row["program_id"], row["op"], row["members"], row["request"], row["step"]
        rows[key].append((row["skew_ps"], row["transfer_ps"]))
    found = defaultdict(lambda: defaultdict(list))
    for device in decoded.devices:
        for (request, step), events in steps_of(decoded, device).items():
            for row in meetings(events):
                found[(*row[:2], request, step)][device].append(row[2:])
    for (program, op, members, request, step), values in rows.items():
        if request is None:
            continue
        seen = [found[program, op, request, step][d] for d in members if d in decoded.devices]
        measured = []
        for parts in zip(*seen, strict=True):
            arrivals, starts, ends = zip(*parts, strict=True)
            if "-start" in op:
                transfer = max(ends) - max(starts)
            else:
                transfer = min(e - s for s, e in zip(starts, ends, strict=True))
            skew = max(arrivals) - min(arrivals) if len(seen) > 1 else None
            measured.append((skew, transfer))
        assert Counter(measured) == Counter(values)


def meetings(events):
    """(program, op, arrival, start, end) of each collective among a step's events."""
    events = sorted(events, key=lambda e: (e.start, -e.duration))
    starts, barrier = {}, None
    for event in events:
        if event.name == "barrier-cores":
            barrier = event
        elif event.name == "dependency-wait" or what(event) != "collective":
            barrier = barrier if event.name == "dependency-wait" else None
        elif "-start(" in event.name:
            starts[event.display] = event
        elif "-done(" in event.name:
            start = starts[event.display.replace("done", "start")]
            yield start.stats["program_id"], start.display, start.start, start.start, event.end
        else:
            arrival = barrier.start if barrier else event.start
            yield event.stats["program_id"], event.display, arrival, event.start, event.end
            barrier = None


def test_latency_matches_markers_and_ops(written):
    run, decoded, expected = written
    starts = {e.stats["request"]: e.start for e in decoded.host if e.name == "xlahouse.prefill"}
    ends = defaultdict(int)
    for device in decoded.devices:
        for key, events in steps_of(decoded, device).items():
            ends[key] = max(ends[key], *(e.end for e in events))
    for row in expected["latency"]:
        request, last = row["request"], run.output_tokens - 1
        first = ends[request, 0]
        assert row["ttft_s"] == pytest.approx((first - starts[request]) * 1e-12, rel=1e-12)
        if last:
            tpot = (ends[request, last] - first) / last * 1e-12
            assert row["tpot_s"] == pytest.approx(tpot, rel=1e-12)
        else:
            assert row["tpot_s"] is None


def test_every_program_of_the_schedule_is_there(written):
    run, decoded, _ = written
    ours = {
        times.program.id
        for times in schedule(run)
        if any(run.traced(p) for p in times.program.positions)
    }
    assert ours | set(decoded.modules) == set(decoded.modules)
