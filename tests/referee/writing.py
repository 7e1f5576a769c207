"""Writes a drawn run as its hosts' profilers would have: an xplane file a host, the manifest beside."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from tests.referee.truth import Event, Instr, Launch, Program, Truth
from tests.synth.hlo import Computation, Instruction, Shape, fill_module
from tests.synth.mesh import Written
from tests.synth.protos import CoreDetails, HloProto, XSpace
from xlahouse.capture.manifest import Manifest, MeshAxis, RequestTiming, write_manifest

EPOCH_NS = 1_741_722_099_000_000_000
LEAD = 20_000_000_000  # ps from the profile's start to true time zero: clocks may be behind
SESSION = "trace_0.trace/plugins/profile/2025_03_11_19_41_39"
SCALAR, FEW = Shape("f32"), Shape("f32", (256, 256))


def _groups(truth: Truth, program: Program, axis: str) -> tuple[tuple[int, ...], ...]:
    """Groups as places in the program's devices, which are its partitions."""
    found = {}
    for device in program.devices:
        group = tuple(
            program.devices.index(d) for d in truth.group(device, axis) if d in program.devices
        )
        found[group] = None
    return tuple(found)


def _collective(truth: Truth, program: Program, instr: Instr, value, add) -> Instruction:
    groups = _groups(truth, program, instr.axis)
    count, rows = len(groups[0]), instr.rows
    whole = Shape("bf16", (rows, 128))
    part = Shape("bf16", (rows // count, 128))
    source, result = whole, whole
    if instr.kind == "all-gather":
        source = part
    elif instr.kind == "reduce-scatter":
        result = part
    operand = add(Instruction(f"slice.{instr.name}", "slice", source, (value,)))
    named: dict[str, Any] = {"channel_id": 1 + len(instr.name), "op_name": _scope(instr)}
    if instr.kind == "collective-permute":
        pairs = tuple(p for g in groups for p in itertools.pairwise(g))
        named["pairs"] = pairs
    else:
        partitions = instr.kind == "all-to-all"
        named["groups"] = Written(groups, "list", channel=True, global_ids=not partitions)
    if instr.kind in ("all-reduce", "reduce-scatter"):
        named |= {"calls": "add", "calls_key": "to_apply"}
    if instr.kind in ("all-gather", "reduce-scatter", "all-to-all"):
        named["dimension"] = 0
    opcode = instr.kind
    if instr.what == "start":
        opcode += "-start"
        result = whole if instr.kind == "all-reduce" else Shape("tuple", parts=(source, whole))
    return Instruction(instr.name, opcode, result, (operand,), **named)


def _scope(instr: Instr) -> str:
    return f"xlahouse.tick.{instr.tick}.1/aten__mm" if instr.tick is not None else "aten__mm"


def lower(truth: Truth, program: Program) -> tuple[dict[str, Instruction], bytes]:
    """A program's instructions by name, and its HloProto."""
    left, right = (Instruction(f"add.{side}", "parameter", SCALAR) for side in ("l", "r"))
    total = Instruction("add.sum", "add", SCALAR, (left, right))
    callees, entry = [Computation("add", [left, right, total])], Computation("main")
    value = entry.add(Instruction("param", "parameter", Shape("bf16", (256, 128))))
    ops: dict[str, Instruction] = {}
    for instr in program.instrs:
        name = instr.name
        if instr.what == "compute":
            source = Instruction(f"{name}.p", "parameter", value.shape)
            inner = Instruction(f"{name}.m", "multiply", value.shape, (source, source))
            callees.append(Computation(f"fused.{name}", [source, inner]))
            made = Instruction(
                name, "fusion", value.shape, (value,), calls=f"fused.{name}", op_name=_scope(instr)
            )
            value = made
        elif instr.what in ("sync", "start"):
            made = _collective(truth, program, instr, value, entry.add)
        elif instr.what == "done":
            whole = Shape("bf16", (instr.rows, 128))
            made = Instruction(name, f"{instr.kind}-done", whole, (ops[instr.pair],))
        elif instr.what == "copy-start":
            target = Shape("f32", (256, 256), 1)
            parts = (target, FEW, Shape("u32", space=2))
            table = entry.add(Instruction(f"{name}.source", "parameter", FEW))
            made = Instruction(name, "copy-start", Shape("tuple", parts=parts), (table,))
        else:
            made = Instruction(name, "copy-done", Shape("f32", (256, 256), 1), (ops[instr.pair],))
        ops[name] = entry.add(made)
    entry.add(Instruction("root", "tuple", Shape("tuple", parts=(value.shape,)), (value,)))
    proto = HloProto()
    proto.hlo_module.name, proto.hlo_module.id = program.name, program.id
    fill_module([*callees, entry], proto.hlo_module)
    assignment = proto.hlo_module.device_assignment
    assignment.replica_count, assignment.computation_count = 1, len(program.devices)
    for device in program.devices:
        assignment.computation_devices.add().replica_device_ids.append(device)
    return ops, proto.SerializeToString(deterministic=True)


class Plane:
    """A plane of an XSpace under construction."""

    def __init__(self, space: Any, number: int, name: str) -> None:
        self.proto = space.planes.add(id=number, name=name)
        self.stats: dict[str, int] = {}
        self.events: dict[str, int] = {}

    def stat(self, target: Any, name: str, value: Any) -> None:
        """Add a stat to a plane, an event or its metadata."""
        if name not in self.stats:
            number = self.stats[name] = len(self.stats) + 1
            entry = self.proto.stat_metadata.add(key=number)
            entry.value.id, entry.value.name = number, name
        made = target.add(metadata_id=self.stats[name])
        field = {bytes: "bytes_value", str: "str_value", float: "double_value"}
        setattr(made, field.get(type(value), "int64_value"), value)

    def line(self, number: int, name: str) -> Any:
        """A new line."""
        return self.proto.lines.add(id=number, name=name)

    def kind(self, key: str, name: str, display: str = "", number: int = 0, **stats: Any) -> int:
        """Metadata of a kind of event."""
        if key not in self.events:
            number = number or len(self.events) + 1000
            self.events[key] = number
            entry = self.proto.event_metadata.add(key=number)
            entry.value.id, entry.value.name, entry.value.display_name = number, name, display
            for stat, value in stats.items():
                self.stat(entry.value.stats, stat.replace("Hlo_Proto", "Hlo Proto"), value)
        return self.events[key]

    def event(self, line: Any, kind: int, start: int, end: int, **stats: Any) -> None:
        """An event; its times are the host's clock's."""
        made = line.events.add(metadata_id=kind, offset_ps=start, duration_ps=end - start)
        for name, value in stats.items():
            self.stat(made.stats, name, value)


class HostWriter:
    """The file of one host."""

    def __init__(self, truth: Truth, host: int) -> None:
        self.truth, self.host, self.space = truth, host, XSpace()
        self.lowered = {x.program.id: lower(truth, x.program) for x in truth.launches}
        self.links: dict[tuple[int, int], int] = {}
        self.space.hostnames.append(f"host{host}")

    def time(self, true: int) -> int:
        """What the host's clock writes at a true time."""
        return self.truth.clocks[self.host].read(true) + LEAD

    def link(self, launch: Launch) -> int:
        """Ties a launch to its enqueue."""
        return 1 + launch.number * self.truth.count + launch.device

    def device(self, number: int, device: int) -> None:
        """A device's plane."""
        plane = Plane(self.space, 2 + number, f"/device:TPU:{number}")
        core = CoreDetails(device_ordinal=number, local_chip_id=number)
        core.global_chip_id = core.global_core_id = device
        plane.stat(plane.proto.stats, "core_details", core.SerializeToString())
        plane.stat(plane.proto.stats, "device_type_string", "TPU v6 Lite")
        modules, ops = plane.line(2, "XLA Modules"), plane.line(3, "XLA Ops")
        waits = plane.line(6, "XLA TraceMe")
        own = sorted((x for x in self.truth.launches if x.device == device), key=lambda x: x.start)
        for launch in own:
            program = launch.program
            label = f"{program.name}({program.id})"
            kind = plane.kind(label, label)
            stats = {"run_id": launch.number, "_ct": 12, "_c": self.link(launch)}
            plane.event(modules, kind, self.time(launch.start), self.time(launch.end), **stats)
            for event in launch.events:
                self._op(plane, waits if event.what == "barrier" else ops, launch, event)

    def _op(self, plane: Plane, line: Any, launch: Launch, event: Event) -> None:
        if event.what == "barrier":
            kind = plane.kind("barrier-cores", "barrier-cores")
        else:
            instruction = self.lowered[launch.program.id][0][event.name]
            category = {"fusion": "loop fusion"}.get(instruction.opcode, instruction.opcode)
            stats = {
                "hlo_category": category,
                "program_id": launch.program.id,
                "tf_op": f"{instruction.op_name}:",
            }
            key = f"{launch.program.id}/{event.name}"
            kind = plane.kind(key, instruction.text, event.name, **stats)
        plane.event(line, kind, self.time(event.start), self.time(event.end))

    def host_plane(self) -> None:
        """Markers, where the host has them, and enqueues, by thread."""
        plane, truth = Plane(self.space, 1, "/host:CPU"), self.truth
        mine = [x for x in truth.launches if truth.host(x.device) == self.host]
        marks = (
            [m for m in truth.markers if m.host == self.host] if self.host in truth.marked else []
        )
        for thread in sorted({x.thread for x in mine} | {m.thread for m in marks}):
            line = plane.line(100 + thread, f"python {100 + thread}")
            events = []
            for mark in (m for m in marks if m.thread == thread):
                stats = {"_r": 1, "request": mark.request, "step_num": mark.step}
                events.append((mark.start, mark.end, f"xlahouse.{mark.label}", stats))
            for launch in (x for x in mine if x.thread == thread):
                start = launch.enqueue
                stats = {"_pt": 12, "_p": self.link(launch)}
                events.append((start, start + 500, "DoEnqueueProgram", stats))
            for start, end, name, stats in sorted(events, key=lambda e: (e[0], -e[1])):
                plane.event(line, plane.kind(name, name), self.time(start), self.time(end), **stats)

    def rest(self) -> None:
        """The programs' HLO, and the profile's times."""
        plane = Plane(self.space, 0, "/host:metadata")
        for launch in self.truth.launches:
            if self.truth.host(launch.device) == self.host:
                program = launch.program
                label = f"{program.name}({program.id})"
                proto = self.lowered[program.id][1]
                plane.kind(label, label, number=program.id, Hlo_Proto=proto)
        plane = Plane(self.space, 0, "Task Environment")
        plane.stat(plane.proto.stats, "profile_start_time", EPOCH_NS)
        plane.stat(plane.proto.stats, "profile_stop_time", EPOCH_NS + 10**9)


def _manifest(truth: Truth) -> Manifest:
    stages = truth.size("pp") if truth.stacked else 0
    return Manifest(
        name=f"referee {truth.seed}",
        captured_at="2025-03-11T19:41:39Z",
        framework="torch_xla",
        framework_versions={},
        model="referee",
        model_family="referee",
        model_config={},
        weights="none",
        layers=max(stages, 1),
        hidden_size=128,
        dtype="bfloat16",
        batch_size=1,
        microbatches=truth.microbatches,
        prompt_tokens=4,
        output_tokens=truth.steps,
        parallelism=".".join(f"{axis}{size}" for axis, size in truth.mesh),
        mesh=[MeshAxis(axis, size) for axis, size in truth.mesh],
        mesh_device_ids=list(truth.devices),
        device_kind="TPU v6 lite",
        device_count=truth.count,
        host_count=truth.hosts,
        warmup_requests=0,
        requests=[
            RequestTiming(request=r, ttft_s=0.5, step_s=[0.25]) for r in range(truth.requests)
        ],
        tokens=[],
        stage_layers=[[s] for s in range(stages)],
        tick_microbatch=truth.tick_microbatch if truth.stacked else [],
    )


def write(truth: Truth, folder: Path) -> None:
    """Write the run below a folder."""
    session = folder / SESSION
    session.mkdir(parents=True)
    for host in range(truth.hosts):
        writer = HostWriter(truth, host)
        for number, device in enumerate(d for d in truth.devices if truth.host(d) == host):
            writer.device(number, device)
        writer.rest()
        writer.host_plane()
        path = session / f"host{host}.xplane.pb"
        path.write_bytes(writer.space.SerializeToString())
    write_manifest(_manifest(truth), folder / "metadata_0.json")
