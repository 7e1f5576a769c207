"""Field tables of XSpace and HloProto, so that the synthesiser shares no decoder with the ingest.

Numbers: xplane.proto, hlo.proto and xla_data.proto of openxla/xla, checked against the descriptors
in jaxlib 0.10.2; core_details: the v6e sample.
"""

from __future__ import annotations

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SCALARS = {"int": 3, "uint": 4, "bool": 8, "str": 9, "bytes": 12, "double": 1}
PACKAGE = "synth"

# A message a paragraph: its name, then `field=number:type`; `*` = repeated, `!` = in the oneof.
TABLE = """
XSpace planes=1:*XPlane errors=2:*str warnings=3:*str hostnames=4:*str
XPlane id=1:int name=2:str lines=3:*XLine event_metadata=4:*EventEntry
  stat_metadata=5:*StatEntry stats=6:*XStat
EventEntry key=1:int value=2:XEventMetadata
StatEntry key=1:int value=2:XStatMetadata
XLine id=1:int name=2:str timestamp_ns=3:int events=4:*XEvent duration_ps=9:int
  display_name=11:str
XEvent metadata_id=1:int offset_ps=2:int duration_ps=3:int stats=4:*XStat
XStat metadata_id=1:int double_value=2:double! uint64_value=3:uint! int64_value=4:int!
  str_value=5:str! bytes_value=6:bytes! ref_value=7:uint!
XEventMetadata id=1:int name=2:str metadata=3:bytes display_name=4:str stats=5:*XStat
XStatMetadata id=1:int name=2:str
CoreDetails hostname=1:str device_ordinal=2:int core_num=3:int local_chip_id=4:int
  global_chip_id=5:int global_core_id=6:int
HloProto hlo_module=1:Module
Module name=1:str entry_computation_name=2:str computations=3:*Computation
  host_program_shape=4:ProgramShape id=5:int
  entry_computation_id=6:int device_assignment=15:DeviceAssignment
Computation name=1:str instructions=2:*Instruction program_shape=4:ProgramShape id=5:int root_id=6:int
Instruction name=1:str opcode=2:str shape=3:Shape metadata=7:OpMetadata parameter_number=9:int
  fusion_kind=11:str
  dimensions=14:*int channel_id=26:int custom_call_target=28:str id=35:int operand_ids=36:*int
  called_computation_ids=38:*int replica_groups=49:*ReplicaGroup
  source_target_pairs=52:*SourceTarget use_global_device_ids=71:bool
  async_execution_thread=79:str collective_device_list=87:DeviceList
  iota_collective_device_list=92:Iota mesh_axes_replica_group_list=93:MeshAxesList
ProgramShape parameters=1:*Shape result=2:Shape parameter_names=3:*str
Shape element_type=2:int dimensions=3:*int tuple_shapes=4:*Shape layout=5:Layout
Layout minor_to_major=1:*int tiles=6:*Tile memory_space=8:int
Tile dimensions=1:*int
OpMetadata op_type=1:str op_name=2:str source_file=3:str source_line=4:int
ReplicaGroup replica_ids=1:*int
SourceTarget source=1:int target=2:int
DeviceList replica_groups=1:*ReplicaGroup iota=2:Iota
Iota num_replica_groups=1:int num_devices_per_group=2:int iota_reshape_dims=3:*int
  iota_transpose_perm=4:*int
MeshAxesList mesh=1:MeshAxes axes=2:*AxisRef
MeshAxes axes=1:*MeshAxis device_ids=2:*int
MeshAxis name=1:str size=2:int
AxisRef mesh_axis_index=1:int sub_axis_info=2:SubAxis
SubAxis pre_size=1:int size=2:int
DeviceAssignment replica_count=1:int computation_count=2:int
  computation_devices=3:*ComputationDevice
ComputationDevice replica_device_ids=1:*int
"""

ELEMENT_TYPES = {"pred": 1, "s32": 4, "u32": 8, "f16": 10, "f32": 11, "tuple": 13, "bf16": 16}
ELEMENT_BYTES = {"pred": 1, "s32": 4, "u32": 4, "f16": 2, "f32": 4, "bf16": 2}


def _add_message(file: descriptor_pb2.FileDescriptorProto, line: str) -> None:
    name, *fields = line.split()
    message = file.message_type.add(name=name)
    for field in fields:
        key, _, kind = field.partition(":")
        label, _, number = key.partition("=")
        repeated, one_of, kind = kind.startswith("*"), kind.endswith("!"), kind.strip("*!")
        entry = message.field.add(name=label, number=int(number), label=3 if repeated else 1)
        if kind in SCALARS:
            entry.type = SCALARS[kind]
        else:
            entry.type, entry.type_name = 11, f".{PACKAGE}.{kind}"
        if one_of:
            if not message.oneof_decl:
                message.oneof_decl.add(name="value")
            entry.oneof_index = 0


def _messages() -> dict[str, type]:
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{PACKAGE}.proto", package=PACKAGE, syntax="proto3"
    )
    for line in TABLE.replace("\n  ", " ").strip().splitlines():
        _add_message(file, line)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        message.name: message_factory.GetMessageClass(
            pool.FindMessageTypeByName(f"{PACKAGE}.{message.name}")
        )
        for message in file.message_type
    }


MESSAGES = _messages()
XSpace, XPlane, XStat, CoreDetails = (
    MESSAGES[name] for name in ("XSpace", "XPlane", "XStat", "CoreDetails")
)
HloProto = MESSAGES["HloProto"]
