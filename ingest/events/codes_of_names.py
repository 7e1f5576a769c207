"""Codes of findings about names that readers depend on and a trace lacks, as after a renaming release."""

from __future__ import annotations

from xlahouse.ingest.events.issues import Code

ALLOCATOR_UNKNOWN = Code(
    "allocator_unknown",
    "info",
    "events of memory allocators that lack their allocator, its device, or one of their numbers of bytes",
    "the memory of these devices is NULL, or known in part",
)
COLUMNS_UNSTATED = Code(
    "columns_unstated",
    "info",
    "facts that traces of this kind usually state, and this one does not",
    "they are NULL, and so are the columns of views that rest on them",
    "compare with another capture: the profiler may leave them out, or name them otherwise in a later "
    "release, which a newer xlahouse reads",
)
COPY_WAY_UNKNOWN = Code(
    "copy_way_unknown",
    "info",
    "copies of a GPU whose name does not state between which memories they copy",
    "they count as copies within the device, although one may be to or from the host",
)
DEVICE_KIND_UNKNOWN = Code(
    "device_kind_unknown",
    "info",
    "the trace does not state the kind of its devices",
    "peaks, utilization, MFU and rooflines are NULL, except where the trace states a peak itself",
    "state the kind: `xlahouse set device-kind RUN KIND`",
)
GROUP_STATED = Code(
    "group_stated",
    "info",
    "collectives whose group the trace does not state span all ranks, as --group all states",
    "axes, wire bytes and instances of these are only as right as that statement",
)
HOST_UNSEEN = Code(
    "host_unseen",
    "info",
    "a file has devices, but no events of their host",
    "steps that the host marked, compiles and enqueue times are unknown",
)
LAUNCH_UNLINKED = Code(
    "launch_unlinked",
    "info",
    "launches that no event of the host is linked to",
    "when they were enqueued is NULL, and so are their queue and dispatch times",
)
OP_END_UNKNOWN = Code(
    "op_end_unknown",
    "info",
    "ops of virtual CPU devices that announce an event at their end, under a name that is not known here",
    "an op that completes on another thread lasts longer than its duration here",
)
OPS_MISSING = Code(
    "ops_missing",
    "warning",
    "devices that launched programs, or have other events, and no op on a timeline",
    "their compute and collectives are missing",
    "capture again for less time: profilers drop events when their buffers are full",
)
PEAK_UNKNOWN = Code(
    "peak_unknown",
    "info",
    "GPUs whose peak FLOP/s the trace does not state; the shipped table has TPUs only",
    "MFU and the math side of rooflines are NULL",
    "state it: `xlahouse set peaks RUN bf16_flops=NUMBER`",
)
PROGRAM_UNKNOWN = Code(
    "program_unknown",
    "warning",
    "instructions in the names of ops, in a trace that does not state which program they are of",
    "their layers and groups are NULL, and so is what follows from these",
    "give the compiler's dump: `xlahouse ingest TRACES --run RUN --hlo-dump FOLDER`",
)
REQUESTS_UNNAMED = Code(
    "requests_unnamed",
    "warning",
    "requests of a server's steps whose ids the trace lacks: the profiler cut them off, or they had no "
    "token in the step",
    "latencies of requests that may have been in such a step are NULL",
)
SCOPE_UNKNOWN = Code(
    "scope_unknown",
    "info",
    "no op states where in the model it comes from",
    "layer and component are NULL in all tables and views",
    "name scopes in the model; under torch_xla set XLA_IR_DEBUG=1 and XLA_HLO_DEBUG=1; or give the "
    "compiler's dump: `xlahouse ingest TRACES --run RUN --hlo-dump FOLDER`",
)
UNKNOWN_CATEGORY = Code(
    "unknown_category",
    "warning",
    "Chrome events of a category that no reader knows",
    "they are in host_events; if a device ran them, its ops are missing",
)
UNKNOWN_LINE = Code(
    "unknown_line",
    "warning",
    "lines of a device that no reader knows",
    "their events are in host_events; if they are ops under a new name, these are missing",
)
WAIT_UNKNOWN = Code(
    "wait_unknown",
    "info",
    "events on the line of waits whose names are not those of known waits: scopes of kernels, or new waits",
    "they are in host_events; if they wait, that time counts as idle",
)
WAITS_UNSEEN = Code(
    "waits_unseen",
    "info",
    "devices whose timeline has no wait",
    "time at a barrier counts as idle, and a collective's arrival is its own start",
)
