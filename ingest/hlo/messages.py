"""The HLO messages of ingest.events.proto, as types: only the fields that we read or write.

Their classes are made at run time from tables of field numbers, so no type checker sees them otherwise.
"""

from __future__ import annotations

from typing import Protocol, cast

from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.events.protobuf import Message, MessageList, ScalarList


class Tile(Message, Protocol):
    """A tile of a layout."""

    dimensions: ScalarList[int]  # shapes.COMBINED for one that is merged into the next


class ArrayLayout(Message, Protocol):
    """How an array lies in memory."""

    minor_to_major: ScalarList[int]
    tiles: MessageList[Tile]
    element_size_in_bits: int  # 0: that of the element type
    memory_space: int


class Shape(Message, Protocol):
    """Type and size of a value: an array, a tuple of shapes, a token or an opaque value."""

    element_type: int  # xla.PrimitiveType; 0: unknown
    dimensions: ScalarList[int]
    tuple_shapes: MessageList[Shape]
    layout: ArrayLayout
    is_dynamic_dimension: ScalarList[bool]


class OpMetadata(Message, Protocol):
    """Where an instruction came from."""

    op_type: bytes
    op_name: bytes
    source_file: bytes
    source_line: int
    stack_frame_id: int  # from 1, in the module's StackFrameIndex; 0: none


class ReplicaGroup(Message, Protocol):
    """One group, its members listed."""

    replica_ids: ScalarList[int]


class SourceTarget(Message, Protocol):
    """A pair of a permute."""

    source: int
    target: int


class IotaGroups(Message, Protocol):
    """`[groups,size]<=[dims]T(perm)`."""

    num_replica_groups: int
    num_devices_per_group: int
    iota_reshape_dims: ScalarList[int]
    iota_transpose_perm: ScalarList[int]


class GroupMeshAxis(Message, Protocol):
    """An axis of a mesh."""

    name: bytes
    size: int


class GroupMesh(Message, Protocol):
    """A mesh that groups are stated in."""

    axes: MessageList[GroupMeshAxis]
    device_ids: ScalarList[int]  # the last axis fastest; empty: from 0 on


class SubAxis(Message, Protocol):
    """The part of a mesh axis that `'a':(pre_size)size` names."""

    pre_size: int
    size: int  # 0: the whole axis


class AxisRef(Message, Protocol):
    """An axis along which a group's members differ."""

    mesh_axis_index: int
    sub_axis_info: SubAxis


class MeshGroups(Message, Protocol):
    """`mesh['a'=4,'b'=2] {'a'}`."""

    mesh: GroupMesh
    axes: MessageList[AxisRef]


class DeviceList(Message, Protocol):
    """Groups, listed or as iota."""

    replica_groups: MessageList[ReplicaGroup]
    iota_replica_group_list: IotaGroups


class FrontendAttribute(Message, Protocol):
    """An entry of a map."""

    key: bytes
    value: bytes


class FrontendAttributes(Message, Protocol):
    """A map of texts that a framework attaches."""

    map: MessageList[FrontendAttribute]


class WindowDimension(Message, Protocol):
    """How a convolution's window goes along a dimension."""

    size: int
    stride: int
    padding_low: int
    window_dilation: int
    base_dilation: int  # of the input


class Window(Message, Protocol):
    """The window of a convolution."""

    dimensions: MessageList[WindowDimension]


class ConvolutionNumbers(Message, Protocol):
    """Which dimension of a convolution's operands and result is which."""

    kernel_input_feature_dimension: int
    output_batch_dimension: int
    output_feature_dimension: int
    input_spatial_dimensions: ScalarList[int]
    output_spatial_dimensions: ScalarList[int]


class DotNumbers(Message, Protocol):
    """Which dimensions a dot sums over."""

    lhs_contracting_dimensions: ScalarList[int]


class HloInstruction(Message, Protocol):
    """An instruction."""

    id: int
    name: bytes
    opcode: bytes
    shape: Shape
    metadata: OpMetadata
    literal: bytes  # of a constant: a LiteralProto
    parameter_number: int
    tuple_index: int  # of get-tuple-element
    dimensions: ScalarList[int]
    window: Window
    convolution_dimension_numbers: ConvolutionNumbers
    dot_dimension_numbers: DotNumbers
    channel_id: int  # 0 or less: none
    custom_call_target: bytes
    operand_ids: ScalarList[int]
    called_computation_ids: ScalarList[int]
    backend_config: bytes  # JSON text
    is_host_transfer: bool
    replica_groups: MessageList[ReplicaGroup]
    source_target_pairs: MessageList[SourceTarget]
    comparison_direction: bytes  # of a compare: LT, LE, …
    frontend_attributes: FrontendAttributes
    use_global_device_ids: bool
    async_execution_thread: bytes
    collective_device_list: DeviceList
    iota_collective_device_list: IotaGroups
    mesh_axes_replica_group_list: MeshGroups


