-- one row per program of a compiled run
-- What a program needs of a device's HBM, by the compiler's assignment (buffers), against all that the
-- device has (hbm_capacity). The needs of two programs share their weights and cache. What the system itself holds is not known, so
-- that a program that needs nearly all may not fit.
with allocations as (
    select
        run_id, world, program_id, allocation,
        max(kind) as kind,
        max(scope) as scope,
        max(case when is_output then 1 else 0 end) as is_output,
        max(allocation_bytes) as bytes
    from buffers
    where kind <> 'thread_local' and memory_space = 0
    group by run_id, world, program_id, allocation
),

totals as (
    select
        run_id, world, program_id,
        sum(case when kind = 'argument' and scope like 'xlahouse.cache.%' then bytes else 0 end)
            as cache_bytes,
        sum(
            case
                when kind = 'argument' and scope like 'xlahouse.%'
                    and not (scope like 'xlahouse.cache.%') then bytes
                else 0
            end
        ) as input_bytes,
        sum(case when kind = 'argument' then bytes else 0 end) as argument_bytes,
        sum(case when kind <> 'argument' and is_output = 1 then bytes else 0 end) as output_bytes,
        sum(case when kind = 'constant' then bytes else 0 end) as constant_bytes,
        sum(case when kind = 'temporary' then bytes else 0 end) as temporary_bytes,
        sum(bytes) as bytes
    from allocations
    group by run_id, world, program_id
)

select
    -- run
    p.run_id,
    -- processes whose programs share device numbers
    p.world,
    -- compiled program
    p.program_id,
    -- prefill or decode
    p.phase,
    -- arguments that are neither cache nor input: the weights, and small tables beside them
    cast(t.argument_bytes - t.cache_bytes - t.input_bytes as bigint) as weight_bytes,
    -- keys and values: arguments that the program updates in their place
    cast(t.cache_bytes as bigint) as cache_bytes,
    -- tokens and positions
    cast(t.input_bytes as bigint) as input_bytes,
    -- results outside of arguments
    cast(t.output_bytes as bigint) as output_bytes,
    -- constants
    cast(t.constant_bytes as bigint) as constant_bytes,
    -- allocated for temporary values
    cast(t.temporary_bytes as bigint) as temporary_bytes,
    -- the program itself
    p.code_bytes,
    -- all of these together
    cast(t.bytes + p.code_bytes as bigint) as needed_bytes,
    -- HBM of the device; NULL where its kind is not in the shipped table
    c.device_bytes,
    -- needed / HBM of the device
    cast(t.bytes + p.code_bytes as double) / nullif(cast(c.device_bytes as double), 0) as used_ratio,
    -- needed is no more than the device has
    t.bytes + p.code_bytes <= c.device_bytes as fits
from programs as p
inner join totals as t
    on t.run_id = p.run_id and t.world = p.world and t.program_id = p.program_id
left join hbm_capacity_v1 as c on c.run_id = p.run_id
where p.source = 'compiled'
