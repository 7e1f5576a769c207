"""The protobuf messages that traces are made of, as tables of field numbers, and their decoders.

Only the fields that ingest reads are listed; protobuf skips the rest. Field numbers: openxla/xla
(xla/tsl/profiler/protobuf/xplane.proto, xla/service/hlo.proto, xla/xla_data.proto). Text that a trace
may hold in any encoding is declared as bytes. Maps are declared as on the wire: repeated
entries of key and value.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from xlahouse.ingest.events.protobuf import ColumnCodec, Messages

if TYPE_CHECKING:
    from google.protobuf.message import Message

MESSAGES = {
    "XStat": """
        1 metadata_id int64
        2 double_value double?
        3 uint64_value uint64?
        4 int64_value int64?
        5 str_value bytes?
        6 bytes_value bytes?
        7 ref_value uint64?
    """,
    "XEvent": """
        1 metadata_id int64
        2 offset_ps int64
        3 duration_ps int64
        4 stats XStat*
        5 num_occurrences int64
    """,
    "XLine": """
        1 id int64
        2 name bytes
        3 timestamp_ns int64
        4 events XEvent*
        11 display_name bytes
    """,
    # Parts of a line that are decoded by themselves: without its events, and with their stats as bytes.
    "XLineHead": """
        1 id int64
        2 name bytes
        3 timestamp_ns int64
        11 display_name bytes
    """,
    "XEventCore": """
        1 metadata_id int64
        2 offset_ps int64
        3 duration_ps int64
        4 stats bytes*
    """,
    "XLineCore": "4 events XEventCore*",
    # The field in place of an event's time, where one event stands for several of its kind.
    "XEventOften": "5 num_occurrences int64",
    "XLineOften": "4 events XEventOften*",
    "XEventMetadata": """
        1 id int64
        2 name bytes
        4 display_name bytes
        5 stats XStat*
    """,
    "XEventMetadataEntry": """
        1 key int64
        2 value XEventMetadata
    """,
    "XStatMetadata": """
        1 id int64
        2 name bytes
    """,
    "XStatMetadataEntry": """
        1 key int64
        2 value XStatMetadata
    """,
    "XPlane": """
        1 id int64
        2 name bytes
        3 lines XLine*
        4 event_metadata XEventMetadataEntry*
        5 stat_metadata XStatMetadataEntry*
        6 stats XStat*
    """,
    "CoreDetails": """
        1 hostname bytes
        2 device_ordinal int32
        3 core_num int32
        4 local_chip_id int32
        5 global_chip_id int32
        6 global_core_id int32
        7 is_sparse_core bool
    """,
    "MemoryAccessed": """
        2 memory_space int64
        3 bytes_accessed uint64
    """,
    "MemoryAccessBreakdown": "1 memory_accessed MemoryAccessed*",
    "TileProto": "1 dimensions int64*",
    "LayoutProto": """
        1 minor_to_major int64*
        6 tiles TileProto*
        7 element_size_in_bits int64
        8 memory_space int64
    """,
    "ShapeProto": """
        2 element_type int32
        3 dimensions int64*
        4 tuple_shapes ShapeProto*
        5 layout LayoutProto
        6 is_dynamic_dimension bool*
    """,
    "OpMetadata": """
        1 op_type bytes
        2 op_name bytes
        3 source_file bytes
        4 source_line int32
        15 stack_frame_id int32
    """,
    "ReplicaGroup": "1 replica_ids int64*",
    "SourceTarget": """
        1 source int64
        2 target int64
    """,
    "IotaReplicaGroupList": """
        1 num_replica_groups int64
        2 num_devices_per_group int64
        3 iota_reshape_dims int64*
        4 iota_transpose_perm int32*
    """,
    "MeshAxis": """
        1 name bytes
        2 size int64
    """,
    "Mesh": """
        1 axes MeshAxis*
        2 device_ids int64*
    """,
    "SubAxisInfo": """
        1 pre_size int64
        2 size int64
    """,
    "AxisRef": """
        1 mesh_axis_index int64
        2 sub_axis_info SubAxisInfo
    """,
    "MeshAxesList": """
        1 mesh Mesh
        2 axes AxisRef*
    """,
    "CollectiveDeviceList": """
        1 replica_groups ReplicaGroup*
        2 iota_replica_group_list IotaReplicaGroupList
    """,
    "FrontendAttribute": """
        1 key bytes
        2 value bytes
    """,
    "FrontendAttributes": "1 map FrontendAttribute*",
    "Literal": """
        4 s32s int32*
        5 s64s int64*
        6 u32s uint32*
        7 u64s uint64*
    """,
    "WindowDimension": """
        1 size int64
        2 stride int64
        3 padding_low int64
        4 padding_high int64
        5 window_dilation int64
        6 base_dilation int64
    """,
    "Window": "1 dimensions WindowDimension*",
    "ConvolutionDimensionNumbers": """
        3 kernel_input_feature_dimension int64
        4 kernel_output_feature_dimension int64
        6 kernel_spatial_dimensions int64*
        7 input_batch_dimension int64
        8 input_feature_dimension int64
        9 output_batch_dimension int64
        10 output_feature_dimension int64
        11 input_spatial_dimensions int64*
        12 output_spatial_dimensions int64*
    """,
    "DotDimensionNumbers": """
        1 lhs_contracting_dimensions int64*
        2 rhs_contracting_dimensions int64*
        3 lhs_batch_dimensions int64*
        4 rhs_batch_dimensions int64*
    """,
    "HloInstruction": """
        1 name bytes
        2 opcode bytes
        3 shape ShapeProto
        7 metadata OpMetadata
        8 literal bytes
        9 parameter_number int64
        13 tuple_index int64
        14 dimensions int64*
        15 window Window
        16 convolution_dimension_numbers ConvolutionDimensionNumbers
        26 channel_id int64
        28 custom_call_target bytes
        30 dot_dimension_numbers DotDimensionNumbers
        35 id int64
        36 operand_ids int64*
        38 called_computation_ids int64*
        43 backend_config bytes
        47 is_host_transfer bool
        49 replica_groups ReplicaGroup*
        52 source_target_pairs SourceTarget*
        63 comparison_direction bytes
        68 frontend_attributes FrontendAttributes
        71 use_global_device_ids bool
        79 async_execution_thread bytes
        87 collective_device_list CollectiveDeviceList
        92 iota_collective_device_list IotaReplicaGroupList
        93 mesh_axes_replica_group_list MeshAxesList
    """,
    "HloComputation": """
        1 name bytes
        2 instructions HloInstruction*
        5 id int64
        6 root_id int64
    """,
    "ComputationDevice": "1 replica_device_ids int64*",
    "DeviceAssignment": """
        1 replica_count int32
        2 computation_count int32
        3 computation_devices ComputationDevice*
    """,
    "FileLocation": """
        1 file_name_id int32
        3 line int32
    """,
    "StackFrame": "1 file_location_id int32",
    "StackFrameIndex": """
        1 file_names bytes*
        2 function_names bytes*
        3 file_locations FileLocation*
        4 stack_frames StackFrame*
    """,
    "InstructionSequence": "1 instruction_ids int64*",
    "ScheduleEntry": """
        1 key int64
        2 value InstructionSequence
    """,
    "HloSchedule": "1 sequences ScheduleEntry*",
    "HloModule": """
        1 name bytes
        3 computations HloComputation*
        5 id int64
        6 entry_computation_id int64
        7 schedule HloSchedule
        15 device_assignment DeviceAssignment
        17 stack_frame_index StackFrameIndex
    """,
    # The BufferAssignment is decoded by itself, so that damage to it costs nothing else.
    "HloProto": """
        1 hlo_module HloModule
        3 buffer_assignment bytes
    """,
    "BufferLocation": """
        3 shape_index int64*
        4 instruction_id int64
    """,
    "LogicalBuffer": """
        1 id int64
        2 size int64
        3 defined_at BufferLocation
    """,
    "AssignedBuffer": """
        1 logical_buffer_id int64
        2 offset int64
        3 size int64
    """,
    "BufferAllocation": """
        1 index int64
        2 size int64
        3 is_thread_local bool
        5 is_entry_computation_parameter bool
        7 maybe_live_out bool
        8 color int64
        9 assigned AssignedBuffer*
        12 is_constant bool
    """,
    "BufferAssignment": """
        1 logical_buffers LogicalBuffer*
        3 buffer_allocations BufferAllocation*
    """,
}


_TYPES = Messages(MESSAGES, "xlahouse.trace")


def message_class(name: str) -> type[Message]:
    """The protobuf class of a message in MESSAGES, to parse or to build one."""
    return _TYPES.message(name)


@cache
def arrow_decoder(name: str) -> ColumnCodec:
    """The decoder of many serialized messages of a type at once."""
    return _TYPES.columns(name)
