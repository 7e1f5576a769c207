"""What the views of time must say of a run, by METRICS.md, from its truth alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from functools import cached_property

from tests.referee.answers import NOWHERE, Answers, Key, Rows
from tests.referee.spans import Span, covered, joined, near, pieces
from tests.referee.truth import DATA_AXES, Launch

SHORT = 100_000  # ps: a gap below is not split by cause
SUMS = ("window", "compute", "collective", "overlapped", "exposed", "exposed_copy", "sync_wait")
SUMS = tuple(f"{name}_ps" for name in (*SUMS, "busy", "idle"))


class TimeAnswers(Answers):
    """Windows, splits, idle causes, latencies."""

    @cached_property
    def activity(self) -> dict[tuple[int, Key], dict[str, list[Span]]]:
        """Per device and step: what runs or is in flight when."""
        found: dict[tuple[int, Key], dict[str, list[Span]]] = defaultdict(lambda: defaultdict(list))
        for launch in self.truth.launches:
            spans = found[launch.device, self.step(launch)]
            spans["launch"].append((launch.start, launch.end))
            for event in launch.events:
                if event.what in ("compute", "barrier"):
                    spans[event.what].append((event.start, event.end))
                elif event.what in ("copy-start", "copy-done"):
                    spans["copy"].append((event.start, event.end))
        for t in self.transfers:
            found[t.launch.device, self.step(t.launch)]["collective"].append((t.start, t.end))
        return found

    @cached_property
    def steps(self) -> dict[tuple[int, Key], list[Launch]]:
        """(device, step) -> its launches, in order."""
        found = defaultdict(list)
        for device, launches in self.of_device.items():
            for launch in launches:
                if self.step(launch) != NOWHERE:
                    found[device, self.step(launch)].append(launch)
        return dict(found)

    @cached_property
    def spans(self) -> dict[tuple[int, Key], Span]:
        """The window of each step on a device."""
        return {
            key: (min(x.window[0] for x in own), max(x.window[1] for x in own))
            for key, own in self.steps.items()
        }

    def busy(self, device: int, step: Key, start: int, end: int) -> bool:
        """Whether anything of the step runs on a device in a piece, a wait for peers included."""
        activity = self.activity[device, step]
        return any(
            covered(activity[what], start, end)
            for what in ("compute", "collective", "copy", "barrier")
        )

    @cached_property
    def device_time(self) -> Rows:
        """device_time."""
        rows: Rows = {}
        for (device, step), (start, end) in self.spans.items():
            local = {k: near(v, start, end) for k, v in self.activity[device, step].items()}
            kinds = [local.get(k, []) for k in ("compute", "collective", "copy", "barrier")]
            row = dict.fromkeys(SUMS, 0) | {"window_ps": end - start}
            for a, b in pieces(start, end, *kinds):
                compute, collective, copy, barrier = (covered(k, a, b) for k in kinds)
                row["compute_ps"] += (b - a) * compute
                row["collective_ps"] += (b - a) * collective
                row["overlapped_ps"] += (b - a) * (collective and compute)
                first = (
                    "" if compute else "exposed_ps" if collective else "exposed_copy_ps" if copy
                    else "sync_wait_ps" if barrier else "idle_ps"
                )  # fmt: skip
                if first:
                    row[first] += b - a
            row["busy_ps"] = row["compute_ps"] + row["exposed_ps"] + row["exposed_copy_ps"]
            rows[device, *step] = row
        return rows

    def comm_compute(self) -> Rows:
        """comm_compute: sums over devices and steps of a phase."""
        rows: Rows = {}
        for (device, step), own in self.steps.items():
            row = rows.setdefault((self.phase(own[0]),), dict.fromkeys(SUMS, 0))
            for name in SUMS:
                row[name] += self.device_time[device, *step][name]
        return rows

    def exposed(self) -> Rows:
        """exposed_collective: an exposed instant is shared by the collectives then in flight."""
        rows: Rows = {}
        for t in self.placed:
            device, step = t.launch.device, self.step(t.launch)
            key = (self.phase(t.launch), t.instr.axis, t.instr.kind, t.name)
            row = rows.setdefault(key, {"count": 0, "in_flight_ps": 0, "exposed_ps": 0.0})
            row["count"] += 1
            row["in_flight_ps"] += t.end - t.start
            local = self.activity[device, step]
            compute = near(local["compute"], t.start, t.end)
            flights = near(local["collective"], t.start, t.end)
            for a, b in pieces(t.start, t.end, compute, flights):
                if not covered(compute, a, b):
                    row["exposed_ps"] += (b - a) / sum(covered([f], a, b) for f in flights)
        return rows

    def gaps(self, device: int, step: Key) -> list[Span]:
        """Idle stretches within a window."""
        start, end = self.spans[device, step]
        local = {
            k: near(v, start, end) for k, v in self.activity[device, step].items() if k != "launch"
        }
        idle = [
            piece
            for piece in pieces(start, end, *local.values())
            if not any(covered(spans, *piece) for spans in local.values())
        ]
        return joined(idle)

    def cause(self, device: int, step: Key, start: int, end: int) -> str:
        """Of a piece that no end of any peer's work cuts."""
        truth = self.truth
        peers = [
            d
            for d in truth.devices
            if d != device and all(truth.at(d, a) == truth.at(device, a) for a in DATA_AXES)
        ]
        if not self.known and self.crosses([device, *peers]):
            return "unattributed"
        busy = [d for d in peers if self.busy(d, step, start, end)]
        if not busy:
            inside = covered(self.activity[device, step]["launch"], start, end)
            return "device" if inside else "host"
        stage = truth.at(device, "pp")
        return "imbalance" if any(truth.at(d, "pp") == stage for d in busy) else "pipeline"

    def idle(self) -> Rows:
        """bubble: idle time by cause, where there is some."""
        rows: Rows = {}
        for device, step in self.steps:
            for start, end in self.gaps(device, step):
                others = [
                    s
                    for d in self.truth.devices
                    for k in self.activity[d, step].values()
                    for s in k
                ]
                cut = pieces(start, end, near(others, start, end)) if end - start >= SHORT else []
                for a, b in cut or [(start, end)]:
                    cause = self.cause(device, step, a, b) if cut else "device"
                    row = rows.setdefault((device, *step, cause), {"idle_ps": 0})
                    row["idle_ps"] += b - a
        rows |= self.between_steps()
        return rows

    def between_steps(self) -> Rows:
        """The part of a period before its step: since the previous step, while a request is open."""
        rows: Rows = {}
        if not self.knows_periods:
            return rows
        before: dict[int, int] = {}
        for (device, step), (start, end) in sorted(self.spans.items(), key=lambda x: x[1]):
            opened = self.requests[self.truth.host(device) if self.alone else None]
            last = before.get(device, start)
            cut = pieces(last, start, opened) if last < start else []
            open_ps = sum(b - a for a, b in cut if not opened or covered(opened, a, b))
            if open_ps:
                rows[device, *step, "between_steps"] = {"idle_ps": open_ps}
            before[device] = max(end, last)
        return rows

    @property
    def knows_periods(self) -> bool:
        """Whether clocks tell when a request is open."""
        return self.known or self.alone or not self.requests[None]

    @cached_property
    def requests(self) -> dict[int | None, list[Span]]:
        """When a request is open, by the markers and devices of each host, and of all (None): its own
        marker, and from its first step's marker to its last step's end."""
        every = range(self.truth.hosts)
        return {None: self._opened(every)} | {host: self._opened([host]) for host in every}

    def _opened(self, hosts: Collection[int]) -> list[Span]:
        found = []
        traced = [m for m in self.truth.markers if m.host in self.truth.marked and m.host in hosts]
        for request in {m.request for m in traced}:
            markers = [m for m in traced if m.request == request]
            whole = [m for m in markers if m.label == "request"]
            found += [(m.start, m.end) for m in whole]
            steps = [m for m in markers if m.label != "request"]
            ends = [
                span[1]
                for (device, step), span in self.spans.items()
                if step[0] == request and self.truth.host(device) in hosts
            ]
            if steps:
                found.append((min(m.start for m in steps), max([*ends, *(m.end for m in steps)])))
        return found

    def sync_wait(self) -> Rows:
        """sync_wait, by the axis that the barrier stands before."""
        rows: Rows = {}
        for t in self.placed:
            waited = [e for e in t.launch.events if e.what == "barrier" and e.name == t.name]
            for event in waited:
                key = (t.launch.device, *self.step(t.launch), t.instr.axis)
                row = rows.setdefault(key, {"wait_count": 0, "sync_wait_ps": 0})
                row["wait_count"] += 1
                row["sync_wait_ps"] += event.end - event.start
        return rows

    def overhead(self) -> Rows:
        """launch_overhead."""
        rows: Rows = {}
        for device, launches in self.of_device.items():
            for place, launch in enumerate(launches):
                before = launches[place - 1].end if place else None
                free = launch.enqueue if before is None else max(before, launch.enqueue)
                rows[device, place] = {
                    "queue_ps": launch.start - launch.enqueue,
                    "dispatch_ps": launch.start - free,
                    "launch_gap_ps": launch.start - before if place else None,
                }
        return rows

    def by_step(self) -> dict[Key, dict[int, Span]]:
        """step -> device -> window."""
        found: dict[Key, dict[int, Span]] = defaultdict(dict)
        for (device, step), span in self.spans.items():
            found[step][device] = span
        return found

    def step_time(self) -> Rows:
        """step_time and load_balance of each step."""
        rows: Rows = {}
        steps = self.by_step()
        for step, spans in steps.items():
            windows = [b - a for a, b in spans.values()]
            busy = [self.device_time[d, *step]["busy_ps"] for d in spans]
            rows[step] = {
                "devices": len(spans),
                "longest_window_ps": max(windows),
                "mean_window_ps": sum(windows) / len(windows),
                "imbalance_ratio": max(busy) / (sum(busy) / len(busy)) - 1,
            }
            following = (step[0], step[1] + 1)
            if step[0] is not None and following in steps:
                starts = [min(a for a, _ in steps[s].values()) for s in (step, following)]
                rows[step]["start_to_start_ps"] = starts[1] - starts[0]
        return rows

    def latency(self) -> Rows:
        """latency of each marked request. Clocks that cannot be compared count apart, from their own first
        marker: the largest TTFT and e2e of them."""
        rows: Rows = {}
        steps = self.by_step()
        every = set(range(self.truth.hosts))
        for request in range(self.truth.requests):
            ends: dict[int, int] = {}  # step -> since the request's first marker
            for hosts in [every] if self.known else [{host} for host in every]:
                begins = [
                    m.start
                    for m in self.truth.markers
                    if m.request == request and not m.step and m.host in self.truth.marked & hosts
                ]
                for name, spans in steps.items():
                    own = [b for d, (_, b) in spans.items() if self.truth.host(d) in hosts]
                    if begins and own and name[0] == request:
                        ends[name[1]] = max(max(own) - min(begins), ends.get(name[1], 0))
            if not ends:
                continue
            row: dict[str, float | None] = {"ttft_s": None, "tpot_s": None, "e2e_s": None}
            if 0 in ends:
                row["ttft_s"] = ends[0] / 1e12
            decodes = self.truth.steps - 1  # its marker is there where its ops were lost
            if decodes in ends:
                row["e2e_s"] = ends[decodes] / 1e12
            if 0 in ends and decodes in ends and decodes:
                row["tpot_s"] = (ends[decodes] - ends[0]) / decodes / 1e12
            rows[request,] = row
        return rows

    def masked(self) -> Rows:
        """masked_ps of each device and step of a stacked pipeline."""
        rows: Rows = {}
        if not self.truth.stacked:
            return rows
        held = self.truth.tick_microbatch
        for (device, step), own in self.steps.items():
            stage, total = self.truth.at(device, "pp"), 0
            for launch in own:
                ticks = {i.name: i.tick for i in launch.program.instrs}
                for e in launch.events:
                    tick = ticks[e.name]
                    if e.what == "compute" and tick is not None and held[tick][stage] is None:
                        total += e.end - e.start
            rows[device, *step] = {"masked_ps": total}
        return rows
