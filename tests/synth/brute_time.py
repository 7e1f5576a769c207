"""Times measured on decoded events by brute force: another opinion on the closed forms."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import pairwise

COLLECTIVES = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")


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
    """(label, request, step) -> ops, by the marker around the enqueue of the launch that holds them.

    Without markers each launch is a step; devices without the first extra ones end with the others.
    """
    phases = ("prefill", "decode", "warmup")
    markers = [e for e in decoded.host if e.name in {f"xlahouse.{phase}" for phase in phases}]
    enqueued = {e.stats["_p"]: e.start for e in decoded.host if "_p" in e.stats}
    events = decoded.devices[device]
    found = defaultdict(list)
    modules = [e for e in events if e.line == "XLA Modules"]
    if not markers:
        most = max(sum(e.line == "XLA Modules" for e in d) for d in decoded.devices.values())
        for step, module in enumerate(modules, start=most - len(modules)):
            found["step", None, step] = within(module, events)
    for module in modules:
        at = enqueued.get(module.stats["_c"])
        marker = next((m for m in markers if at is not None and m.start <= at < m.end), None)
        if marker is not None:
            label, request = marker.name.split(".")[1], marker.stats["request"]
            request = -1 - request if label == "warmup" else request
            key = label, request, marker.stats["step_num"]
            found[key] += within(module, events)
    return found


def periods(decoded):
    """(device, request, step) -> (period, time before it with no request open), tick by tick of edges.

    A request is open from its first step's marker to its last one's end or its last op's; and while
    its own marker is.
    """
    windows = {
        (device, *key[1:]): (
            min(e.start for e in ops),
            max(e.end for e in ops if what(e) != "control"),
        )
        for device in decoded.devices
        for key, ops in steps_of(decoded, device).items()
    }
    marks = [(e, e.stats["request"]) for e in decoded.host if e.name.startswith("xlahouse.")]
    opened, spans = defaultdict(list), []
    for event, request in marks:
        if event.name == "xlahouse.request":
            spans.append((event.start, event.end))
        else:
            number = -1 - request if event.name == "xlahouse.warmup" else request
            opened[number] += [event.start, event.end]
    for number, edges in opened.items():
        ends = [end for (_, request, _), (_, end) in windows.items() if request == number]
        spans.append((min(edges), max(edges + ends)))
    found = {}
    for device in decoded.devices:
        line = sorted((*span, key) for key, span in windows.items() if key[0] == device)
        for (start, end, key), before in zip(
            line, [line[0][0], *(e for _, e, _ in line)], strict=False
        ):
            edges = {before, start} | {t for s in spans for t in s if before < t < start}
            closed = sum(
                b - a
                for a, b in pairwise(sorted(edges))
                if spans and not any(s <= a and b <= e for s, e in spans)
            )
            found[key] = end - before - closed, closed
    return found


def within(module, events):
    """Ops of a launch."""
    inside = (e for e in events if module.start <= e.start < module.end)
    return [e for e in inside if e.line in ("XLA Ops", "XLA TraceMe")]


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
