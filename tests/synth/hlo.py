"""HLO of a synthetic program: as text (the names of trace events) and as HloProto bytes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

from tests.synth.mesh import MeshAxes, Written
from tests.synth.protos import ELEMENT_BYTES, ELEMENT_TYPES

TILES = {"bf16": ((8, 128), (2, 1)), "f32": ((8, 128),)}


@dataclass(frozen=True)
class Shape:
    """An array shape, or a tuple where `parts` is given; `space` is its memory space (0 = HBM)."""

    dtype: str
    dims: tuple[int, ...] = ()
    space: int = 0
    parts: tuple[Shape, ...] = ()

    @property
    def bytes(self) -> int:
        """Logical bytes."""
        if self.parts:
            return sum(part.bytes for part in self.parts)
        size = ELEMENT_BYTES[self.dtype]
        for dim in self.dims:
            size *= dim
        return size

    @property
    def tiles(self) -> tuple[tuple[int, ...], ...]:
        """Tiles of its layout; none below two dimensions."""
        return TILES.get(self.dtype, ()) if len(self.dims) > 1 else ()

    def __str__(self) -> str:
        if self.parts:
            return f"({', '.join(map(str, self.parts))})"
        order = ",".join(str(k) for k in reversed(range(len(self.dims))))
        tiles = "".join(f"({','.join(map(str, tile))})" for tile in self.tiles)
        suffix = (f"T{tiles}" if tiles else "") + (f"S({self.space})" if self.space else "")
        layout = order + (f":{suffix}" if suffix else "")
        return f"{self.dtype}[{','.join(map(str, self.dims))}]" + (
            f"{{{layout}}}" if layout else ""
        )

    def fill(self, proto) -> None:
        """Write into a ShapeProto."""
        proto.element_type = ELEMENT_TYPES["tuple" if self.parts else self.dtype]
        for part in self.parts:
            part.fill(proto.tuple_shapes.add())
        if self.parts:
            return
        proto.dimensions.extend(self.dims)
        proto.layout.minor_to_major.extend(reversed(range(len(self.dims))))
        for tile in self.tiles:
            proto.layout.tiles.add().dimensions.extend(tile)
        proto.layout.memory_space = self.space


@dataclass(frozen=True)
class Instruction:
    """One HLO instruction; operands and called computations by name."""

    name: str
    opcode: str
    shape: Shape
    operands: tuple[Instruction, ...] = ()
    calls: str = ""
    calls_key: str = "calls"
    condition: str = ""  # of a while
    groups: Written | None = None
    pairs: tuple[tuple[int, int], ...] = ()
    channel_id: int = 0
    dimension: int | None = None
    target: str = ""
    thread: str = ""
    op_name: str = ""

    @cached_property
    def text(self) -> str:
        """The instruction as HLO text prints it."""
        operands = ", ".join(f"{o.shape} %{o.name}" for o in self.operands)
        attributes = "".join(f", {part}" for part in self._attributes())
        return f"%{self.name} = {self.shape} {self.opcode}({operands}){attributes}"

    def _attributes(self):
        if self.channel_id:
            yield f"channel_id={self.channel_id}"
        if self.groups is not None:
            yield f"replica_groups={self.groups.text}"
            if self.groups.global_ids:
                yield "use_global_device_ids=true"
        if self.pairs:
            yield f"source_target_pairs={{{','.join(f'{{{a},{b}}}' for a, b in self.pairs)}}}"
        if self.dimension is not None:
            yield f"dimensions={{{self.dimension}}}"
        if self.target:
            yield f'custom_call_target="{self.target}"'
        if self.thread:
            yield f'async_execution_thread="{self.thread}"'
        if self.condition:
            yield f"condition=%{self.condition}"
        if self.calls:
            yield f"{self.calls_key}=%{self.calls}"


@dataclass
class Computation:
    """Instructions in order; the last is the root."""

    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def add(self, instruction: Instruction) -> Instruction:
        """Append, and hand back for use as an operand."""
        self.instructions.append(instruction)
        return instruction


def _fill_mesh(written: MeshAxes, proto) -> None:
    if not written.sub_axis:
        for number, size in enumerate(written.sizes):
            proto.mesh.axes.add(name=f"axis_{number}", size=size)
        proto.axes.add(mesh_axis_index=written.at)
        return
    proto.mesh.axes.add(name="axis_0", size=math.prod(written.sizes))
    part = proto.axes.add(mesh_axis_index=0).sub_axis_info
    part.pre_size, part.size = math.prod(written.sizes[: written.at]), written.sizes[written.at]


def _fill_groups(instruction: Instruction, proto) -> None:
    written = instruction.groups
    proto.use_global_device_ids = written.global_ids
    if written.axes is not None:
        _fill_mesh(written.axes, proto.mesh_axes_replica_group_list)
    elif written.iota is not None:
        new = written.notation == "new_iota"
        iota = proto.iota_collective_device_list if new else proto.collective_device_list.iota
        iota.num_replica_groups, iota.num_devices_per_group = (
            written.iota.groups,
            written.iota.members,
        )
        iota.iota_reshape_dims.extend(written.iota.reshape)
        iota.iota_transpose_perm.extend(written.iota.perm)
    elif written.notation == "device_list":
        for group in written.groups:
            proto.collective_device_list.replica_groups.add().replica_ids.extend(group)
    elif written.notation != "empty":
        for group in written.groups:
            proto.replica_groups.add().replica_ids.extend(group)


def _fill(instruction: Instruction, proto, ids: dict, computations: dict[str, int]) -> None:
    proto.name, proto.opcode, proto.id = instruction.name, instruction.opcode, ids[instruction.name]
    instruction.shape.fill(proto.shape)
    proto.operand_ids.extend(ids[operand.name] for operand in instruction.operands)
    if instruction.calls:
        proto.called_computation_ids.append(computations[instruction.calls])
    if instruction.condition:
        proto.called_computation_ids.append(computations[instruction.condition])
    if instruction.op_name:
        proto.metadata.op_name = instruction.op_name
        proto.metadata.source_file, proto.metadata.source_line = "model.py", 10 + proto.id % 90
    if instruction.groups is not None:
        _fill_groups(instruction, proto)
    for source, target in instruction.pairs:
        proto.source_target_pairs.add(source=source, target=target)
    if instruction.dimension is not None:
        proto.dimensions.append(instruction.dimension)
    proto.channel_id, proto.custom_call_target = instruction.channel_id, instruction.target
    proto.async_execution_thread = instruction.thread
    proto.fusion_kind = "kLoop" if instruction.opcode == "fusion" else ""


def _fill_program_shape(computation: Computation, proto) -> None:
    parameters = [i for i in computation.instructions if i.opcode == "parameter"]
    for parameter in parameters:
        parameter.shape.fill(proto.parameters.add())
        proto.parameter_names.append(parameter.name)
    computation.instructions[-1].shape.fill(proto.result)


def fill_module(computations: list[Computation], module) -> None:
    """Write computations (callees first, the entry last) into an HloModuleProto."""
    numbers = {computation.name: 1000 + k for k, computation in enumerate(computations)}
    following = 1
    for computation in computations:
        ids = {i.name: following + k for k, i in enumerate(computation.instructions)}
        following += len(ids)
        proto = module.computations.add(name=computation.name, id=numbers[computation.name])
        for instruction in computation.instructions:
            _fill(instruction, proto.instructions.add(), ids, numbers)
        parameters = (i for i in proto.instructions if i.opcode == "parameter")
        for number, parameter in enumerate(parameters):
            parameter.parameter_number = number
        proto.root_id = ids[computation.instructions[-1].name]
        _fill_program_shape(computation, proto.program_shape)
    _fill_program_shape(computations[-1], module.host_program_shape)
    module.entry_computation_name = computations[-1].name
    module.entry_computation_id = numbers[computations[-1].name]
