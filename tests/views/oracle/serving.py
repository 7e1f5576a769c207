"""METRICS, Serving: steps of servers and the requests in them, drawn into runs without markers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Any

from tests.views.oracle.busy import add_busy_intervals, span
from tests.views.oracle.drawn import Drawn, Row
from tests.views.oracle.hosts import add_host_gaps
from tests.views.oracle.reading import MARKED, Run, grouped, mean, median, rank, ratio, total
from tests.views.oracle.requests import compiling
from tests.views.oracle.split import device_time
from tests.views.oracle.times import draw_run

SECOND = 1e12
PHASES = (*MARKED, "step")


def draw_server(seed: int) -> Drawn | None:
    """A run without markers whose steps are those of a server; None if the seed's run has markers, or
    hosts without a name."""
    run = draw_run(Drawn(Random(seed), f"served {seed}"))
    hosts = {row["device_id"]: row["host"] for row in run.tables["devices"]}
    marks = run.tables.pop("phases", [])
    if None in hosts.values() or not marks or any(row["source"] != "module" for row in marks):
        return None
    rng = Random(seed)
    phase_of = {row["step"]: rng.choice(PHASES) for row in marks}
    for table in ("launches", "ops", "collectives"):
        for row in run.tables.get(table, []):
            if row["step"] is not None:
                row["phase"] = phase_of[row["step"]]
    for mark in marks:
        _draw_step(run, rng, sorted(set(hosts.values())), mark | {"phase": phase_of[mark["step"]]})
    for request in range(rng.randint(0, 5)):
        _draw_request(run, rng, sorted(phase_of), request)
    add_busy_intervals(run)
    add_host_gaps(run)
    run.tables.pop("run_settings", None)
    if rng.random() < 0.7:
        names = rng.sample(("ttft", "tpot"), rng.choice((1, 1, 2)))
        limits = {name: rng.choice((1e-7, 1e-6, 1e-5, 1e-2)) for name in names}
        run.add("run_settings", limits=limits)
    return run


def _draw_step(run: Drawn, rng: Random, hosts: list[str], mark: Row) -> None:
    requests, tokens = rng.randint(1, 3), rng.randint(3, 9)
    least = rng.choice((None, 0, tokens // 2, tokens))
    for host in hosts:
        if host == hosts[0] or rng.random() < 0.7:
            run.add("phases", source="server", host=host, step=mark["step"], phase=mark["phase"],
                    requests=requests, tokens=tokens, least_prompt_tokens=least or 0,
                    most_prompt_tokens=tokens if least is None else least,
                    start_ps=mark["start_ps"] - rng.randint(0, 9),
                    duration_ps=rng.randint(0, 10**6))  # fmt: skip


def _draw_request(run: Drawn, rng: Random, steps: list[int], request: int) -> None:
    seen = sorted(rng.choices(steps, k=3))
    answered = rng.random() < 0.8
    decodes = rng.choice((None, 0, 1, 7))
    run.add("served_requests", request=request, first_step=seen[0], last_step=seen[2],
            token_step=seen[1] if answered else None, is_begun=rng.random() < 0.8,
            is_ended=rng.random() < 0.8, lacks_tokens=rng.random() < 0.1,
            may_skip=rng.random() < 0.1, seen_decode=rng.random() < 0.5,
            decode_steps=seen[2] - seen[1], decode_tokens=decodes,
            output_tokens=None if decodes is None else decodes + 1)  # fmt: skip
    if rng.random() < 0.5:
        start = min(row["start_ps"] for row in run.tables["phases"] if row.get("step") == seen[0])
        run.add("phases", source="marker", host="a", phase="request", request=request,
                start_ps=start - rng.choice((0, 5, 10**6)),
                duration_ps=rng.choice((0, 5, 10**7)))  # fmt: skip


def marked_steps(run: Run) -> list[Row]:
    """Markers of servers' steps."""
    return [row for row in run.rows("phases") if row["source"] == "server"]


def ends(run: Run) -> dict[tuple[Any, int], int]:
    """(host, step) -> end of its last op on a device that is no SparseCore: of ops of passes to their end,
    else of the window."""
    found: dict[tuple[Any, int], int] = {}
    for row in windows(run):
        key, device = row["step"], row["device_id"]
        ours = [
            span(op)[1]
            for op in run.rows("ops")
            if (op["device_id"], op["step"]) == (device, key)
            and op["category"] != "control"
            and op["phase"] in MARKED
        ]
        end = max(ours, default=row["start_ps"] + row["window_ps"])
        place = run.devices[device]["host"], key
        found[place] = max(end, found.get(place, end))
    return found


def windows(run: Run) -> list[Row]:
    """The split of device_time in steps, without SparseCores."""
    rows = [row for row in device_time(run) if row["step"] is not None]
    return [row for row in rows if not run.is_sparse(row["device_id"])]


