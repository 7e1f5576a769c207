-- one row per program and memory
-- What a compiled program takes of each memory of a device, by the compiler's own assignment: its
-- arguments, outputs and constants, and the memory that it allocates for temporary values, as XLA's
-- memory statistics count them. peak_bytes is the most that is held at a place in the schedule:
-- temporary values take turns, so it is at most the sum of the allocations. The bytes of the
-- program's code are not in it. A run has several programs, and their arguments may be the same.
with hosts as (
    select run_id
    from devices
    group by run_id
    having min(core) = 'cpu' and max(core) = 'cpu'
),

allocations as (
    select
        run_id, world, program_id, allocation,
        max(memory_space) as memory_space, max(module) as module, max(kind) as kind,
        max(case when is_output then 1 else 0 end) as is_output,
        max(allocation_bytes) as bytes
    from buffers
    where kind <> 'thread_local'
    group by run_id, world, program_id, allocation
),

totals as (
    select
        run_id, world, program_id, memory_space,
        max(module) as module,
        sum(bytes) as total_bytes,
        sum(case when kind = 'argument' then bytes else 0 end) as argument_bytes,
        sum(case when is_output = 1 then bytes else 0 end) as output_bytes,
        sum(case when kind = 'argument' and is_output = 1 then bytes else 0 end) as alias_bytes,
        sum(case when kind = 'constant' then bytes else 0 end) as constant_bytes,
        sum(case when kind = 'temporary' then bytes else 0 end) as temporary_bytes
    from allocations
    group by run_id, world, program_id, memory_space
),

ranked as (
    select
        *,
        row_number() over (
            partition by run_id, world, program_id, memory_space_id
            order by held_bytes desc, schedule_index
        ) as place
    from _program_memory_step_v1
    where held_bytes is not null
)

select
    -- run
    t.run_id,
    -- processes whose programs share device numbers
    t.world,
    -- compiled program
    t.program_id,
    -- name of the program
    t.module,
    -- number of the memory: 0 HBM, 1 VMEM, 5 host
    t.memory_space as memory_space_id,
    -- HBM (host where all devices are virtual), VMEM, host, or other
    case
        when t.memory_space = 0 and h.run_id is not null then 'host'
        when t.memory_space = 0 then 'HBM'
        when t.memory_space = 1 then 'VMEM'
        when t.memory_space = 5 then 'host'
        when t.memory_space is not null then 'other'
    end as memory,
    -- arguments, donated ones too
    cast(t.argument_bytes as bigint) as argument_bytes,
    -- outputs, those in donated arguments too
    cast(t.output_bytes as bigint) as output_bytes,
    -- of these, the ones in donated arguments
    cast(t.alias_bytes as bigint) as alias_bytes,
    -- constants
    cast(t.constant_bytes as bigint) as constant_bytes,
    -- allocated for temporary values
    cast(t.temporary_bytes as bigint) as temporary_bytes,
    -- all that is allocated: arguments and outputs, aliased ones once, constants, temporary values
    cast(t.total_bytes as bigint) as total_bytes,
    -- most that is held at once; NULL where the span of a buffer is not known
    r.held_bytes as peak_bytes,
    -- first place in the schedule at which so much is held
    r.schedule_index as peak_schedule_index,
    -- instruction at that place
    i.op as peak_op
from totals as t
left join hosts as h on h.run_id = t.run_id
left join ranked as r
    on r.run_id = t.run_id and r.world = t.world and r.program_id = t.program_id
    and r.memory_space_id = t.memory_space and r.place = 1
left join instructions as i
    on i.run_id = r.run_id and i.world = r.world and i.program_id = r.program_id
    and i.schedule_index = r.schedule_index
