-- one row per allocator of a device's memory and time at which it allocates or frees
-- From the counters that allocators leave in a trace.
with samples as (
    select
        run_id, device_id, start_ps, value,
        name like '% peak_bytes_in_use' as is_peak,
        replace(replace(name, ' peak_bytes_in_use', ''), ' bytes_in_use', '') as allocator
    from counters
    where name like '% bytes_in_use' or name like '% peak_bytes_in_use'
),

stated as (
    select
        run_id, device_id, allocator, start_ps,
        max(case when not is_peak then value end) as in_use_bytes,
        max(case when is_peak then value end) as peak_bytes
    from samples
    group by run_id, device_id, allocator, start_ps
)

select
    -- run
    run_id,
    -- device; NULL where the allocator's name states none of the file's devices
    device_id,
    -- allocator, such as TPU_0_hbm
    allocator,
    -- time of the allocation or release
    start_ps,
    -- bytes in use afterwards; NULL where the allocator does not state them
    cast(in_use_bytes as bigint) as in_use_bytes,
    -- most bytes in use at any time so far; NULL where the allocator does not state them
    cast(peak_bytes as bigint) as peak_bytes
from stated
