-- one row per run, phase and hundredth of the period
-- What the busiest device of a run sends in the course of a step, its axes summed
-- (traffic_profile_v1): the one that sends most a second; of those that are equal to within a byte, which
-- is more than the rounding of their sums, the lowest number. Warm-up and compile phases are left out. A
-- run's phases in which nothing is sent have no rows. Not known where any device may send an unknown
-- number of bytes, or devices are virtual: their periods are not those of an accelerator.
with bins as (
    select
        run_id, device_id, phase, bin, max(period_ps) as period_ps,
        case when count(bytes_per_s) = count(*) then sum(bytes_per_s) end as bytes_per_s
    from traffic_profile_v1
    where phase is distinct from 'warmup' and phase is distinct from 'compile'
    group by run_id, device_id, phase, bin
),

senders as (
    select
        b.run_id, b.device_id, b.phase,
        case when count(b.bytes_per_s) = count(*) then sum(b.bytes_per_s) end as total_bytes_per_s,
        max(case when d.inferred or d.core = 'cpu' then 1 else 0 end) as virtual_devices
    from bins as b
    inner join devices as d on d.run_id = b.run_id and d.device_id = b.device_id
    group by b.run_id, b.device_id, b.phase
),

ranked as (
    select
        *,
        row_number() over (
            partition by run_id, phase order by round(total_bytes_per_s) desc nulls last, device_id
        ) as place,
        max(case when total_bytes_per_s is null then 1 else virtual_devices end) over (
            partition by run_id, phase
        ) as unknown_devices
    from senders
)

select
    -- run
    b.run_id,
    -- phase of the steps; NULL outside every marker
    b.phase,
    -- the busiest device
    b.device_id,
    -- hundredth of the period, from 0
    b.bin,
    -- median period of its steps
    b.period_ps,
    -- what it sends, mean; NULL where any device's demand is not known
    case when r.unknown_devices = 0 then b.bytes_per_s end as bytes_per_s
from bins as b
inner join ranked as r
    on r.run_id = b.run_id and r.device_id = b.device_id and r.phase is not distinct from b.phase
where r.place = 1
