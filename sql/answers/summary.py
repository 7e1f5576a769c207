"""What a run's steps spend their time on, its latencies, and what to change: from views alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xlahouse.capture.commands import STATE_MESH, shown, with_mesh
from xlahouse.capture.words import plural
from xlahouse.sql.answers.compiled import NOTHING_RAN, compiled_verdict
from xlahouse.sql.answers.data import DataFinding, data_findings
from xlahouse.sql.answers.evidence import evidence
from xlahouse.sql.answers.lagging import Lagging, most_lagging
from xlahouse.sql.answers.launched import describe, launched
from xlahouse.sql.answers.losses import COMPUTE, COMPUTE_LEVER, COMPUTE_VIEW, LOSSES
from xlahouse.sql.answers.memory import Memory, most_memory
from xlahouse.sql.answers.pipeline import Pipeline, pipeline_cost
from xlahouse.sql.answers.source import Source
from xlahouse.sql.answers.split import (
    AXES_SQL,
    PREFILL_SQL,
    PREFILL_WAITS_SQL,
    TIME_SQL,
    WAITS_SQL,
    Axes,
    Part,
    Split,
    split_prefill,
    split_time,
    without_waits,
)
from xlahouse.sql.answers.words import called, duration, mean_step, percent

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse

MOST_FINDINGS = 3
LEAST_SHARE = 0.05  # of a step's time: less is not worth a finding
# Views that several of the queries, or views below them, read, and that have few rows: computed once.
SUMMARY_VIEWS = (
    "_apart_clock_v1",
    "_between_steps_v2",
    "_compile_v1",
    "_marked_latency_v1",
    "_mesh_axis_v1",
    "_mesh_state_v1",
    "_no_request_v1",
    "_request_clock_v1",
    "_run_key_v1",
    "_run_latency_v2",
    "_step_clock_v1",
    "_step_period_v1",
    "_step_window_v1",
    "_unknown_open_time_v1",
    "comm_compute_v2",
    "device_time_v1",
    "exposed_collective_v1",
    "latency_v3",
    "run_mesh_v1",
    "step_latency_v1",
)
PHASES = ("decode", "step", "mixed", "prefill", None)  # the first that the run has is taken apart

_RUN = """
select s.run_id, s.name, s.model, s.parallelism, s.dtype, s.batch_size, s.device_kind, s.device_count,
    s.expected_device_count, s.status, s.inferred, s.mesh_problem, s.collectives, s.requests,
    s.excluded_requests, s.output_tokens, s.ttft_s, s.tpot_s, r.source, r.parent_run_id, r.change
