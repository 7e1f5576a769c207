-- one row per program and instruction that the compiler gives a cost
-- Cycles that the TPU's compiler expects of an instruction, in all its executions in one execution of
-- the program: of fusions and some copies, never of collectives. They are neither a measurement nor a time:
-- the clock is not stated. cycles_ratio is the share of all cycles that the program's compiler states.
with costs as (
    select
        run_id, world, program_id, module, op, opcode, layer, component, framework_op,
        executions, estimated_cycles,
        executions * estimated_cycles as cycles
    from instructions
    where schedule_index is not null and estimated_cycles is not null
),

totals as (
    select run_id, world, program_id, sum(cycles) as cycles
    from costs
    group by run_id, world, program_id
)

select
    -- run
    c.run_id,
    -- processes whose programs share device numbers
    c.world,
    -- compiled program
    c.program_id,
    -- name of the program
    c.module,
    -- prefill or decode, of a compiled run; NULL in a measured one
    p.phase,
    -- instruction
    c.op,
    -- HLO opcode
    c.opcode,
    -- layer of the model; of a copy that the compiler adds, that of its users
    c.layer,
    -- part of the layer, likewise; NULL where users disagree
    c.component,
    -- op_name of the framework
    c.framework_op,
    -- times that one execution of the program runs it; NULL where decided at run time
    c.executions,
    -- cycles of one execution of it
    c.estimated_cycles,
    -- cycles of all its executions; NULL where their number is not known
    cast(c.cycles as bigint) as cycles,
    -- of all cycles that are known in the program
    cast(c.cycles as double) / nullif(cast(t.cycles as double), 0) as cycles_ratio
from costs as c
inner join totals as t
    on t.run_id = c.run_id and t.world = c.world and t.program_id = c.program_id
left join programs as p
    on p.run_id = c.run_id and p.world = c.world and p.program_id = c.program_id
