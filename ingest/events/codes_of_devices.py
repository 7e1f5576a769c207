"""Codes of findings about devices, clocks, launches and steps."""

from __future__ import annotations

from xlahouse.ingest.events.issues import Code

CLOCKS_UNKNOWN = Code(
    "clocks_unknown",
    "warning",
    "a file does not state when its profile started",
    "times of files whose clocks could not be aligned by their collectives are not compared",
)
CLOCKS_AMBIGUOUS = Code(
    "clocks_ambiguous",
    "warning",
    "launches repeat so evenly that several offsets fit between clocks of different files",
    "nothing is compared across these clocks: launches and instances are not matched, latency is NULL",
    "state the offset: `xlahouse ingest TRACES --run RUN --clock NAME=PS`; or capture with step markers on "
    "every host",
)
CLOCKS_UNCONNECTED = Code(
    "clocks_unconnected",
    "info",
    "clocks of different files whose devices share no synchronous collective",
    "a request is timed on each clock from its own first marker, and the longest time counts; skews are NULL",
    "state the offset: `xlahouse ingest TRACES --run RUN --clock NAME=PS`",
)
DEVICE_AMBIGUOUS = Code(
    "device_ambiguous",
    "warning",
    "programs on virtual CPU devices that started late, each on one of the devices left over",
    "each may have run on another of these devices",
)
DEVICE_COLLISION = Code(
    "device_collision",
    "error",
    "two planes of a file claim the same device",
    "the later plane's events are rejected",
)
DEVICE_CONFLICT = Code(
    "device_conflict",
    "error",
    "collectives ran on a deduced device that is not in their rendezvous group",
    "the deduced devices of that program may be wrong",
)
DEVICE_INFERRED = Code(
    "device_inferred",
    "info",
    "virtual CPU devices, whose identity is deduced and whose times are not those of an accelerator",
    "utilization, MFU, MBU and stragglers are NULL",
)
DEVICE_VIRTUAL = Code(
    "device_virtual",
    "info",
    "virtual CPU devices: threads that share the cores of a host",
    "their structure is that of an accelerator's run, but their times are not",
)
DEVICE_NUMBER_ASSUMED = Code(
    "device_number_assumed",
    "warning",
    "a plane does not state the number that replica groups give its device",
    "the number within the host is used (with one file per rank, the rank), which is wrong on every host but "
    "the first",
)
DEVICE_UNKNOWN = Code(
    "device_unknown",
    "warning",
    "ops of virtual CPU devices whose thread-pool chain leads to no execution",
    "they are in host_events, not in ops",
    "start the profile before the program; instead of a Chrome trace give the xplane: "
    "`xlahouse ingest XPLANE --run RUN`",
)
DEVICES_MISSING = Code(
    "devices_missing",
    "warning",
    "programs name devices that the trace lacks",
    "their side of each transfer is unknown, and the run is partial",
    "read the files of all hosts as one run: `xlahouse ingest TRACES MORE --run RUN`",
)
DEVICES_REPEATED = Code(
    "devices_repeated",
    "warning",
    "files have the device numbers, or ranks, of other files of the run: two processes that both begin with "
    "0, or one that was captured twice",
    "they are a world of their own, whose devices count beside the others; a transfer between worlds is "
    "never one instance",
    "if these are the same devices, at another time or in another kind of trace, they are another run: "
    "`xlahouse ingest FILE --run NAME`",
    info_when="the files state no ranks",
)
LAUNCH_UNKNOWN = Code(
    "launch_unknown",
    "warning",
    "calls that launched GPU kernels lie in no execution that can be identified",
    "these kernels or ops have no launch and no step",
)
PARTICIPANTS_MISSING = Code(
    "participants_missing",
    "warning",
    "instances in which traced members of the group do not appear",
    "their skew and waiting are those of the devices that do appear",
    "see the findings about clocks; profiling that begins or ends inside a launch also cuts instances",
)
MARKER_INCOMPLETE = Code(
    "marker_incomplete",
    "warning",
    "step markers without the numbers `request` and `step_num`",
    "their requests have no latency",
    "give each step marker both numbers",
)
MARKER_REPEATED = Code(
    "marker_repeated",
    "warning",
    "step markers with the request and step number of an earlier one on their host",
    "both are one step, from the first one's start to the last one's end",
    "give each request of a capture a number of its own",
)
MARKERS_CROSS = Code(
    "markers_cross",
    "warning",
    "launches that were enqueued while step markers were open that do not nest or are on different threads, "
    "and none of them is on the launch's own thread",
    "they have no request and no step, and values that rest on these are NULL",
    "open each step's marker on the thread that enqueues its programs",
)
ONE_RANK = Code(
    "one_rank",
    "info",
    "the files of PyTorch's profiler are of fewer ranks than took part",
    "the other ranks' side of each transfer is unknown",
    "read the files of all ranks as one run: `xlahouse ingest TRACES MORE --run RUN`",
)
OP_OUTSIDE_LAUNCH = Code(
    "op_outside_launch",
    "info",
    "ops outside every launch",
    "they have no step and no phase",
)
PROGRAM_CONFLICT = Code(
    "program_conflict",
    "warning",
    "files of a run give one id to different programs: their processes number programs by themselves",
    "they are worlds of their own, each with its own programs; a transfer between worlds is "
    "never one instance",
)
SPARSECORE_OPS = Code(
    "sparsecore_ops",
    "info",
    "ops of SparseCores",
    "they are in ops alone: no launch, no step, no part in the time split",
)
UNEVEN_ENDS = Code(
    "uneven_ends",
    "warning",
    "synchronous collectives whose members end over 1 us apart",
    "clocks disagree, so their skew is NULL",
)
STEPS_MISSING = Code(
    "steps_missing",
    "warning",
    "steps that the capture ran have no launch on some device of the trace",
    "sums and times are those of the steps that arrived: the tracer's buffers were full, or the file was cut",
    "profile fewer steps: lower `profiled_steps` or `requests` in the plan, and capture again",
)
