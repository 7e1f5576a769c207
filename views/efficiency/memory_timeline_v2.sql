-- one row per allocator and time, or per program, memory and place in its schedule
-- Memory in use. source allocator: the counters that allocators leave in a trace, measured; the
-- peak of a device's HBM is the largest peak_bytes of its allocator, which may be of a time before
-- the profile. source program: what a program's buffers hold from a place in its schedule on, by the
-- compiler's assignment, on each of its devices; peak_bytes is the most so far. program_memory has
-- the totals of each program, memory_at_peak what is held at its peak.
with placed as (
    select
        m.*,
        i.op,
        max(m.held_bytes) over (
            partition by m.run_id, m.world, m.program_id, m.memory_space_id
            order by m.schedule_index
            rows between unbounded preceding and current row
        ) as peak_bytes
    from _program_memory_step_v1 as m
    left join instructions as i
        on i.run_id = m.run_id and i.world = m.world and i.program_id = m.program_id
        and i.schedule_index = m.schedule_index
),

everything as (
    select
        run_id, 'program' as source,
        cast(null as bigint) as device_id,
        cast(null as varchar) as allocator,
        cast(null as bigint) as start_ps,
        world, program_id, module, memory_space_id, schedule_index, op,
        held_bytes as in_use_bytes,
        peak_bytes
    from placed
    union all
    select
        run_id, 'allocator', device_id, allocator, start_ps, null, null, null, null, null, null,
        in_use_bytes, peak_bytes
    from _allocator_sample_v1
)

select
    -- run
    run_id,
    -- allocator (measured) or program (compiled)
    source,
    -- device; NULL where the allocator's name states none of the file's devices, and of programs
    device_id,
    -- allocator, such as TPU_0_hbm; NULL of programs
    allocator,
    -- time of the allocation or release; NULL of programs
    start_ps,
    -- processes whose programs share device numbers; NULL of allocators
    world,
    -- compiled program; NULL of allocators
    program_id,
    -- name of the program; NULL of allocators
    module,
    -- number of the memory, 0 HBM, 1 VMEM, 5 host; NULL of allocators
    memory_space_id,
    -- place in the schedule; NULL of allocators
    schedule_index,
    -- instruction at that place; NULL of allocators, and at the program's end
    op,
    -- bytes in use from then on; NULL where they are not known
    in_use_bytes,
    -- most bytes in use at any time so far; NULL where they are not known
    peak_bytes
from everything
