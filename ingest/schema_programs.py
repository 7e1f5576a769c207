"""Tables of compiled programs: groups, pairs, instructions."""

from __future__ import annotations

from xlahouse.ingest.schema_shared import SCOPE_COLUMNS, USE_COLUMNS
from xlahouse.ingest.table import Table, columns_of

PROGRAMS = (
    Table(
        "replica_groups",
        "member of a replica group of a collective instruction",
        columns_of("""
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
        columns_of("""
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
        columns_of(f"""
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
source_line int line in that file
{USE_COLUMNS}
tick int tick of a stage-stacked pipeline, from the scope xlahouse.tick.<t>
schedule_index int place in the order of the program; a loop's body once, before the loop; NULL in fusions
executions int times that one execution of the program runs it; NULL in fusions, and where not known before
estimated_cycles int cycles that the TPU's compiler expects it to take
flops int of its dots and convolutions, in one execution; NULL of a kernel (custom call), and in fusions
hbm_bytes int least bytes that one execution reads from HBM and writes to it; NULL in fusions
collective_emitter str how the TPU's compiler transfers, such as RotatedPincerEmitter; also of what it wraps
collective_strategy str way of the data, such as UniDirection1DRingStrategy
collective_colors int parts of the data that go ways of their own, at once
collective_phases int rings that each part goes around, one after another
collective_rings str devices on these rings: phases apart by a blank, colors by a comma
collective_detail str all that the compiler says of the transfer
rendezvous str name by which the runtime joins a send and a recv of the host
slice_count int slices of TPUs that a transfer of Megascale's is between, as its target states
"""),
        ("program_id", "computation", "op"),
    ),
    Table(
        "buffers",
        "buffer of a program: memory that its values take one after another, from the compiler's assignment",
        columns_of(f"""
run_id str run
world int processes whose programs share device numbers
program_id uint compiled program
module str name of the program
buffer int number of its first value in the compiler's assignment
allocation int memory that is allocated at once; a temporary one holds many buffers
kind str argument, output, constant, temporary, or thread_local (of a call's own, and not counted)
is_output bool the program returns it; an argument that is returned is donated
memory_space int 0 HBM (on a CPU or GPU its only memory), 1 VMEM, 2 sync flags, 5 host, 6 SMEM
bytes int length
offset_bytes int where it begins in its allocation
allocation_bytes int length of the allocation
first_use int place in the schedule (instructions.schedule_index) from which on it is held
last_use int place of its last use; of arguments, outputs and constants the number of places
op str instruction that makes its first value; of arguments, results and constants, the largest one
scope str op_name of the framework
{USE_COLUMNS}
"""),
        ("program_id", "allocation", "first_use", "buffer"),
    ),
    Table(
        "programs",
        "compiled program whose HLO is known; bytes are those of one device",
        columns_of("""
run_id str run
world int processes whose programs share device numbers
program_id uint compiled program
module str name of the program
phase str prefill or decode, of a compiled run; NULL in a measured one, whose launches have it
step int 0 of a prefill, 1 of a decode step, of a compiled run
topology str chips that it was compiled for, as libtpu names them, such as v6e:2x4; NULL where not known
compiler str versions of the compiler, such as libtpu 0.0.21; NULL where not known
flags str flags of the compiler (LIBTPU_INIT_ARGS); NULL where not known
argument_bytes int arguments: weights, cache, tokens; donated ones too
output_bytes int results, those in donated arguments too
alias_bytes int of these, the ones in donated arguments
temp_bytes int temporary values as the compiler counts them, VMEM's too; NULL in a measured run
code_bytes int the program itself; NULL in a measured run
peak_bytes int most that is held at once, as the compiler counts it; NULL in a measured run
source str trace or compiled
"""),
        ("program_id",),
    ),
    Table(
        "program_collectives",
        "transfer that one execution of a program makes on a device, of a compiled run: it has no times",
        columns_of(f"""
run_id str run
device_id int device
world int processes whose programs share device numbers
program_id uint compiled program
module str name of the program
op str name of the HLO instruction
kind str METRICS, Kind of a collective: all-reduce, all-gather, collective-permute, send-recv, …
group_index int which of the instruction's replica groups
group_size int members of that group
dtype str element type
payload_bytes int S of one transfer: logical bytes of the collective instruction (METRICS, Bytes)
executions int times that one execution of the program makes it; NULL where decided at run time
is_async bool a start/done pair
phase str prefill or decode
step int 0 of a prefill, 1 of a decode step
{SCOPE_COLUMNS}
"""),
        ("device_id", "program_id", "op"),
    ),
)
