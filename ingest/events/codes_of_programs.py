"""Codes of findings about programs, their HLO, ops and collectives."""

from __future__ import annotations

from xlahouse.ingest.events.issues import Code

_WITH_DUMP = "give the compiler's dump: `xlahouse ingest TRACES --run RUN --hlo-dump FOLDER`"

ASYNC_KIND_UNKNOWN = Code(
    "async_kind_unknown",
    "warning",
    "async ops without HLO, whose names and shapes do not say what they transfer",
    "they are collectives of unknown kind, without payload and group, although one may be a copy",
    _WITH_DUMP,
)
ASYNC_UNPAIRED = Code(
    "async_unpaired",
    "warning",
    "start or done ops of collectives without their partner: profiling began or ended between the two",
    "these transfers are left out",
)
BAD_REPLICA_GROUPS = Code(
    "bad_replica_groups",
    "warning",
    "groups of a collective cannot be read, or contradict themselves or the device assignment",
    "its group, axis and wire bytes are NULL",
)
CATEGORY_INFERRED = Code(
    "category_inferred",
    "info",
    "ops without HLO: their category (of a collective its kind) is deduced from names or instruction texts",
    "both may be wrong, and the payload is NULL where the text has none",
)
COLLECTIVE_KIND_UNKNOWN = Code(
    "collective_kind_unknown",
    "warning",
    "NCCL kernels of a kind that HLO lacks (reduce, gather, scatter, barrier), or whose name states none: "
    "one that sends and receives may be part of any",
    "their kind is NULL",
    info_when="the trace is of XLA's profiler",
)
COLLECTIVE_UNSEEN = Code(
    "collective_unseen",
    "warning",
    "collectives of programs that ran are on no timeline: a branch that was not taken, or events that the "
    "profiler dropped",
    "their traffic is missing",
)
COLLECTIVE_WITHOUT_GROUP = Code(
    "collective_without_group",
    "warning",
    "collectives whose replica group is unknown",
    "they have no axis, no wire bytes and no instance",
    "if they span all ranks: `xlahouse ingest TRACES --run RUN --group all`; else give the compiler's "
    "dump, with --hlo-dump FOLDER",
)
COLLECTIVE_WITHOUT_PAYLOAD = Code(
    "collective_without_payload",
    "warning",
    "collectives whose size neither their program's HLO nor the event states",
    "they have no bytes and no bandwidth",
    _WITH_DUMP,
)
BUFFERS_UNREAD = Code(
    "buffers_unread",
    "warning",
    "the places of a program's values in memory cannot be read",
    "table buffers and the views of a program's memory lack it",
    "capture again, or give the compiler's dump with --hlo-dump",
)
DAMAGED_HLO = Code(
    "damaged_hlo",
    "warning",
    "a program's HLO, or a part of it, cannot be read",
    "the facts that it would give of its ops are NULL",
    _WITH_DUMP,
)
DEVICE_ASSIGNMENT_UNKNOWN = Code(
    "device_assignment_unknown",
    "warning",
    "HLO does not state which device runs which partition",
    "groups take the numbers of partitions for those of devices: the axis of a transfer, the members of its "
    "instance, and the devices and links that carry its bytes may be wrong",
    "give the xplane in place of its Chrome trace, or the compiler's dump: `xlahouse ingest TRACES --run "
    "RUN --hlo-dump FOLDER`",
    info_when="every group spans all devices",
)
EXECUTIONS_UNKNOWN = Code(
    "executions_unknown",
    "warning",
    "collectives of a compiled program in a branch, or in a loop whose rounds its HLO does not state: how "
    "often they run is decided at run time",
    "the sums of collectives and bytes that they belong to are NULL",
)
HLO_DUMP_AMBIGUOUS = Code(
    "hlo_dump_ambiguous",
    "warning",
    "several dumps have a program's name, and neither an id nor the names and shapes of ops single one out",
    "none of these dumps is used for it",
    "keep only this run's dumps in the folder that --hlo-dump names",
)
HLO_DUMP_UNUSED = Code(
    "hlo_dump_unused",
    "warning",
    "--hlo-dump names no dump, or none of a program that ran",
    "none of the dumps is used",
    "name the folder that the compiler dumped this run's programs into: "
    "`xlahouse ingest TRACES --run RUN --hlo-dump FOLDER`",
)
HLO_FIELDS_UNKNOWN = Code(
    "hlo_fields_unknown",
    "warning",
    "instructions with fields that this version does not know: a later compiler wrote them",
    "a value in a new field that replaces a known one counts as absent: sizes, groups and "
    "pairs may be wrong",
    "install a newer xlahouse",
)
KERNEL_COMMUNICATES = Code(
    "kernel_communicates",
    "warning",
    "kernels that communicate by themselves while they compute, or sends and recvs of unknown purpose",
    "times of compute and communication, and their ratio, are NULL in the run; their bytes are in no traffic",
)
KERNEL_WITHOUT_OP = Code(
    "kernel_without_op",
    "info",
    "GPU kernels that name no HLO op",
    "they are ops by their own name, without layer and source",
)
KIND_INFERRED = Code(
    "kind_inferred",
    "warning",
    "collectives whose kind no HLO states: it is taken from a GPU kernel's name, which NCCL may share "
    "between kinds, or from the name and shapes of the op that wraps them",
    "the kind may be wrong, and a kernel has no payload and no group",
    info_when="GPU kernels in a trace of XLA's profiler name no HLO op",
)
NO_HLO = Code(
    "no_hlo",
    "warning",
    "programs whose HLO neither the trace nor a dump holds",
    "kinds, sizes and groups are those in the names of their ops, and fusions are opaque",
    _WITH_DUMP,
)
OPCODE_UNKNOWN = Code(
    "opcode_unknown",
    "warning",
    "instructions of an opcode that this version does not know",
    "those that state groups or pairs of devices are collectives of unknown kind and size, all others count "
    "as compute, although one may copy or communicate",
    "install a newer xlahouse",
)
SIZE_BOUND = Code(
    "size_bound",
    "info",
    "collectives of arrays whose size is decided as the program runs, and is at most the one in their shape",
    "their bytes are bounds (payload_is_bound), and so is what follows from them",
)
SIZE_UNKNOWN = Code(
    "size_unknown",
    "info",
    "shapes in HLO with a dimension that has no size, written ?",
    "their bytes are NULL, and so is the payload of ops that move them",
)
