-- one row per run and phase
-- Sums of device_time over devices and steps. SparseCores are left out: their idle time would hide
-- the rest. exposed_ratio is the share of communication that no compute op hides.
with summed as (
    select
        run_id,
        phase,
        count(*) as steps,
        count(distinct device_id) as devices,
        sum(window_ps) as window_ps,
        sum(compute_ps) as compute_ps,
        sum(collective_ps) as collective_ps,
        sum(overlapped_ps) as overlapped_ps,
        sum(exposed_ps) as exposed_ps,
        sum(copy_ps) as copy_ps,
        sum(exposed_copy_ps) as exposed_copy_ps,
        sum(sync_wait_ps) as sync_wait_ps,
        sum(busy_ps) as busy_ps,
        sum(idle_ps) as idle_ps
    from device_time_v1
    where core is distinct from 'sparsecore'
    group by run_id, phase
)

select
    -- run
    run_id,
    -- prefill, decode, mixed, warmup, compile or step; NULL outside every marker
    phase,
    -- windows that were summed: steps times devices
    cast(steps as bigint) as device_steps,
    -- devices with these windows
    cast(devices as bigint) as devices,
    -- length of the windows
    cast(window_ps as bigint) as window_ps,
    -- a compute op runs
    cast(compute_ps as bigint) as compute_ps,
    -- a collective is in flight
    cast(collective_ps as bigint) as collective_ps,
    -- a collective is in flight while a compute op runs
    cast(overlapped_ps as bigint) as overlapped_ps,
    -- a collective is in flight and no compute op runs
    cast(exposed_ps as bigint) as exposed_ps,
    -- a copy or host transfer runs
    cast(copy_ps as bigint) as copy_ps,
    -- a copy or host transfer runs, no compute op does and no collective is in flight
    cast(exposed_copy_ps as bigint) as exposed_copy_ps,
    -- only a barrier wait runs
    cast(sync_wait_ps as bigint) as sync_wait_ps,
    -- compute + exposed + exposed_copy
    cast(busy_ps as bigint) as busy_ps,
    -- nothing runs
    cast(idle_ps as bigint) as idle_ps,
    -- collective / compute
    cast(collective_ps as double) / nullif(cast(compute_ps as double), 0) as comm_compute_ratio,
    -- exposed / collective
    cast(exposed_ps as double) / nullif(cast(collective_ps as double), 0) as exposed_ratio,
    -- idle / window
    cast(idle_ps as double) / nullif(cast(window_ps as double), 0) as idle_ratio
from summed
