-- one row per program, memory and place in its schedule at which the memory held changes
-- A buffer is held from its first use up to its last use, both included; arguments, outputs and
-- constants from the start of the program to its end. Memory that a call uses for itself
-- (thread_local) is not counted, as in XLA's statistics. Where the span of a temporary buffer is not
-- known, the bytes held are NULL.
with counted as (
    select * from buffers where kind <> 'thread_local'
),

unplaced as (
    select run_id, world, program_id, memory_space, count(*) - count(first_use) as unknown
    from counted
    group by run_id, world, program_id, memory_space
),

changes as (
    select run_id, world, program_id, module, memory_space, first_use as place, bytes
    from counted
    union all
    select run_id, world, program_id, module, memory_space, last_use + 1, -bytes
    from counted
),

summed as (
    select
        run_id, world, program_id, memory_space, place,
        max(module) as module,
        sum(bytes) as change_bytes
    from changes
    where place is not null
    group by run_id, world, program_id, memory_space, place
)

select
    -- run
    s.run_id,
    -- processes whose programs share device numbers
    s.world,
    -- compiled program
    s.program_id,
    -- name of the program
    s.module,
    -- number of the memory, as layouts have it
    s.memory_space as memory_space_id,
    -- place in the schedule, from which on the bytes are held
    s.place as schedule_index,
    -- bytes held; NULL where the span of a buffer is not known
    case
        when u.unknown = 0
            then cast(
                sum(s.change_bytes) over (
                    partition by s.run_id, s.world, s.program_id, s.memory_space
                    order by s.place
                    rows between unbounded preceding and current row
                ) as bigint
            )
    end as held_bytes
from summed as s
inner join unplaced as u
    on u.run_id = s.run_id and u.world = s.world and u.program_id = s.program_id
    and u.memory_space = s.memory_space
