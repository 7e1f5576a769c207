"""What a run's steps spend their time on, its latencies, and what to change: from views alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xlahouse.sql.answers.losses import COMPUTE, COMPUTE_LEVER, COMPUTE_VIEW, LOSSES

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse

MOST_FINDINGS = 3
LEAST_SHARE = 0.05  # of a step's time: less is not worth a finding
PHASES = ("decode", "step", "mixed", "prefill", None)  # the first that the run has is taken apart
SPLIT = ("exposed_copy", "sync_wait", "idle", "between_steps", "outside")

_RUN = "from run_summary_v2 where run_id = $run"
_TIME = "from comm_compute_v2 where run_id = $run"
_AXES = """
select axis, sum(exposed_ps) as exposed_ps from exposed_collective_v1
where run_id = $run and phase is not distinct from $phase
group by axis order by exposed_ps desc, axis
"""
_REASONS = "select distinct reason from latency_v2 where run_id = $run and reason is not null"
_ISSUES = """
select severity, code, message, cast(sum(count) as bigint) as count from issues
where run_id = $run and severity in ('error', 'warning')
group by severity, code, message order by severity, code, message
"""


@dataclass(frozen=True)
class Part:
    """A part of the time of a phase's steps, summed over devices and steps."""

    name: str  # compute, exposed, exposed_copy, sync_wait, idle, between_steps, outside or unsplit
    axis: str | None  # of exposed communication
    time_ps: int
    mean_ps: float  # per step of a device
    share: float  # of the whole, 0 to 1


@dataclass(frozen=True)
class Split:
    """Where the time of a phase's steps goes; the parts add up to the whole.

    Attributes:
        phase: of the steps; None: of all windows, where no phase is known.
        whole: `period`, or `window` where periods are not known.
        why: what the parts cannot say; None where they say all.
    """

    phase: str | None
    whole: str
    device_steps: int
    devices: int
    time_ps: int
    mean_ps: float
    parts: tuple[Part, ...]
    why: str | None


@dataclass(frozen=True)
class Latency:
    """A latency in seconds, the median over n requests; None with the reason."""

    value_s: float | None
    n: int
    why: str | None


@dataclass(frozen=True)
class Finding:
    """Something that takes a share of the time of steps, and what makes it less."""

    text: str
    share: float
    lever: str
    view: str


@dataclass(frozen=True)
class DataFinding:
    """Something wrong or unknown in the run's data."""

    severity: str
    code: str
    message: str
    count: int


@dataclass(frozen=True)
class Summary:
    """The answer about one run."""

    run_id: str
    name: str | None
    setup: dict[str, Any]
    coverage: str
    verdict: str
    split: Split | None
    why_no_split: str | None
    ttft: Latency
    tpot: Latency
    findings: tuple[Finding, ...]
    data: tuple[DataFinding, ...]
    notes: tuple[str, ...]


def summarize(warehouse: Warehouse, run: str) -> Summary:
    """The summary of a run, named by id, prefix or name.

    Raises:
        WarehouseError: there is no such run.
    """
    given = {"run": warehouse.resolve_run(run)}
    row = warehouse.query(_RUN, given).dicts()[0]
    times = {found["phase"]: found for found in warehouse.query(_TIME, given).dicts()}
    phase = next((name for name in PHASES if name in times), None)
    split = None
    if phase in times:
        axes = warehouse.query(_AXES, {**given, "phase": phase}).rows
        split = split_time(times[phase], axes)
    reasons = "; ".join(sorted(reason for (reason,) in warehouse.query(_REASONS, given).rows))
    data = tuple(DataFinding(**found) for found in warehouse.query(_ISSUES, given).dicts())
    findings = find_losses(split) if split else ()
    why = None if split else _why_no_split(row, set(times))
    return Summary(
        row["run_id"],
        row["name"],
        {
            name: row[name]
            for name in ("model", "parallelism", "dtype", "batch_size", "device_kind")
        },
        _coverage(row, split),
        verdict(split, findings) if split else f"No verdict: {why}.",
        split,
        why,
        _latency(row, "ttft_s", reasons),
        _latency(row, "tpot_s", reasons),
        findings,
        data,
        _notes(row, phase, split),
    )


def split_time(row: dict[str, Any], axes: list[tuple[Any, ...]]) -> Split:
    """The parts of a phase's time.

    Args:
        row: of comm_compute.
        axes: (axis, exposed_ps) of the phase, from exposed_collective.
    """
    steps, whole = row["device_steps"], "period" if row["period_ps"] is not None else "window"
    time_ps = row[f"{whole}_ps"]
    known = {name: row[f"{name}_ps"] for name in SPLIT if row[f"{name}_ps"] is not None}
    why = []
    if whole == "window":
        why.append(
            "periods are not known: the clocks of hosts and devices cannot be compared, so time between "
            "steps is left out"
        )
        known = {name: known[name] for name in SPLIT[:3]}
    amounts: list[tuple[str, str | None, int]] = []
    if row["compute_ps"] is None:
        why.append(
            "kernels communicate while they compute, and the trace does not divide their time"
        )
        amounts.append(("unsplit", None, time_ps - sum(known.values())))
    else:
        amounts.append((COMPUTE, None, row["compute_ps"]))
        amounts += [
            ("exposed", axis, part) for axis, part in _whole_numbers(axes, row["exposed_ps"])
        ]
    amounts += [(name, None, amount) for name, amount in known.items()]
    parts = tuple(
        Part(name, axis, amount, amount / steps, amount / time_ps if time_ps else 0.0)
        for name, axis, amount in amounts
    )
    return Split(
        row["phase"],
        whole,
        steps,
        row["devices"],
        time_ps,
        time_ps / steps,
        parts,
        "; ".join(why) or None,
    )


