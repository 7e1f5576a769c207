"""The tables of a warehouse: every column's name, type and meaning, written in this one place.

Time is BIGINT picoseconds since the run's time zero; a column's unit is part of its name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

LAYOUT_VERSION = 1
INGEST_VERSION = 9


@lru_cache(maxsize=1)
def types() -> dict[str, pa.DataType]:
    """A column's type -> Arrow's; Arrow loads here, since a query's first row would wait for it."""
    import pyarrow as pa

    return {
        "str": pa.string(),
        "bool": pa.bool_(),
        "int": pa.int64(),
        "uint": pa.uint64(),
        "float": pa.float64(),
        "time": pa.timestamp("us", tz="UTC"),
        "ints": pa.list_(pa.int64()),
        "mesh": pa.list_(pa.struct([("axis", pa.string()), ("size", pa.int64())])),
        "source_files": pa.list_(
            pa.struct([("path", pa.string()), ("bytes", pa.int64()), ("sha256", pa.string())])
        ),
        "files": pa.list_(
            pa.struct([("table", pa.string()), ("path", pa.string()), ("rows", pa.int64())])
        ),
    }


def __getattr__(name: str) -> Any:
    """TYPES: `types()` as a constant."""
    if name == "TYPES":
        return types()
    raise AttributeError(f"module {__name__} has no attribute {name}")


@dataclass(frozen=True)
class Column:
    """One column: its name, a key of types(), and what it means."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True)
class Table:
    """One table: what a row is, its columns, and how its files are sorted."""

    name: str
    row: str
    columns: tuple[Column, ...]
    sort: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema, the same for an empty, an all-NULL and a full table."""
        import pyarrow as pa

        return pa.schema([(column.name, types()[column.type]) for column in self.columns])


def _columns(text: str) -> tuple[Column, ...]:
    """Lines of `name type meaning` -> columns."""
    lines = [line.split(None, 2) for line in text.splitlines() if line]
    return tuple(Column(name, kind, meaning) for name, kind, meaning in lines)


# The marker that an event falls under; every step grain is (run_id, device_id, request, step).
_STEP = """
phase str prefill, decode, mixed, warmup, compile or step; NULL outside every marker
request int number of the request; warm-ups count down from -1; NULL without a marker
step int forward pass: 0 is prefill, k the k-th decode; without markers the launch instance
"""
_SPAN = """
start_ps int start
duration_ps int duration
"""
_SCOPE = """
layer int index of the model's layer, from the module path
component str attention, mlp, moe, embedding, head or norm, from the module path
"""
_OP = """
run_id str run
device_id int device
launch int launch on this device that the op ran in; NULL outside every launch
program_id uint compiled program
module str name of the program
op str name of the HLO instruction
"""

