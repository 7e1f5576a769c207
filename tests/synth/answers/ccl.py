"""The answer of ccl_bench: each metric as its note defines it, from the other answers and the simulation."""

from __future__ import annotations

from collections import defaultdict
from statistics import fmean, median

from tests.synth.answers.efficiency import executed
from tests.synth.answers.links import union
from tests.synth.answers.profile import self_ps
from tests.synth.answers.time import ran, step_time
from tests.synth.answers.traffic import together
from tests.synth.describe import WARMUP, Run
from tests.synth.device import HLO_CATEGORIES
from tests.synth.lower import lower
from tests.synth.programs import extra_program
from tests.synth.summaries import comm_compute, middle
from tests.synth.timeline import ASYNC, TRACE_ME, simulate
from tests.synth.times import latency
from tests.synth.traffic import Row, collective_bandwidth, traffic_volume

NAMES = {
    "all-reduce": "allreduce",
    "all-gather": "allgather",
    "reduce-scatter": "reducescatter",
    "all-to-all": "alltoall",
}


def _measured(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["phase"] != WARMUP]


def ccl_bench(run: Run) -> list[Row]:
    """Rows of ccl_bench_v2."""
    values = {**_latencies(run), **_shares(run), **_volumes(run), **_bandwidths(run)}
    values["average_memory_bandwidth"] = _copied(run)
    values["dominant_kernel_concentration"] = _dominant(run)
    return [{"metric": metric, "value": value} for metric, value in values.items()]


def _latencies(run: Run) -> dict[str, float | None]:
    windows = [row["longest_window_ps"] for row in _measured(step_time(run))]
    return {
        "avg_step_time": fmean(windows) / 1e12,
        "ttft": middle(row["ttft_s"] for row in latency(run)),
        "tpot": middle(row["tpot_s"] for row in latency(run)),
    }


def _shares(run: Run) -> dict[str, float | None]:
    phases = _measured(comm_compute(run))

    def total(name: str) -> int:
        return sum(row[f"{name}_ps"] for row in phases)

    moving, steps = total("collective"), sum(row["device_steps"] for row in phases)
    return {
        "mfu": None,  # of an architecture without a name
        "communication_fraction": 100 * moving / total("window"),
        "compute_comm_overlap": 100 * total("overlapped") / moving if moving else None,
        "memory_transfer_overhead": 100 * total("exposed_copy") / total("window"),
        "total_communication_time": moving / 1e12 / steps,
    }


def _volumes(run: Run) -> dict[str, float]:
    sums: dict[str, int] = defaultdict(int)
    for row in _measured(traffic_volume(run)):
        sums[row["kind"]] += row["payload_bytes"]
    found = {f"collective_vol_{short}_gb": sums[kind] / 1e9 for kind, short in NAMES.items()}
    return found | {"collective_vol_total_gb": sum(sums.values()) / 1e9}


def _bandwidths(run: Run) -> dict[str, float | None]:
    rates = together(
        (
            r
            for r in _measured(collective_bandwidth(run))
            if r["group_size"] > 1 and not r["is_bound"]
        ),
        lambda row: row["kind"],
    )
    found = {}
    for kind, short in NAMES.items():
        speeds = [row["busbw_bytes_per_s"] for row in rates[kind]]
        name = f"bandwidth_utilization_{short}_group_6"
        found[name] = median(speeds) / 1e9 if speeds else None
    return found


def _copied(run: Run) -> float | None:
    """Bytes of a copy's start, its operand and its result tuple, over the time with a copy in flight."""
    total, spans = 0, defaultdict(list)
    for each in ran(run):
        if each.label == WARMUP or each.index is None:
            continue
        ops = lower(run, each.program).ops
        for event in simulate(run, each.program)[each.position]:
            if event.line == ASYNC:
                start = ops[event.op]
                total += start.shape.bytes + sum(o.shape.bytes for o in start.operands)
                begin = each.base + event.start
                spans[each.position].append((begin, begin + event.duration))
    time = sum(union(ours) for ours in spans.values())
    return total / time * 1000 if time else None


def _dominant(run: Run) -> float:
    """The largest category's share of the self time, waits aside."""
    sums: dict[str, int] = defaultdict(int)
    for each in executed(run):
        if each.times.label == WARMUP or each.event.line == TRACE_ME:
            continue
        instruction = lower(run, each.times.program).ops[each.event.op]
        category = HLO_CATEGORIES.get(instruction.opcode, instruction.opcode)
        if instruction.calls.startswith("all-reduce-scatter"):
            category = "all-reduce-scatter fusion"
        sums[category] += each.count * self_ps(run, each)
    if (
        run.markers
    ):  # what runs outside them is not a step, but a kernel; without, the loop above has it
        (only,) = simulate(run, extra_program(run))[run.positions[0]]
        sums["loop fusion"] += run.extra_launches * only.duration
    return 100 * max(sums.values()) / sum(sums.values())