def sums(run: Run) -> Iterator[Row]:
    """Each host's marker of a step, with sums over its devices."""
    by_place: dict[tuple[Any, Any], list[Row]] = {}
    for row in windows(run):
        place = run.devices[row["device_id"]]["host"], row["step"]
        by_place.setdefault(place, []).append(row)
    late: dict[tuple[Any, Any], int] = {}
    gaps = {(g["device_id"], g["launch"], g["start_ps"]): g for g in run.rows("host_gaps")}
    step_of = {(row["device_id"], row["launch"]): row["step"] for row in run.rows("launches")}
    for (device, launch, _), gap in gaps.items():
        place = run.devices[device]["host"], step_of[device, launch]
        late[place] = late.get(place, 0) + gap["duration_ps"]
    finished = ends(run)
    for mark in marked_steps(run):
        place = mark["host"], mark["step"]
        rows = by_place.get(place, [])
        devices = [run.devices[row["device_id"]] for row in rows]
        virtual = any(each["inferred"] or each["core"] == "cpu" for each in devices)
        names = ("period_ps", "compute_ps", "exposed_ps")
        yield {
            **{name: mark[name] for name in ("host", "step", "phase", "requests", "tokens")},
            **{
                name: mark[name]
                for name in ("least_prompt_tokens", "most_prompt_tokens", "start_ps")
            },
            **{name: total(row[name] for row in rows) for name in names},
            "devices": len(rows) or None,
            "end_ps": finished.get(place),
            "late_ps": late.get(place, 0) if rows and not virtual else None,
        }


def serving_step(run: Run) -> Iterator[Row]:
    """Means over the host's devices."""
    for row in sums(run):
        period, late = (
            ratio(row["period_ps"], row["devices"]),
            ratio(row["late_ps"], row["devices"]),
        )
        names = ("host", "step", "phase", "requests", "tokens", "start_ps", "end_ps")
        yield {
            **{name: row[name] for name in names},
            "period_ps": None if period is None else math.floor(period + 0.5),
            "compute_ratio": ratio(row["compute_ps"], row["period_ps"]),
            "exposed_ratio": ratio(row["exposed_ps"], row["period_ps"]),
            "host_gap_ps": None if late is None else math.floor(late + 0.5),
            "host_gap_ratio": ratio(row["late_ps"], row["period_ps"]),
        }


def passes(run: Run) -> list[Row]:
    """Steps over all hosts that mark them."""
    found = []
    for (step,), rows in grouped(sums(run), "step").items():
        summed = ("period_ps", "compute_ps", "exposed_ps", "late_ps")
        known = [row["end_ps"] for row in rows]
        found.append(
            rows[0]
            | {name: total(row[name] for row in rows) for name in summed}
            | {
                "step": step,
                "start_ps": min(row["start_ps"] for row in rows),
                "end_ps": None if None in known else max(known),
                "devices": sum(row["devices"] or 0 for row in rows),
            }
        )
    for row in found:
        period = ratio(row["period_ps"], row["devices"])
        row["period_s"] = None if period is None else period / SECOND
    return found


def share(rows: list[Row], name: str) -> float | None:
    """A part of the periods, of steps of which it is known."""
    known = [row for row in rows if row[name] is not None]
    return ratio(total(row[name] for row in known), total(row["period_ps"] for row in known))


def serving_batch(run: Run) -> Iterator[Row]:
    """Periods by phase and number of requests."""
    for (phase, requests), rows in grouped(passes(run), "phase", "requests").items():
        known = [row["period_s"] for row in rows if row["period_s"] is not None]
        yield {
            "phase": phase,
            "requests": requests,
            "steps": len(known),
            "lost_steps": len(rows) - len(known),
            "mean_tokens": mean([row["tokens"] for row in rows]),
            "mean_period_s": mean(known),
            "p50_period_s": median(known),
            "p90_period_s": rank(known, 0.9),
            "p99_period_s": rank(known, 0.99),
            "compute_ratio": share(rows, "compute_ps"),
            "exposed_ratio": share(rows, "exposed_ps"),
            "host_gap_ratio": share(rows, "late_ps"),
        }


def interference(run: Run) -> Iterator[Row]:
    """Steps with a prefill against decodes of as many requests."""
    known = [row for row in passes(run) if row["period_s"] is not None]
    both = [row for row in known if row["phase"] in ("decode", "mixed")]
    for (requests,), rows in grouped(both, "requests").items():
        decodes, mixed = ([r for r in rows if r["phase"] == p] for p in ("decode", "mixed"))
        alone, beside = (median([r["period_s"] for r in some]) for some in (decodes, mixed))
        is_paired = alone is not None and beside is not None
        yield {
            "requests": requests,
            "decode_steps": len(decodes),
            "mixed_steps": len(mixed),
            "decode_period_s": alone,
            "mixed_period_s": beside,
            "mixed_tokens": mean([row["tokens"] for row in mixed]),
            "added_s": beside - alone if is_paired else None,
            "slowdown_ratio": ratio(beside, alone) if is_paired else None,
        }


