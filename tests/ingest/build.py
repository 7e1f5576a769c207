"""Builds small XSpaces and HLO modules for tests, field by field."""

from __future__ import annotations

from typing import Any

from xlahouse.ingest.events.proto import message_class

DTYPES = {
    "pred": 1,
    "s32": 4,
    "u32": 8,
    "f32": 11,
    "bf16": 16,
    "token": 17,
    "f8e4m3fn": 20,
    "s4": 21,
}


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def space(*planes: Any, hostnames: tuple[str, ...] = ("host0",)) -> bytes:
    """Serialized XSpace of planes (XPlane messages, or their bytes)."""
    out = b""
    for item in planes:
        raw = item if isinstance(item, bytes) else item.SerializeToString()
        out += b"\x0a" + varint(len(raw)) + raw
    for name in hostnames:
        out += b"\x22" + varint(len(name)) + name.encode()
    return out


class PlaneBuilder:
    """An XPlane under construction: names are interned as ids on the way."""

    def __init__(self, name: str, **stats: Any) -> None:
        self.plane = message_class("XPlane")(name=name.encode())
        self._stats: dict[str, int] = {}
        self._events: dict[tuple[str, str], int] = {}
        for key, value in stats.items():
            self._stat(self.plane.stats, key, value)

    def line(self, name: str, timestamp_ns: int = 0) -> Any:
        return self.plane.lines.add(
            name=name.encode(), timestamp_ns=timestamp_ns, id=len(self.plane.lines)
        )

    def event(
        self,
        line: Any,
        title: str,
        start_ps: int,
        duration_ps: int,
        /,
        display: str = "",
        meta: dict[str, Any] | None = None,
        **stats: Any,
    ) -> None:
        event = line.events.add(
            metadata_id=self.metadata(title, display, meta),
            offset_ps=start_ps - line.timestamp_ns * 1000,
            duration_ps=duration_ps,
        )
        for key, value in stats.items():
            self._stat(event.stats, key, value)

    def metadata(self, name: str, display: str = "", meta: dict[str, Any] | None = None) -> int:
        key = (name, display)
        if key not in self._events:
            self._events[key] = number = len(self._events) + 1
            entry = self.plane.event_metadata.add(key=number)
            entry.value.id, entry.value.name = number, name.encode()
            entry.value.display_name = display.encode()
            for stat, value in (meta or {}).items():
                self._stat(entry.value.stats, stat, value)
        return self._events[key]

    def _stat(self, stats: Any, name: str, value: Any) -> None:
        if name not in self._stats:
            self._stats[name] = number = len(self._stats) + 1
            entry = self.plane.stat_metadata.add(key=number)
            entry.value.id, entry.value.name = number, name.encode()
        stat = stats.add(metadata_id=self._stats[name])
        if isinstance(value, bytes):
            stat.bytes_value = value
        elif isinstance(value, str):
            stat.str_value = value.encode()
        elif isinstance(value, float):
            stat.double_value = value
        elif value >= 1 << 63:
            stat.uint64_value = value
        else:
            stat.int64_value = value


def shape(dtype: str, *dims: int, tiles: tuple[tuple[int, ...], ...] = (), space: int = 0) -> Any:
    built = message_class("ShapeProto")(element_type=DTYPES[dtype], dimensions=dims)
    if dtype != "token":
        built.layout.minor_to_major.extend(reversed(range(len(dims))))
        built.layout.memory_space = space
        for tile in tiles:
            built.layout.tiles.add(dimensions=tile)
    return built


def tuple_shape(*parts: Any) -> Any:
    return message_class("ShapeProto")(element_type=13, tuple_shapes=parts)


class ModuleBuilder:
    """An HloModule under construction; the last computation added is the entry."""

    def __init__(self, name: str = "m", devices: list[list[int]] | None = None) -> None:
        self.proto = message_class("HloProto")()
        self.module = self.proto.hlo_module
        self.module.name = name.encode()
        for row in devices or []:
            self.module.device_assignment.computation_devices.add(replica_device_ids=row)
        self._next = 1

    def computation(self, name: str) -> Any:
        self._next += 1
        return self.module.computations.add(name=name.encode(), id=self._next)

    def add(
        self, computation: Any, name: str, opcode: str, result: Any, *operands: Any, **fields: Any
    ) -> Any:
        self._next += 1
        called = fields.pop("calls", [])
        groups = fields.pop("groups", [])
        pairs = fields.pop("pairs", [])
        op_name = fields.pop("op_name", "")
        instruction = computation.instructions.add(
            name=name.encode(),
            opcode=opcode.encode(),
            shape=result,
            id=self._next,
            operand_ids=[operand.id for operand in operands],
            called_computation_ids=[target.id for target in called],
            **fields,
        )
        instruction.metadata.op_name = op_name.encode()
        for group in groups:
            instruction.replica_groups.add(replica_ids=group)
        for source, target in pairs:
            instruction.source_target_pairs.add(source=source, target=target)
        computation.root_id = instruction.id
        return instruction

    def serialize(self) -> bytes:
        return self.proto.SerializeToString()
