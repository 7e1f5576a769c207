"""A plain discrete-event simulator of devices that compute and transfer over circuits.

A program is a list of a device's items: ("compute", time) or ("meet", name). A meeting is
(axis, devices, time): a collective, whose devices leave together; or (axis, (sender, receiver), time,
"permute"): the sender leaves after its own time, the receiver waits for the sender. It knows nothing of
graphs: changes are agents that wait for traffic, and traffic waits for them.
"""

from __future__ import annotations

import heapq
import itertools
import random

from tests.ingest.replay.building import measured, op, transfer


class Simulation:
    """Runs programs; `spans` are (device, place in its program) -> (arrival, begin, end)."""

    def __init__(self, programs, meetings, ports=None, delay=0, policy="every"):
        self.programs, self.meetings = programs, meetings
        self.ports, self.delay, self.policy = ports, delay, policy
        self.spans, self.arrived, self.queue, self.turn = {}, {}, [], itertools.count()
        self.changes = list(self._changes()) if ports else []
        self.blocks = {}  # (name, device) -> changes that its port waits for
        for change in self.changes:
            for name in change["uses"]:
                self.blocks.setdefault((name, change["device"]), []).append(change)
        for device in programs:
            self._proceed(0, device, 0)
        while self.queue:
            now, _, act, given = heapq.heappop(self.queue)
            act(now, *given)

    def _later(self, time, act, *given):
        heapq.heappush(self.queue, (time, next(self.turn), act, given))

    def _changes(self):
        """Each device holds the last axes that it used; another one takes the port of the oldest."""
        for device, items in self.programs.items():
            names = [name for what, name in items if what == "meet"]
            axes = [self.meetings[name][0] for name in names]
            loaded = {}  # axis -> its uses since it was loaded
            change_of = {}
            bursts = []
            for name, axis in zip(names, axes, strict=True):
                if axis not in loaded:
                    if len(loaded) == self.ports:
                        recent = list(dict.fromkeys(reversed(axes[: names.index(name)])))
                        oldest = recent[self.ports - 1]
                        before = bursts[-2] if self.policy == "prefetch" and len(bursts) > 1 else ()
                        last = bursts[-1][1] if self.policy == "every" else before and before[1]
                        waits = set(loaded.pop(oldest)) | set(last)
                        change_of.pop(oldest, None)
                        change = {"device": device, "waits": waits, "uses": [], "done": None}
                        change_of[axis] = change
                        yield change
                    loaded[axis] = []
                loaded[axis].append(name)
                if axis in change_of:
                    change_of[axis]["uses"].append(name)
                if not bursts or bursts[-1][0] != axis:
                    bursts.append((axis, []))
                bursts[-1][1].append(name)

    def _proceed(self, now, device, place):
        items = self.programs[device]
        if place == len(items):
            return
        what, given = items[place]
        if what == "compute":
            self.spans[device, place] = (now, now, now + given)
            self._later(now + given, self._proceed, device, place + 1)
        else:
            self.arrived[given, device] = (now, place)
            for other in self.meetings[given][1]:
                self._try(now, given, other)

    def _members(self, name, device):
        """(devices that a device's part in a meeting waits for, devices that end with it)."""
        devices = self.meetings[name][1]
        if self.meetings[name][-1] != "permute":
            return devices, devices
        return (devices if device == devices[1] else devices[:1]), (device,)

    def _try(self, now, name, device):
        """Begin a device's part in a meeting, if nothing is missing."""
        waited, ends = self._members(name, device)
        if any((name, other) not in self.arrived for other in waited):
            return
        blocks = [each for other in waited for each in self.blocks.get((name, other), ())]
        if any(each["done"] is None or each["done"] > now for each in blocks):
            return
        if (device, self.arrived[name, device][1]) in self.spans:
            return
        for other in ends:
            arrival, place = self.arrived[name, other]
            self.spans[other, place] = (arrival, now, now + self.meetings[name][2])
        self._later(now + self.meetings[name][2], self._end, name, ends)

    def _end(self, now, name, ends):
        for device in ends:
            self._proceed(now, device, self.arrived[name, device][1] + 1)
            for change in self.changes:
                if change["device"] == device and name in change["waits"]:
                    change["waits"].discard(name)
                    if not change["waits"]:
                        change["done"] = now + self.delay
                        self._later(now + self.delay, self._changed, change)

    def _changed(self, now, change):
        for name in change["uses"]:
            for device in self.meetings[name][1]:
                if (name, device) in self.arrived:
                    self._try(now, name, device)

    def ends(self):
        """(device, place) -> end."""
        assert len(self.spans) == sum(map(len, self.programs.values()))
        return {key: span[2] for key, span in self.spans.items()}


def tables_of(programs, meetings):
    """The measured run of programs without circuits, and the transfers that need them: instance, axis."""
    spans = Simulation(programs, meetings).spans
    number = {name: place for place, name in enumerate(meetings)}
    ops, transfers, pairs = [], [], []
    for device, items in programs.items():
        for place, (what, name) in enumerate(items):
            arrival, _, end = spans[device, place]
            if what == "compute":
                ops.append(op(device, arrival, end, f"op.{place}"))
                continue
            is_permute = meetings[name][-1] == "permute"
            kind = "collective-permute" if is_permute else "all-reduce"
            transfers.append(transfer(device, arrival, end, number[name], f"{kind}.{name}", kind))
            if is_permute:
                pairs.append((f"{kind}.{name}", *meetings[name][1]))
    axes = {name: meetings[name][0] for name in meetings}
    rows = {"instance": list(number.values()), "axis": list(axes.values())}
    return measured(ops, transfers, pairs=sorted(set(pairs))), rows


def draw(seed):
    """Devices of a mesh of 2 x 2 that meet in random order, with random compute between."""
    rng = random.Random(seed)
    programs = {device: [("compute", rng.randint(1, 40))] for device in range(4)}
    groups = {
        "a": [(0, 1), (2, 3)],
        "b": [(0, 2), (1, 3)],
        "c": [(0, 1, 2, 3)],
        "d": [(0, 3), (1, 2)],
    }
    meetings = {}
    for _ in range(rng.randint(5, 25)):
        axis = rng.choice("abcd")
        devices = rng.choice(groups[axis])
        name = f"{len(meetings)}"
        meetings[name] = (axis, devices, rng.randint(1, 30))
        if len(devices) == 2 and rng.random() < 0.4:
            meetings[name] = (*meetings[name], "permute")
        for device in devices:
            programs[device].append(("meet", name))
            if rng.random() < 0.7:
                programs[device].append(("compute", rng.randint(1, 60)))
    return programs, meetings
