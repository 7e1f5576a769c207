-- one row per program, memory, kind, scope, layer and component held at the peak
-- The values that are held at the place in a program's schedule where most bytes are held (peak_schedule_index of
-- program_memory), by what made it: bytes of all rows of a program and memory add up to its
-- peak_bytes. A buffer counts for the instruction that makes its first value.
select
    -- run
    p.run_id,
    -- processes whose programs share device numbers
    p.world,
    -- compiled program
    p.program_id,
    -- name of the program
    max(p.module) as module,
    -- number of the memory: 0 HBM, 1 VMEM, 5 host
    p.memory_space_id,
    -- HBM (host where all devices are virtual), VMEM, host, or other
    max(p.memory) as memory,
    -- argument, output, constant or temporary
    b.kind,
    -- op_name of the framework; NULL without one
    b.scope,
    -- layer of the model; of a copy that the compiler adds, that of its users
    b.layer,
    -- part of the layer, likewise; NULL where users disagree
    b.component,
    -- buffers
    cast(count(*) as bigint) as buffer_count,
    -- bytes held
    cast(sum(b.bytes) as bigint) as bytes,
    -- of all that is held
    sum(b.bytes) / nullif(cast(max(p.peak_bytes) as double), 0) as share_ratio
from program_memory_v1 as p
inner join buffers as b
    on b.run_id = p.run_id and b.world = p.world and b.program_id = p.program_id
    and b.memory_space = p.memory_space_id and b.kind <> 'thread_local'
    and b.first_use <= p.peak_schedule_index and b.last_use >= p.peak_schedule_index
group by
    p.run_id, p.world, p.program_id, p.memory_space_id, b.kind, b.scope, b.layer, b.component
