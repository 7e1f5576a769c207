"""Tables of compiled programs: groups, pairs, instructions."""

from __future__ import annotations

from xlahouse.ingest.schema_shared import SCOPE_COLUMNS
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
{SCOPE_COLUMNS}
tick int tick of a stage-stacked pipeline, from the scope xlahouse.tick.<t>
"""),
        ("program_id", "computation", "op"),
    ),
)