TABLES = (
    Table(
        "runs",
        "run",
        _columns("""
run_id str hash of the trace files' contents and the manifest
name str what the run is called: the manifest's name, else the trace's
captured_at time when profiling started
framework str torch_xla, jax, …
framework_versions str JSON object of package versions
model str model
model_family str architecture, such as qwen3
setup str hash of all that was chosen but the repeat
layers int layers of the model
hidden_size int width of the residual stream
dtype str type of weights and activations
batch_size int sequences in a batch, over all devices
microbatches int microbatches that a batch is split into
prompt_tokens int tokens of a prompt
output_tokens int tokens generated for a sequence, the first included
parallelism str label, such as tp2.pp2
mesh mesh axes of the device mesh, major to minor
mesh_device_ids ints device ids in mesh order; NULL: ascending
device_kind str such as TPU v6 Lite or cpu
device_count int devices traced
expected_device_count int devices that the manifest or the programs name
host_count int hosts traced
source str xplane or chrome
source_files source_files what was read
epoch_ns int UNIX time of time zero, ns; NULL where unknown
duration_ps int from the first to the end of the last event
status str complete, partial or no_device_events
measured_ttft_s float host clock, mean over requests
measured_tpot_s float host clock, mean over requests
ingest_version int version of the ingest that wrote the run
ingested_at time when
options str JSON object of the ingest options that shaped the tables
manifest str the manifest, whole, as JSON
files files the run's Parquet files, relative to the warehouse: nothing else belongs to the run
parameters int weights of the model
active_parameters int of these, the ones a token passes through; NULL where the experts are not known
weight_bytes int bytes of all weights, each counted once
kv_bytes_per_token int bytes of keys and values of one token of one sequence
attention_pair_flops float FLOPs of attention for one token and one token of its context, over all layers
vocab_size int tokens of the vocabulary
expert_layers int layers whose feed-forward network is experts; 0: the model has none
experts int experts of such a layer, the shared ones left out
experts_per_token int of these, the ones that a token is sent to
capacity_factor float places of an expert over its fair share; experts / experts_per_token: none is dropped
stage_layers int layers that a stage of a stacked pipeline holds; NULL without one
tensor_weights int weights of matrices that a tensor axis splits, but the experts'; a tied head counts again
whole_weights int weights of matrices that no tensor axis splits; vectors and routers left out
expert_weights int weights of experts
weight_matrices int matrices that these are in, all experts' gate with up being one, and their down
workload str training, inference or serving: as the workload card says; a capture's is inference
iterations int forward passes that were profiled, or what a workload card counts as iterations
card str the workload card that facts were taken from, as JSON; NULL without one
"""),
    ),
    Table(
        "devices",
        "device that the run names, traced or only a member of a replica group",
        _columns("""
run_id str run
device_id int device, unique across hosts and processes
world int processes whose programs share device numbers
logical_id int number by which replica groups name it in its world
traced bool whether the trace has its events
host str host
process int process on the host
plane str plane that it was read from
local_ordinal int number within the host
kind str such as TPU v6 Lite or cpu
core str tensorcore, sparsecore, gpu or cpu
chip_id int global number of its chip
coords ints coordinates of its chip, which the manifest alone tells: traces hold none
peak_flops float peak FLOP/s
peak_hbm_bytes_per_s float peak HBM bandwidth
peak_ici_bytes_per_s float peak bandwidth of one ICI link, one way
peaks_source str trace or table
inferred bool identity was deduced, as on CPU
"""),
        ("device_id",),
    ),
    Table(
        "phases",
        "marked interval",
        _columns(f"""
run_id str run
host str host
{_STEP}{_SPAN}
source str marker, module or manifest
"""),
        ("start_ps",),
    ),
    Table(
        "launches",
        "execution of a compiled program on a device",
        _columns(f"""
run_id str run
device_id int device
launch int number of the launch on this device, by start
launch_instance int the same execution on all its devices has one number
program_id uint compiled program
module str name of the program
{_SPAN}
enqueue_ps int when the host enqueued it; NULL without a link
{_STEP}
"""),
        ("device_id", "start_ps"),
    ),
    Table(
        "ops",
        "device event",
        _columns(f"""
{_OP}
opcode str HLO opcode; NULL without HLO
category str compute, collective, copy, host_transfer, wait or control
hlo_category str category as traced
line str line of the plane
is_async bool start or done of an async pair, or the event on an async line
{_SPAN}
self_ps int duration less that of the ops nested in it on its line
{_STEP}
microbatch int microbatch, from the scope or the manifest
tick int tick of a stage-stacked pipeline, from the scope; microbatch NULL in a tick: masked work
{_SCOPE}
flops float floating point operations; NULL where unknown
model_flops float of these, the ones that the model asked for
bytes_accessed float bytes read and written, as the compiler estimates
hbm_bytes float of these, the ones in HBM; NULL where the trace does not break them down
kernel str what ran on a GPU; NULL elsewhere
"""),
        ("device_id", "start_ps"),
    ),
    Table(
        "collectives",
        "logical transfer on a device; a start/done pair is one row",
        _columns(f"""
{_OP}
kind str METRICS, Kind of a collective: all-reduce, all-gather, collective-permute, send-recv, …
instance int one number on every participant of one group's transfer, and on no other row
group_index int which of the instruction's replica groups
group_size int members of that group, traced or not
dtype str element type
payload_bytes int S: logical bytes of the collective instruction (METRICS, Bytes)
{_SPAN}
is_async bool a start/done pair
issue_ps int duration of the start op; NULL on a synchronous collective
wait_ps int duration of the done op; NULL on a synchronous collective
arrival_ps int start of the barrier directly before the op, else the op's start
{_STEP}{_SCOPE}
"""),
        ("device_id", "start_ps"),
    ),
    Table(
        "busy_intervals",
        "merged interval of a category on a device",
        _columns("""
run_id str run
device_id int device
request int number of the request; NULL without a marker
step int forward pass within the request; in a run without markers the launch instance
category str compute, collective, copy_running, sync_wait; masked: compute of empty pipeline ticks, again
start_ps int start
duration_ps int duration
"""),
        ("device_id", "start_ps"),
    ),
    Table(
        "busy_stretches",
        "time in a step's window in which a device is busy throughout, with the idle time before it",
        _columns("""
run_id str run
device_id int device
request int number of the request; NULL without a marker
step int forward pass; NULL on a device without any
start_ps int start; a window's first row starts with the window
duration_ps int length; 0 where the device stays idle: a launch begins or ends, or the window ends
idle_ps int idle time directly before, back to the row before
gap_before_ps int time of the same gap before that idle time; 0 unless a launch begins or ends in the gap
gap_after_ps int time of the same gap from this row on; 0 unless a launch begins or ends in the gap
in_launch bool a launch of the step is open in the idle time; NULL where there is none
next_gap_ps int length of the whole gap that the idle time up to the window's next row is of; 0 without
next_in_launch bool a launch of the step is open in that idle time; NULL where there is none
"""),
        ("device_id", "start_ps"),
    ),
    Table(
        "device_steps",
        "step on a device, from its first op's start to its last op's end, cut where the next one starts",
        _columns("""
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
pass_start_ps int start of the first op under a marker of prefill, decode or mixed; NULL without
pass_end_ps int end of the last such op, be it cut from the window or not; NULL without
"""),
        ("device_id", "start_ps"),
    ),
    Table(
        "replica_groups",
        "member of a replica group of a collective instruction",
        _columns("""
run_id str run
world int processes whose programs share device numbers
program_id uint compiled program
op str name of the HLO instruction
group_index int which group of the instruction
position int place within the group, from 0
logical_id int member, as the program names it
device_id int member; NULL where no device of that number is known
"""),
        ("program_id", "op", "group_index", "position"),
    ),
    Table(
        "permute_pairs",
        "pair of a collective-permute",
        _columns("""
run_id str run
world int processes whose programs share device numbers
program_id uint compiled program
op str name of the HLO instruction
source_device_id int sender
target_device_id int receiver
"""),
        ("program_id", "op"),
    ),
    Table(
        "instructions",
        "HLO instruction of a program",
        _columns(f"""
run_id str run
world int processes whose programs share device numbers
program_id uint compiled program
module str name of the program
computation str computation that holds it
op str name
opcode str opcode
called str names of the computations it calls, joined by a comma
operands str names of its operands, joined by a comma
shape str result shape, with layout
dtype str element type; tuple for tuples
dims ints dimensions; NULL for tuples
layout ints dimensions from minor to major
tiling str tiles, such as (8,128)(2,1)
memory_space int 0 HBM, 1 VMEM, 5 host, …
logical_bytes int dims x dtype, summed over a tuple
padded_bytes int bytes that the tiled layout occupies
framework_op str op_name of the framework
source_file str file of the framework's code
source_line int line there
{_SCOPE}
tick int tick of a stage-stacked pipeline, from the scope xlahouse.tick.<t>
"""),
        ("program_id", "computation", "op"),
    ),
    Table(
        "host_events",
        "event of a host thread, or of a line that has no table of its own",
        _columns("""
run_id str run
host str host
thread str thread, or plane and line
name str name
start_ps int start
duration_ps int duration
args str stats as a JSON object
"""),
        ("thread", "start_ps"),
    ),
    Table(
        "counters",
        "sample of a counter",
        _columns("""
run_id str run
device_id int device; NULL for a host's counter
name str counter
start_ps int when
value float value
"""),
        ("name", "start_ps"),
    ),
    Table(
        "issues",
        "finding about the data",
        _columns("""
run_id str run
source str file, plane or line that it is about
severity str info, warning or error
code str stable name of the kind of finding
message str what was found, and what it costs
count int how many events or rows it concerns
"""),
    ),
    Table(
        "coverage",
        "line of a plane",
        _columns("""
run_id str run
source str file
plane str plane
line str line
table_name str table that its events went to
events_read int events on the line
rows_written int events that became rows, here or folded into another row
events_rejected int events that were refused; read = written + rejected
"""),
    ),
)

BY_NAME = {table.name: table for table in TABLES}
