"""Tables of device activity: launches, ops, collectives, and their merged times."""

from __future__ import annotations

from xlahouse.ingest.schema_shared import SCOPE_COLUMNS, SPAN_COLUMNS, STEP_COLUMNS
from xlahouse.ingest.table import Table, columns_of

_OP_PLACE = """
run_id str run
device_id int device
launch int launch on this device that the op ran in; NULL outside every launch
program_id uint compiled program
module str name of the program
op str name of the HLO instruction
"""

DEVICES = (
    Table(
        "launches",
        "execution of a compiled program on a device",
        columns_of(f"""
run_id str run
device_id int device
launch int number of the launch on this device, by start
launch_instance int the same execution on all its devices has one number
program_id uint compiled program
module str name of the program
{SPAN_COLUMNS}
enqueue_ps int when the host enqueued it; NULL without a link
enqueue_thread str thread of the host that enqueued it, as in host_events; NULL where it is not known
{STEP_COLUMNS}
"""),
        ("device_id", "start_ps"),
    ),
    Table(
        "ops",
        "device event",
        columns_of(f"""
{_OP_PLACE}
opcode str HLO opcode; NULL without HLO
category str compute, collective, copy, host_transfer, wait or control
hlo_category str category as traced
line str line of the plane
is_async bool start or done of an async pair, or the event on an async line
{SPAN_COLUMNS}
self_ps int duration less that of the ops nested in it on its line
attributed_ps int the op's part of its step's window: of all ops, window less idle; NULL outside windows
{STEP_COLUMNS}
microbatch int microbatch, from the scope or the manifest
tick int tick of a stage-stacked pipeline, from the scope; microbatch NULL in a tick: masked work
{SCOPE_COLUMNS}
flops float floating point operations; NULL where unknown
model_flops float of these, the ones that the model asked for
bytes_accessed float bytes read and written, as the compiler estimates
hbm_bytes float of these, the ones in HBM; NULL where the trace does not break them down
kernel str kernel that ran on a GPU; NULL elsewhere
"""),
        ("device_id", "start_ps"),
    ),
    Table(
        "collectives",
        "logical transfer on a device; a start/done pair is one row",
        columns_of(f"""
{_OP_PLACE}
kind str METRICS, Kind of a collective: all-reduce, all-gather, collective-permute, send-recv, …
instance int one number on every participant of one group's transfer, and on no other row
group_index int which of the instruction's replica groups
group_size int members of that group, traced or not
sequence int number of the transfer in its process group, where the trace states it
dtype str element type
payload_bytes int S: logical bytes of the collective instruction (METRICS, Bytes)
payload_is_bound bool S is the most that may be sent: a dimension is dynamic; NULL where S is
{SPAN_COLUMNS}
over_dcn bool Megascale carries it between slices of TPUs; NULL where nothing says so
is_async bool a start/done pair
issue_ps int duration of the start op; NULL on a synchronous collective
wait_ps int duration of the done op; NULL on a synchronous collective
arrival_ps int start of the barrier directly before the op, else the op's start
{STEP_COLUMNS}{SCOPE_COLUMNS}
"""),
        ("device_id", "start_ps"),
    ),
    Table(
        "busy_intervals",
        "merged interval of a category on a device",
        columns_of("""
run_id str run
device_id int device
request int number of the request; NULL without a marker
step int forward pass within the request; in a run without markers the launch instance
category str compute, collective, copy_running, sync_wait; also masked (compute of empty ticks), communicating
start_ps int start
duration_ps int duration
"""),
        ("device_id", "start_ps"),
    ),
    Table(
        "busy_stretches",
        "time in a step's window in which a device is busy throughout, with the idle time before it",
        columns_of("""
run_id str run
device_id int device
request int number of the request; NULL without a marker
step int forward pass; NULL on a device without any
start_ps int start; a window's first row starts with the window
duration_ps int length; 0 where the device stays idle: a launch begins or ends, or the window ends
idle_ps int idle time directly before, back to the previous row
gap_before_ps int time of the same gap before that idle time; 0 unless a launch begins or ends in the gap
gap_after_ps int time of the same gap from this row on; 0 unless a launch begins or ends in the gap
in_launch bool a launch of the step is open in the idle time; NULL without idle time
next_gap_ps int length of the whole gap that the idle time up to the window's next row is of; 0 without
next_in_launch bool a launch of the step is open in that idle time; NULL without idle time
"""),
        ("device_id", "start_ps"),
    ),
    Table(
        "device_steps",
        "step on a device, from its first op's start to its last op's end, cut where the next one starts",
        columns_of("""
run_id str run
device_id int device
request int number of the request; NULL without a marker
step int forward pass; NULL on a device without any, all of whose ops are one row
phase str phase of the step's ops; mixed where they fall under several
start_ps int start of the first op, control ops such as while loops aside
duration_ps int length of the window
compute_ps int a compute op runs
collective_ps int a collective is in flight
overlapped_ps int a collective is in flight while a compute op runs
copy_ps int a copy or host transfer runs
exposed_copy_ps int a copy or host transfer runs, no compute op does and no collective is in flight
sync_wait_ps int only a barrier wait
communicating_ps int of compute_ps and copy_ps, ops run that communicate or may: how long is unknown
pass_start_ps int start of the first op under a marker of prefill, decode or mixed; NULL without one
pass_end_ps int end of the last such op, whether the window cuts it or not; NULL without one
"""),
        ("device_id", "start_ps"),
    ),
)