from run_summary_v2 as s inner join runs as r on r.run_id = s.run_id where s.run_id = $run
"""
_REASONS = "select distinct reason from latency_v3 where run_id = $run and reason is not null"
_IS_SERVER = "select 1 as found from phases where run_id = $run and source = 'server' limit 1"
_SERVED = """
select p50_ttft_s as ttft_s, ttft_count, p50_tpot_s as tpot_s, tpot_count
from serving_summary_v1 where run_id = $run
"""


@dataclass(frozen=True)
class Latency:
    """A latency in seconds, the median over n requests; None with the reason."""

    value_s: float | None  # the median
    n: int  # requests
    why: str | None  # why it is not known; None where it is


@dataclass(frozen=True)
class Finding:
    """Something that takes a share of the time of steps, its proof, and what makes it less."""

    text: str  # a sentence
    share: float  # of the time of steps, 0 to 1
    why: str  # what is behind it; empty where the views say no more
    lever: str  # what makes it less
    view: str  # that has its numbers
    page: str  # of a report, with the chart that shows it
    panel: str  # the chart's place on the page


@dataclass(frozen=True)
class Summary:
    """The answer about one run."""

    run_id: str  # the run's id
    name: str | None  # None without a name
    setup: dict[str, Any]  # column of runs -> its value
    coverage: str  # a sentence: what the answer rests on
    verdict: str  # the answer in one sentence
    split: Split | None  # of the decode steps, or of the phase in their place
    why_no_split: str | None  # None where there is one
    prefill: Split | None  # from its marker
    why_no_prefill: str | None  # None where there is one
    ttft: Latency  # time to first token
    tpot: Latency  # time per output token
    memory: Memory | None  # None: neither an allocator nor a program says it
    lagging: Lagging | None  # None: no arrivals of devices can be compared
    pipeline: Pipeline | None  # of the split's steps; None without stages
    findings: tuple[Finding, ...]  # the steps' largest first, three at most
    data: tuple[DataFinding, ...]  # the worst first
    notes: tuple[str, ...]  # a sentence each


def summarize(warehouse: Warehouse, run: str) -> Summary:
    """The summary of a run, named by id, prefix or name.

    Raises:
        WarehouseError: there is no such run.
    """
    run_id = warehouse.resolve_run(run)
    with warehouse.of_run(run_id, SUMMARY_VIEWS) as one_run:
        return summarize_run(one_run, run_id)


def summarize_run(source: Source, run_id: str) -> Summary:
    """The summary of a run, by its id; pages and commands have the same."""
    given = {"run": run_id}
    row = source.query(_RUN, given).dicts()[0]
    times = {found["phase"]: found for found in source.query(TIME_SQL, given).dicts()}
    phase = next((name for name in PHASES if name in times), None)
    predicted = row["source"] == "predicted"
    programs = launched(source, run_id) if phase == "step" else []
    split = None
    if phase in times:
        waits = WAITS_SQL if predicted else None
        apart = _apart(source, run_id, phase, times[phase], waits)
        split = split_time(*apart, max(len(programs), 1))
    [prefills] = source.query(PREFILL_SQL, given).dicts()
    waits = PREFILL_WAITS_SQL if predicted else None
    prefill = split_prefill(*_apart(source, run_id, "prefill", prefills, waits))
    reasons = "; ".join(sorted(found["reason"] for found in source.query(_REASONS, given).dicts()))
    is_server = source.query(_IS_SERVER, given).dicts()
    served = source.query(_SERVED, given).dicts()[0] if is_server else {}

    def behind(of: Split, part: Part) -> str:
        return evidence(source, run_id, of, part)

    findings = find_losses(split, prefill, behind) if split else ()
    why = None if split else _why_no_split(row, set(times))
    return Summary(
        row["run_id"],
        row["name"],
        {
            name: row[name]
            for name in ("model", "parallelism", "dtype", "batch_size", "device_kind")
        },
        _coverage(row, split),
        verdict(split, findings) if split else compiled_verdict(source, row, why),
        split,
        why,
        prefill,
        None if prefill else reasons or _why_no_latency(row, "ttft_s"),
        _of_server(served, "ttft") or _latency(row, "ttft_s", reasons),
        _of_server(served, "tpot") or _latency(row, "tpot_s", reasons),
        most_memory(source, run_id),
        most_lagging(source, run_id),
        pipeline_cost(source, run_id, phase) if split else None,
        findings,
        data_findings(source, run_id, row["name"] or run_id),
        _notes(row, _about(phase, programs), split, prefill, source.root),
    )


def _apart(
    source: Source, run_id: str, phase: str | None, times: Mapping[str, Any], waits: str | None
) -> tuple[dict[str, Any], Axes]:
    """(times, axes) of a phase, the waits for circuits apart."""
    axes = _axes(source, run_id, phase)
    given = {"run": run_id, "phase": phase}
    return without_waits(times, axes, source.query(waits, given).dicts() if waits else ())


def _axes(source: Source, run_id: str, phase: str | None) -> list[tuple[str | None, float]]:
    rows = source.query(AXES_SQL, {"run": run_id, "phase": phase}).dicts()
    return [(row["axis"], row["exposed_ps"]) for row in rows]


def _nothing(split: Split, part: Part) -> str:
    return ""


def find_losses(
    split: Split, prefill: Split | None = None, behind: Callable[[Split, Part], str] = _nothing
) -> tuple[Finding, ...]:
    """The largest parts of steps and prefills that are not compute: the steps' largest first, at most three.

    Args:
        split: of the steps.
        prefill: from its marker.
        behind: says more about a part of a split.
    """
    lost = [(split, part) for part in _losses(split)]
    rest = lost[1:]
    if prefill is not None and split.phase != "prefill":
        rest += [(prefill, part) for part in _losses(prefill)]
    lost = lost[:1] + sorted(rest, key=lambda each: -each[1].time_ps)
    return tuple(_finding(of, part, behind(of, part)) for of, part in lost[:MOST_FINDINGS])


def _losses(split: Split) -> list[Part]:
    lost = [part for part in split.parts if part.name != COMPUTE and part.share >= LEAST_SHARE]
    return sorted(lost, key=lambda part: -part.time_ps)


def _finding(split: Split, part: Part, why: str) -> Finding:
    loss = LOSSES[part.name]
    text = (
        f"{percent(part.share)} of {mean_step(split)} is {called(part)}: {duration(part.mean_ps)}"
    )
    text = f"{text}; {why}" if why else text
    return Finding(text, part.share, why, loss.lever, loss.view, loss.page, loss.panel)


def verdict(split: Split, findings: tuple[Finding, ...]) -> str:
    """One sentence: what most of a step's time is, and what is behind it."""
    most = max(split.parts, key=lambda part: part.time_ps)
    said = f"{percent(most.share)} of {mean_step(split)} is {called(most)}"
    if most.name != COMPUTE:
        why = findings[0].why if findings else ""
        return f"{said}: {why or LOSSES[most.name].lever}."
    lost = _losses(split)
    if lost:
        return f"{said}; the largest loss is {called(lost[0])}, {percent(lost[0].share)}."
    return (
        f"{said}, no loss is above {percent(LEAST_SHARE)}: {COMPUTE_LEVER} (view {COMPUTE_VIEW})."
    )