def _whole_numbers(axes: list[tuple[Any, ...]], total: int) -> list[tuple[str | None, int]]:
    """Exposed time by axis in whole ps, which add up; the largest takes what rounding leaves."""
    found = [(axis, round(amount)) for axis, amount in axes]
    left = total - sum(amount for _, amount in found)
    if not found:
        return [(None, total)] if total else []
    (axis, most), *rest = found
    return [(axis, most + left), *rest]


def find_losses(split: Split) -> tuple[Finding, ...]:
    """The largest parts that are not compute, each with its share and lever; at most three."""
    lost = [part for part in split.parts if part.name != COMPUTE and part.share >= LEAST_SHARE]
    lost.sort(key=lambda part: -part.time_ps)
    return tuple(
        Finding(
            f"{_percent(part.share)} of {_mean_step(split)} is {_called(part)}: {_duration(part.mean_ps)}",
            part.share,
            LOSSES[part.name].lever,
            LOSSES[part.name].view,
        )
        for part in lost[:MOST_FINDINGS]
    )


def verdict(split: Split, findings: tuple[Finding, ...]) -> str:
    """One sentence: what most of a step's time is."""
    most = max(split.parts, key=lambda part: part.time_ps)
    said = f"{_percent(most.share)} of {_mean_step(split)} is {_called(most)}"
    if most.name != COMPUTE:
        return f"{said}: {LOSSES[most.name].lever}."
    if findings:
        return f"{said}; the largest loss: {findings[0].text}."
    return (
        f"{said}, no loss is above {_percent(LEAST_SHARE)}: {COMPUTE_LEVER} (view {COMPUTE_VIEW})."
    )


def _mean_step(split: Split) -> str:
    """Such as `the mean decode step's 12.3 ms`."""
    kind = "" if split.phase in (None, "step") else f"{split.phase} "
    return f"the mean {kind}step's {_duration(split.mean_ps)}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _called(part: Part) -> str:
    if part.name == COMPUTE:
        return COMPUTE
    unknown = part.axis in (None, "unclassified")
    along = "" if unknown and part.name != "exposed" else f" along {part.axis}"
    along = " along an axis that is not known" if unknown and along else along
    return f"{LOSSES[part.name].called}{along}"


def _duration(time_ps: float) -> str:
    for unit, factor in (("s", 1e12), ("ms", 1e9), ("us", 1e6)):
        if time_ps >= factor:
            return f"{time_ps / factor:.3g} {unit}"
    return f"{time_ps / 1e3:.3g} ns"


def _latency(row: dict[str, Any], name: str, reasons: str) -> Latency:
    value, n = row[name], row["requests"] or 0
    if value is not None:
        return Latency(value, n, None)
    return Latency(None, n, reasons or _why_no_latency(row, name))


def _why_no_latency(row: dict[str, Any], name: str) -> str:
    if not row["device_count"]:
        return "no device events in the trace"
    if name == "tpot_s" and row["output_tokens"] == 1:
        return "one output token: no time between tokens"
    if row["excluded_requests"]:
        return "every request was a warm-up or had a compile"
    return "no markers of requests in the trace"


def _why_no_split(row: dict[str, Any], phases: set[str | None]) -> str:
    if not row["device_count"]:
        return "no device events in the trace"
    if phases:
        return f"all its steps are of the phases {', '.join(sorted(map(str, phases)))}"
    return "no ops on its devices in the trace"


def _about(phase: str | None) -> str:
    return {None: "all time on devices", "step": "steps of any phase"}.get(phase, f"{phase} steps")


def _coverage(row: dict[str, Any], split: Split | None) -> str:
    known = row["expected_device_count"]
    of = f" of {known:,}" if known else ""
    steps = f"; {split.device_steps:,} steps on {split.devices:,} devices" if split else ""
    return f"{row['device_count'] or 0:,}{of} devices traced, status {row['status'] or 'unknown'}{steps}"


def _notes(row: dict[str, Any], phase: str | None, split: Split | None) -> tuple[str, ...]:
    found = []
    if row["inferred"]:
        found.append(
            "virtual or deduced devices: the structure is real, times are not an accelerator's"
        )
    if split and phase != "decode":
        found.append(f"no decode steps are known: this is about {_about(phase)}")
    if split and split.why:
        found.append(split.why)
    if row["mesh_problem"]:
        found.append(f"axes of collectives are not known: {row['mesh_problem']}")
    return tuple(found)
