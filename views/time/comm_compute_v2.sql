-- one row per run and phase
-- Sums of device_time over devices and steps. SparseCores are left out: their idle time would hide
-- the rest. exposed_ratio is the share of communication that no compute op hides. A period is the
-- window and the time before it, since the device's previous step: periods add up to the wall time of
-- the devices, less the time with no request open. Each instant of it is in one part: period =
-- compute + exposed + exposed_copy + sync_wait + idle + between_steps + outside. So idle_ratio, the
-- share of idle and between_steps, and the share of all else, ops outside steps included, add up to 1.
-- A device that has no step is left out, unless the run has no step at all.
with counted as (
    select *, max(step) over (partition by run_id) as last_step
    from device_time_v1
    where core is distinct from 'sparsecore'
),

summed as (
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
        sum(idle_ps) as idle_ps,
        sum(period_ps) as period_ps,
        sum(between_requests_ps) as between_requests_ps
    from counted
    where step is not null or last_step is null
    group by run_id, phase
),

between_steps as (
    select w.run_id, w.phase, sum(b.end_ps - b.start_ps) as between_steps_ps
    from _between_steps_v2 as b
    inner join _step_window_v1 as w on w.window_key = b.window_key
    group by w.run_id, w.phase
),

joined as (
    select
        s.*,
        case when s.period_ps is not null then coalesce(b.between_steps_ps, 0) end
            as between_steps_ps
    from summed as s
    left join between_steps as b
        on b.run_id = s.run_id and b.phase is not distinct from s.phase
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
    -- nothing runs within the windows
    cast(idle_ps as bigint) as idle_ps,
    -- length of the periods: the windows, and the time before each since the device's previous step,
    -- without between_requests; NULL where requests are marked and clocks cannot be compared
    cast(period_ps as bigint) as period_ps,
    -- nothing runs before a step, within its period; NULL as the period
    cast(between_steps_ps as bigint) as between_steps_ps,
    -- ops that belong to no step run before a step, within its period; NULL as the period
    cast(period_ps - window_ps - between_steps_ps as bigint) as outside_ps,
    -- time before a step in which no request was open, outside the periods; NULL as the period
    cast(between_requests_ps as bigint) as between_requests_ps,
    -- collective / compute
    cast(collective_ps as double) / nullif(cast(compute_ps as double), 0) as comm_compute_ratio,
    -- exposed / collective
    cast(exposed_ps as double) / nullif(cast(collective_ps as double), 0) as exposed_ratio,
    -- (idle + between_steps) / period: share of wall time in which the devices are idle
    cast(idle_ps + between_steps_ps as double) / nullif(cast(period_ps as double), 0) as idle_ratio,
    -- idle / window
    cast(idle_ps as double) / nullif(cast(window_ps as double), 0) as idle_in_step_ratio
from joined