def _of_server(served: dict[str, Any], name: str) -> Latency | None:
    """A latency of a server's requests, where it is known of any."""
    value = served.get(f"{name}_s")
    return None if value is None else Latency(value, served[f"{name}_count"], None)


def _latency(row: dict[str, Any], name: str, reasons: str) -> Latency:
    value, n = row[name], row["requests"] or 0
    if value is not None:
        return Latency(value, n, None)
    return Latency(None, n, reasons or _why_no_latency(row, name))


def _why_no_latency(row: dict[str, Any], name: str) -> str:
    if row["source"] == "compiled":
        return NOTHING_RAN
    if not row["device_count"]:
        return "no device events in the trace"
    if name == "tpot_s" and row["output_tokens"] == 1:
        return "one output token: no time between tokens"
    if row["excluded_requests"]:
        return "every request was a warm-up or had a compile"
    return "no markers of requests in the trace"


def _why_no_split(row: dict[str, Any], phases: set[str | None]) -> str:
    if row["source"] == "compiled":
        return NOTHING_RAN
    if not row["device_count"]:
        return "no device events in the trace"
    if phases:
        return f"all its steps are of the phases {', '.join(sorted(map(str, phases)))}"
    return "no ops on its devices in the trace"


def _about(phase: str | None, programs: list[dict[str, Any]]) -> str | None:
    """What the steps are that the summary is about; None where they are decode steps."""
    if phase == "decode":
        return None
    if phase is None:
        return "this is about all time on devices"
    return (
        describe(programs)
        or f"this is about {'steps of any phase' if phase == 'step' else f'{phase} steps'}"
    )


def _coverage(row: dict[str, Any], split: Split | None) -> str:
    known = row["expected_device_count"]
    of = f" of {known:,}" if known else ""
    if row["source"] == "compiled":
        return f"compiled for {plural(known or 0, 'device')}, status {row['status'] or 'unknown'}"
    steps = f"; {plural(split.device_steps, 'device step')}" if split else ""
    traced = f"{row['device_count'] or 0:,}{of} device{'' if (known or row['device_count']) == 1 else 's'}"
    return f"{traced} traced, status {row['status'] or 'unknown'}{steps}"


def _notes(
    row: dict[str, Any], about: str | None, split: Split | None, prefill: Split | None, root: str
) -> tuple[str, ...]:
    found = []
    if row["source"] == "predicted":
        replayed = f"run {row['parent_run_id']} replayed with {row['change']}"
        found.append(f"predicted: {replayed}; no time of it was measured")
    if row["inferred"]:
        found.append(
            "virtual or deduced devices: the structure is real, times are not an accelerator's"
        )
    if split and about:
        found.append(f"no decode steps are known: {about}")
    if split and split.why:
        found.append(split.why)
    if prefill and prefill.why and not (split and split.why == prefill.why):
        found.append(f"of a prefill: {prefill.why}")
    if row["mesh_problem"] and row["collectives"] != 0:
        devices = row["expected_device_count"] or row["device_count"]
        state = shown(with_mesh(STATE_MESH, devices), row["name"] or row["run_id"], root)
        found.append(f"axes of collectives are not known: {row['mesh_problem']}; {state}")
    return tuple(found)
