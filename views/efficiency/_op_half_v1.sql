-- one row per run, program and op that is half of an async pair
-- A done and an update belong to the start that is their operand, seen through one update.
with known as (
    select run_id, program_id, op, min(opcode) as opcode, min(operands) as operand
    from instructions
    group by run_id, program_id, op
),

halves as (
    select
        run_id, program_id, op, operand,
        case
            when opcode like '%-start' then 'start'
            when opcode like '%-update' then 'update'
            when opcode like '%-done' then 'done'
        end as half
    from known
)

select
    -- run
    h.run_id,
    -- compiled program
    h.program_id,
    -- name of the HLO instruction
    h.op,
    -- start, update or done
    h.half,
    -- the start of its pair; NULL where unknown
    case
        when h.half = 'start' then h.op
        when o.half = 'update' then o.operand
        else h.operand
    end as start_op
from halves as h
left join halves as o
    on o.run_id = h.run_id and o.program_id = h.program_id and o.op = h.operand
where h.half is not null
