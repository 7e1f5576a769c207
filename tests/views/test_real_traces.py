"""Views on real traces against plain loops over their tables: an instant, a transfer at a time."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest

from xlahouse.sql import Warehouse

SAMPLES = [
    "tpu/v6e_4dev_jax_psum_offload.xplane.pb",
    "tpu/vllm_qwen3_tp2.trace.json.gz",
    "cpu/torch_xla_mlp_4dev.xplane.pb",
    "gpu/mi300_jax_conv.xplane.pb",
    "gpu/mi300_jax_gemm.xplane.pb",
    "kineto/sampled_rank1.json.gz",
]
COMPUTE, TRANSFER, COPY, WAIT, IDLE = range(5)  # an instant belongs to the first that applies
CLASSES = {"compute": COMPUTE, "collective": TRANSFER, "copy": COPY, "host_transfer": COPY}
SHARES = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1, "all-to-all": 1}
PARTS = ("compute_ps", "exposed_ps", "exposed_copy_ps", "sync_wait_ps", "idle_ps")


@pytest.fixture(scope="module", params=SAMPLES)
def warehouse(request, sample_warehouse):
    with Warehouse(str(sample_warehouse(request.param))) as opened:
        yield opened


def split(spans, begin, end):
    """Time of each class between two instants: the least class that runs at each owns it."""
    changes = [(begin, 0, IDLE), (end, 0, IDLE)]
    for start, stop, kind in spans:
        start, stop = max(start, begin), min(stop, end)
        if start < stop:
            changes += [(start, 1, kind), (stop, -1, kind)]
    running, parts = [0] * IDLE + [1], [0] * (IDLE + 1)
    for (at, change, kind), (following, _, _) in pairwise(sorted(changes)):
        running[kind] += change
        parts[next(k for k, count in enumerate(running) if count)] += following - at
    return parts


def steps(warehouse):
    """(device, request, step) -> what runs in it as (start, end, class), None for no class."""
    found, others = defaultdict(list), defaultdict(list)
    rows = warehouse.query(
        "select device_id, request, step, category, op, start_ps, start_ps + duration_ps as end_ps"
        " from ops where category <> 'control' and line is distinct from 'Async XLA Ops'"
        " union all select device_id, request, step, 'flight', op, start_ps, start_ps + duration_ps"
        " from collectives"
    ).rows
    for device, request, step, category, op, start, end in rows:
        kind = CLASSES.get(category, WAIT if op == "barrier-cores" else None)
        kind = TRANSFER if category == "flight" else kind
        target = others if step is None else found
        target[device, request, step].append((start, end, kind, category))
    stepped = {device for device, _, _ in found}
    return found | {key: spans for key, spans in others.items() if key[0] not in stepped}


def test_time_split(warehouse):
    expected, lines = {}, defaultdict(list)
    for key, spans in steps(warehouse).items():
        ops = [(start, end) for start, end, _, category in spans if category != "flight"]
        first, last = min(start for start, _ in ops), max(end for _, end in ops)
        lines[key[0]].append(
            (first, last, key, [span[:3] for span in spans if span[2] is not None])
        )
    for line in lines.values():
        line.sort(key=lambda entry: entry[:2])
        ends = [min(ours[1], after[0]) for ours, after in pairwise(line)] + [line[-1][1]]
        for (first, _, key, spans), end in zip(line, ends, strict=True):
            expected[key] = (end - first, *split(spans, first, end))
    rows = warehouse.query(
        f"select device_id, request, step, window_ps, {', '.join(PARTS)} from device_time_v1"
    ).rows
    assert expected
    assert {row[:3]: row[3:] for row in rows} == expected


def test_traffic(warehouse):
    """Bytes by device and kind; a kind with a collective of unknown bytes has none."""
    expected = defaultdict(lambda: [0, 0, 0.0])
    for device, kind, size, group in warehouse.query(
        "select device_id, kind, payload_bytes, group_size from collectives"
    ).rows:
        total = expected[device, kind]
        total[0] += 1
        unknown = size is None or group is None or kind not in SHARES
        total[1] = None if unknown or total[1] is None else total[1] + size
        sent = None if unknown else SHARES[kind] * size * (group - 1) / group
        total[2] = None if sent is None or total[2] is None else total[2] + sent
    found = warehouse.query(
        "select device_id, kind, cast(sum(collectives) as bigint),"
        " case when count(wire_bytes) = count(*) then cast(sum(payload_bytes) as bigint) end,"
        " case when count(wire_bytes) = count(*) then sum(wire_bytes) end"
        " from traffic_volume_v1 group by device_id, kind"
    ).rows
    known = {row[:2]: list(row[2:]) for row in found}
    assert known == {key: pytest.approx(total) for key, total in expected.items()}


def test_gaps_between_transfers(warehouse):
    lines, expected = defaultdict(list), []
    for device, axis, op, start, length in warehouse.query(
        "select device_id, axis, op, start_ps, duration_ps from traffic_interval_v1"
    ).rows:
        lines[device, axis].append((start, start + length, op))
    for line in lines.values():
        line.sort()
        reached = None
        for start, end, _ in line:
            expected.append(None if reached is None else start - reached)
            reached = end if reached is None else max(end, reached)
    found = [gap for (gap,) in warehouse.query("select gap_ps from traffic_interval_v1").rows]
    assert sorted(found, key=str) == sorted(expected, key=str)
    (transfers,) = warehouse.query("select count(*) from collectives").rows[0]
    assert len(found) == transfers


def test_launches_of_vllm_are_steps_and_none_is_a_request(sample_warehouse):
    """The trace has one pass of the engine: four programs on each of two devices, by its own event names."""
    with Warehouse(str(sample_warehouse("tpu/vllm_qwen3_tp2.trace.json.gz"))) as warehouse:
        steps = warehouse.query(
            "select step, module, count(*) from launches group by all order by 1"
        )
        modules = [
            "jit_step_fun",
            "jit__select_from_array_fn",
            "jit_compute_logits_func",
            "jit_sample",
        ]
        assert steps.rows == [(step, module, 2) for step, module in enumerate(modules)]
        (counts,) = warehouse.query(
            "select (select count(request) from launches), (select count(request) from phases), "
            "(select count(*) from step_requests), (select count(*) from serving_step)"
        ).rows
        assert counts == (0, 0, 0, 0)
        latency = warehouse.query("select request, ttft_s, tpot_s, reason from latency").rows
        assert latency == [(None, None, None, "no markers of requests in the trace")]