def served_requests(run: Run) -> Iterator[Row]:
    """TTFT, TPOT and queue of each request; during a compile none counts."""
    by_step = grouped(marked_steps(run), "step")
    finished = ends(run)
    start_of = {step: min(row["start_ps"] for row in rows) for (step,), rows in by_step.items()}
    marker_end = {step: max(span(row)[1] for row in rows) for (step,), rows in by_step.items()}
    end_of: dict[Any, Any] = {None: None}
    for (step,), rows in by_step.items():
        known = [finished.get((row["host"], step)) for row in rows]
        end_of[step] = None if None in known else max(known)
    compiles = [piece for pieces in compiling(run).values() for piece in pieces]
    for row in run.rows("served_requests"):
        start, last = start_of[row["first_step"]], end_of[row["last_step"]]
        until = marker_end[row["last_step"]] if last is None else last
        if any(begin < until and end > start for begin, end in compiles):
            continue
        own = [mark for mark in run.rows("phases") if mark["source"] == "marker"]
        own = [span(mark)[0] for mark in own if mark["request"] == row["request"]
               and span(mark)[0] <= start <= span(mark)[1]]  # fmt: skip
        token = end_of[row["token_step"]]
        since = end_of[row["first_step"]] if row["token_step"] is None else token
        first = end_of[row["first_step"]]
        order = [
            time for time in (start, first if token is None else token, last) if time is not None
        ]
        if order != sorted(order):  # the trace has a step end before it begins
            token = since = last = None
        lasted = None if None in (last, since) else (last - since) / SECOND
        waited = (start - own[0]) / SECOND if own else None
        ttft = None if token is None else (token - start) / SECOND
        is_whole = row["is_begun"] and row["is_ended"] and last is not None
        yield {
            "request": row["request"],
            "start_ps": own[0] if own else start,
            "end_ps": last,
            "queue_s": waited,
            "ttft_s": ttft,
            "request_ttft_s": (token - own[0]) / SECOND if own and token is not None else None,
            "tpot_s": ratio(lasted, row["decode_tokens"]),
            "e2e_s": (last - start) / SECOND if is_whole else None,
            "decode_steps": row["decode_steps"],
            "output_tokens": row["output_tokens"],
        }


def good(row: Row, limits: Row) -> bool | None:
    """Whether a request keeps all limits; None where one cannot be compared with it."""
    ttft = row["ttft_s"] if row["request_ttft_s"] is None else row["request_ttft_s"]
    times = {"ttft": ttft, "tpot": row["tpot_s"]}
    if row["output_tokens"] == 1 and row["tpot_s"] is None:
        times["tpot"] = 0.0  # no time between tokens exceeds a limit
    if not limits or any(times[name] is None for name in limits):
        return None
    return all(times[name] <= limit for name, limit in limits.items())


def serving_summary(run: Run) -> Iterator[Row]:
    """Rates of a run, percentiles over its requests, and how many keep the limits."""
    rows, requests = passes(run), list(served_requests(run))
    latest = max(row["start_ps"] for row in rows)
    is_lost = any(row["end_ps"] is None for row in rows if row["start_ps"] == latest)
    known = [row["end_ps"] for row in rows if row["end_ps"] is not None]
    wall = None if is_lost else (max(known) - min(row["start_ps"] for row in rows)) / SECOND
    tokens = sum(row["tokens"] for row in rows)
    settings = run.rows("run_settings")
    limits = settings[0]["limits"] if settings else {}
    judged = [each for each in (good(row, limits) for row in requests) if each is not None]
    goods = sum(judged) if judged else None
    of = {name: [row[name] for row in requests if row[name] is not None] for name in
          ("ttft_s", "tpot_s", "queue_s")}  # fmt: skip
    yield {
        "steps": len(rows),
        **{
            f"{p}_steps": sum(row["phase"] == p for row in rows)
            for p in ("prefill", "decode", "mixed")
        },
        "mean_requests": mean([row["requests"] for row in rows]),
        "most_requests": max(row["requests"] for row in rows),
        "wall_s": wall,
        "wall_problem": "the trace lacks the ops of the last step" if is_lost else None,
        "tokens_per_s": ratio(tokens, wall),
        "output_tokens_per_s": ratio(total(row["output_tokens"] for row in requests), wall),
        "prefill_least_ratio": sum(row["least_prompt_tokens"] for row in rows) / tokens,
        "prefill_most_ratio": sum(row["most_prompt_tokens"] for row in rows) / tokens,
        "host_bound_ratio": share(rows, "late_ps"),
        "requests": len(requests),
        "ttft_count": len(of["ttft_s"]),
        "p50_ttft_s": median(of["ttft_s"]),
        "p90_ttft_s": rank(of["ttft_s"], 0.9),
        "p99_ttft_s": rank(of["ttft_s"], 0.99),
        "tpot_count": len(of["tpot_s"]),
        "p50_tpot_s": median(of["tpot_s"]),
        "p90_tpot_s": rank(of["tpot_s"], 0.9),
        "p99_tpot_s": rank(of["tpot_s"], 0.99),
        "p50_queue_s": median(of["queue_s"]),
        "judged_requests": len(judged) if limits and requests else None,
        "good_requests": goods,
        "good_requests_per_s": ratio(goods, wall),
        "good_ratio": ratio(goods, len(judged)),
    }