class HloComputation(Message, Protocol):
    """A computation."""

    id: int
    name: bytes
    instructions: MessageList[HloInstruction]
    root_id: int


class ComputationDevice(Message, Protocol):
    """Devices of one partition."""

    replica_device_ids: ScalarList[int]  # by replica


class DeviceAssignment(Message, Protocol):
    """Which device runs which replica and partition."""

    computation_devices: MessageList[ComputationDevice]  # by partition


class FileLocation(Message, Protocol):
    """A line of a file."""

    file_name_id: int  # from 1, in StackFrameIndex.file_names; 0: none
    line: int


class StackFrame(Message, Protocol):
    """A frame; its function and its parent are not read."""

    file_location_id: int  # from 1, in StackFrameIndex.file_locations; 0: none


class StackFrameIndex(Message, Protocol):
    """A module's source lines, each once."""

    file_names: ScalarList[bytes]
    function_names: ScalarList[bytes]
    file_locations: MessageList[FileLocation]
    stack_frames: MessageList[StackFrame]


class InstructionSequence(Message, Protocol):
    """The instructions of a computation in the order in which they run."""

    instruction_ids: ScalarList[int]


class ScheduleEntry(Message, Protocol):
    """An entry of a map."""

    key: int  # id of a computation
    value: InstructionSequence


class HloSchedule(Message, Protocol):
    """The order of a module's instructions, by computation."""

    sequences: MessageList[ScheduleEntry]


class HloModule(Message, Protocol):
    """A module."""

    id: int
    name: bytes
    computations: MessageList[HloComputation]
    entry_computation_id: int
    schedule: HloSchedule  # empty before the compiler has one
    device_assignment: DeviceAssignment
    stack_frame_index: StackFrameIndex


class BufferLocation(Message, Protocol):
    """A value: a part of an instruction's result."""

    instruction_id: int
    shape_index: ScalarList[int]  # into its tuples


class LogicalBuffer(Message, Protocol):
    """A value that needs memory."""

    id: int
    size: int
    defined_at: BufferLocation


class AssignedBuffer(Message, Protocol):
    """Where a value lies within an allocation."""

    logical_buffer_id: int
    offset: int
    size: int


class BufferAllocation(Message, Protocol):
    """Memory that is allocated at once."""

    index: int
    size: int
    is_thread_local: bool
    is_entry_computation_parameter: bool
    maybe_live_out: bool
    is_constant: bool
    color: int  # the memory, as layouts number them
    assigned: MessageList[AssignedBuffer]


class BufferAssignment(Message, Protocol):
    """Where the values of a program lie."""

    logical_buffers: MessageList[LogicalBuffer]
    buffer_allocations: MessageList[BufferAllocation]


def new_shape() -> Shape:
    """An empty ShapeProto: an unknown shape."""
    return cast("Shape", message_class("ShapeProto")())


def new_instruction(**fields: object) -> HloInstruction:
    """An HloInstruction with these fields."""
    return cast("HloInstruction", message_class("HloInstruction")(**fields))


def new_module() -> HloModule:
    """An empty HloModule."""
    return cast("HloModule", message_class("HloModule")())


def module_of(raw: bytes) -> tuple[HloModule, bytes]:
    """The module in a serialized HloProto, and its BufferAssignmentProto as bytes, none without one.

    Raises:
        google.protobuf.message.DecodeError: the bytes are no HloProto.
    """
    proto = message_class("HloProto")()
    proto.ParseFromString(raw)
    return cast("HloModule", proto.hlo_module), bytes(proto.buffer_assignment)


def buffer_assignment_of(raw: bytes) -> BufferAssignment:
    """A serialized BufferAssignmentProto.

    Raises:
        google.protobuf.message.DecodeError: the bytes are none.
    """
    assignment = message_class("BufferAssignment")()
    assignment.ParseFromString(raw)
    return cast("BufferAssignment", assignment)
